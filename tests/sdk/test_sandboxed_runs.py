"""Runs whose agents are confined: they do their work, and can't touch the record of it."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import ENVIRON, engine, iteration_dir, load, node, pipeline, run, run_dir, types

from agentforge.adapters.sandboxes.bwrap import BwrapSandbox
from agentforge.model import facts as f
from agentforge.model.errors import ProviderUnusable
from agentforge.model.plan import SandboxChoice
from agentforge.model.status import RunStatus


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """On disk: in the sandbox, /dev/shm is another one."""
    return tmp_path_factory.mktemp("sandboxed")


@pytest.fixture(autouse=True)
def bwrap() -> None:
    try:
        BwrapSandbox().probe(SandboxChoice(type="bwrap"))
    except ProviderUnusable as error:
        pytest.skip(f"sandbox: {error.message}; {error.hint}")


def confined(script: str, **changes: Any) -> dict[str, Any]:
    provider = {"type": "command", "run": script}
    return node(provider=provider, sandbox="bwrap", retry={"max_attempts": 1}, **changes)


WORK = """
echo working > made
printf '{"summary": "done"}' > "$AGENTFORGE_RESULT"
echo learned >> "$(dirname "$AGENTFORGE_RESULT")/../../progress.md"
"""


@pytest.mark.requirement("NFR-015")
def test_a_confined_agent_does_its_work(tmp_path: Path) -> None:
    ended = run(engine(tmp_path).run(pipeline(confined(WORK, runs=2)), session="s"))
    assert ended.status is RunStatus.COMPLETED
    assert (tmp_path / "made").read_text() == "working\n"
    assert load(iteration_dir(tmp_path, 2) / "result.json")["summary"] == "done"
    assert (run_dir(tmp_path) / "stage-00-plan/progress.md").read_text().count("learned\n") == 2


def test_a_confined_agent_cannot_touch_the_record_of_its_run(tmp_path: Path) -> None:
    attempts = """
    run=.claude/pipeline-runs/s
    here=$(dirname "$AGENTFORGE_RESULT")
    try() { if (eval "$1") 2>/dev/null; then echo "could: $1"; fi; }
    for file in $run/events.jsonl $run/plan.json $run/state.json $here/attempt-1/*; do
        try "echo x >> $file"
        try "rm $file"
    done
    try "echo x > $here/attempt-1/exit.json"
    try "echo x > $run/control/pause"
    try "mkdir $run/answers/x"
    try "mkdir .claude/pipeline-runs/other"
    try "mv .claude .gone"
    try "mv $run $run-gone"
    """
    ended = run(engine(tmp_path).run(pipeline(confined(attempts + WORK)), session="s"))
    assert ended.status is RunStatus.COMPLETED
    assert "could" not in (iteration_dir(tmp_path) / "attempt-1/output.log").read_text()
    assert types(tmp_path)[-1] == "session_complete"


@pytest.mark.requirement("NFR-015")
def test_a_confined_agent_does_not_see_the_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    project = tmp_path / "project"
    for folder in (home, project):
        folder.mkdir()
    (home / "private").write_text("private")
    script = f'ls "$HOME" > seen; ls {home} >> seen; {WORK}'
    environ = {**ENVIRON, "HOME": str(home)}
    run(engine(project, environ=environ).run(pipeline(confined(script)), session="s"))
    assert (project / "seen").read_text() == ""


def test_a_missing_sandbox_fails_with_a_hint(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "cat"):
        (tools / name).symlink_to(shutil.which(name) or "")
    environ = {"PATH": str(tools)}
    try:
        run(engine(tmp_path, environ=environ).run(pipeline(confined(WORK)), session="s"))
    except ProviderUnusable as error:
        said = f"{error.message} {error.hint}"
    else:
        said = json.dumps([load(path) for path in run_dir(tmp_path).rglob("error.json")])
    assert "bwrap" in said
    assert "apt-get install bubblewrap" in said
    assert not (tmp_path / "made").exists()
    assert os.access(tools / "sh", os.X_OK)


def test_the_script_of_a_hook_runs_in_the_sandbox_of_its_stage(tmp_path: Path) -> None:
    script = """
    run=.claude/pipeline-runs/s
    try() { if (eval "$1") 2>/dev/null; then echo "could: $1"; fi; }
    try "cat $run/events.jsonl"
    try "echo x >> $run/state.json"
    try "touch $run/hooks/$AGENTFORGE_DELIVERY/attempt-1/exit.json"
    echo checked > made-by-hook
    """
    hooks = {"stage_end": [{"action": "script", "script": script}]}

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            ended = await sdk.run(pipeline(confined(WORK), hooks=hooks), session="s")
            assert ended.completed, ended
            (answer,) = [event.fact for event in sdk.events("s") if isinstance(event.fact, f.HookCompleted)]
            assert answer.context == ""

    run(main())
    assert (tmp_path / "made-by-hook").read_text() == "checked\n"
