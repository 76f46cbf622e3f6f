"""What becomes of an agent's work around its end: before its start, at its cancellation, in its sandbox."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.agents import ENVIRON, PATIENT, EngineProcess, agents, end_left, engine, shell
from tests.runtime.attempt_run import eventually
from tests.sdk.projects import iteration_dir, pipeline, run, run_dir, types

from agentforge.model.status import RunStatus
from agentforge.views.results import RunResult

WRITES = 'printf \'{"summary": "done"}\' > "$MOCK_RESULT_FILE"'


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "project"
    folder.mkdir()
    yield folder
    end_left(folder)


def go(project: Path, *nodes: dict[str, Any], **options: Any) -> RunResult:
    async def main() -> RunResult:
        async with engine(project, **options) as sdk:
            return await sdk.run(pipeline(*nodes), session="s")

    return run(main())


def facts(project: Path, kind: str) -> list[dict[str, Any]]:
    lines = (run_dir(project) / "events.jsonl").read_bytes().splitlines()
    return [event["data"] for event in map(json.loads, lines) if event["type"] == kind]


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_file_that_the_agent_wrote_at_the_output_path_stays(project: Path) -> None:
    (project / "out.md").write_text("of last week")
    assert go(project, shell(f"echo said; echo mine > out.md; {WRITES}", output_path="out.md")).completed
    assert (project / "out.md").read_text() == "mine\n"


def test_an_agent_that_could_not_be_started_may_be_retried_where_work_is_done_once(
    project: Path, tmp_path: Path
) -> None:
    agent = program(tmp_path / "tools", "agent", "#!/no/such/interpreter\n")
    node = shell("", semantics="at_most_once") | {"provider": {"type": "command", "argv": [str(agent)]}}
    result = go(project, node)
    assert (result.status, result.error_type) == (RunStatus.FAILED, "provider_missing")
    assert facts(project, "error")[0]["started"] is False


def test_a_model_without_its_key_needs_a_login(project: Path) -> None:
    result = go(project, shell("") | {"provider": {"type": "api", "model": "anthropic:claude-sonnet-5-5"}})
    assert result.error_type == "provider_auth"
    assert "set the environment variable ANTHROPIC_API_KEY" in str(result.error)


def test_what_an_agent_had_done_when_it_was_cancelled_counts(project: Path) -> None:
    EngineProcess(project, shell(PATIENT, runs=2)).kill_while_running()
    (project / "go").touch()
    eventually((iteration_dir(project) / "attempt-1" / "exit.json").exists)

    async def main() -> RunResult | None:
        async with engine(project) as sdk:
            return await sdk.cancel("s")

    result = run(main())
    assert result is not None
    assert result.status is RunStatus.ABORTED
    assert types(project)[-3:] == ["attempt_ending", "iteration_complete", "session_aborted"]
    assert len(agents(project)) == 1


# Runs what a container would run, with no container around it.
DOCKER = """#!/bin/sh
[ "$1" = version ] && { echo 27.0; exit; }
[ "$1" = rm ] && { echo "$@" >> __NOTES__; exit; }
echo "$@" >> __NOTES__
while IFS= read -r line; do export "$line"; done < /dev/fd/3
while [ "$1" != agents:1 ]; do shift; done
shift
exec "$@"
"""


@pytest.mark.parametrize(("network", "named"), [(True, "bridge"), (False, "none")])
def test_an_agent_runs_in_the_sandbox_that_its_stage_names(
    project: Path, tmp_path: Path, network: bool, named: str
) -> None:
    notes = tmp_path / "notes"
    docker = program(tmp_path / "tools", "docker", DOCKER.replace("__NOTES__", str(notes)))
    environ = {**ENVIRON, "PATH": f"{docker.parent}:{ENVIRON['PATH']}"}
    sandbox = {"type": "docker", "image": "agents:1", "network": network}
    assert go(project, shell(WRITES, sandbox=sandbox), environ=environ).completed
    started, removed = notes.read_text().splitlines()
    runs = f"{project}/.claude/pipeline-runs"
    assert f"--network {named}" in started
    assert f"--tmpfs {runs}:ro" in started
    assert removed.startswith("rm -f agentforge-")
    assert go_unconfined_notes(project, environ, notes) == 2


@pytest.mark.parametrize(("needs", "named"), [({"needs": "network"}, "bridge"), ({}, "none")])
def test_checks_and_hooks_that_need_the_network_have_it_in_a_sandbox_without_one(
    project: Path, tmp_path: Path, needs: dict[str, str], named: str
) -> None:
    notes = tmp_path / "notes"
    docker = program(tmp_path / "tools", "docker", DOCKER.replace("__NOTES__", str(notes)))
    environ = {**ENVIRON, "PATH": f"{docker.parent}:{ENVIRON['PATH']}"}
    work = shell(
        WRITES,
        sandbox={"type": "docker", "image": "agents:1", "network": False},
        checks=[{"name": "audit", "run": "true", **needs}],
    )
    hooks = {"stage_end": [{"action": "script", "script": "true", **needs}]}
    assert run(engine(project, environ=environ).run(pipeline(work, hooks=hooks), session="s")).completed
    started = [
        line.split("--network ")[1].split()[0]
        for line in notes.read_text().splitlines()
        if "run" in line.split()
    ]
    assert started == ["none", named, named]


def go_unconfined_notes(project: Path, environ: dict[str, str], notes: Path) -> int:
    """A stage without a sandbox asks for none: how many lines are noted after it."""

    async def main() -> RunResult:
        async with engine(project, environ=environ) as sdk:
            return await sdk.run(pipeline(shell(WRITES)), session="free")

    assert run(main()).completed
    return len(notes.read_text().splitlines())
