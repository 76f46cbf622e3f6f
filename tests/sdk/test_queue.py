"""Queue stages end to end: worked off with a stand-in for `bd`, and refused clearly without one."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import ENVIRON, iteration_dir, load, node, pipeline, run, run_dir, types

from agentforge.model.errors import ProviderUnusable
from agentforge.ports.provider import ExecuteRequest
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider, assert_iteration_count
from agentforge.testing.mock_sessions import ObservedSession
from agentforge.testing.scripted_provider import Act, says
from agentforge.views.results import RunResult

BD = """#!/bin/sh
echo "$@" >> "{folder}/asked"
cat "{folder}/tasks"
"""


def queue(most: int = 9, **termination: Any) -> dict[str, Any]:
    return node(runs=most, termination={"type": "queue", "max": most, **termination})


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with a `bd` that lists the lines of `tasks`."""
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "bd").write_text(BD.format(folder=folder))
    (folder / "bd").chmod(0o755)
    return folder


def go(
    project: Path, tools: Path | None, stage: dict[str, Any], *, does: Act | None = None, **environ: str
) -> RunResult:
    path = f"{tools}:{ENVIRON['PATH']}" if tools else ENVIRON["PATH"]
    project.mkdir(exist_ok=True)

    def works(request: ExecuteRequest) -> Act:
        if tools is not None:
            left = (tools / "tasks").read_text().splitlines()[1:]
            (tools / "tasks").write_text("".join(f"{line}\n" for line in left))
        return does or says(f"did {request.iteration}")

    async def main() -> RunResult:
        cast = {"scripted": ScriptedProvider(works)}
        async with Engine(project, providers=cast, environ={**ENVIRON, "PATH": path, **environ}) as sdk:
            return await sdk.run(pipeline(stage), session="s")

    return run(main())


def said(project: Path, kind: str) -> list[dict[str, Any]]:
    lines = (run_dir(project) / "events.jsonl").read_bytes().splitlines()
    return [event["data"] for event in map(json.loads, lines) if event["type"] == kind]


def test_stage_ends_when_the_queue_of_the_session_is_empty(tmp_path: Path, tools: Path) -> None:
    (tools / "tasks").write_text("task-1\ntask-2\n\n  \ntask-3\n")
    project = tmp_path / "project"
    assert go(project, tools, queue()).completed
    assert (tools / "asked").read_text().splitlines()[0] == "ready --label=pipeline/s"
    assert said(project, "queue_checked")[-1] == {"remaining": 0}
    assert said(project, "node_complete")[0]["reason"] == "All beads complete"


def test_check_before_spends_nothing_on_an_empty_queue(tmp_path: Path, tools: Path) -> None:
    (tools / "tasks").write_text("")
    project = tmp_path / "project"
    assert go(project, tools, queue(check_before=True)).completed
    assert_iteration_count(ObservedSession(project, "s"), 0)
    assert types(project) == [
        "session_start",
        "node_start",
        "queue_checked",
        "node_complete",
        "session_complete",
    ]


def test_label_prefix_of_the_environment_is_used(tmp_path: Path, tools: Path) -> None:
    (tools / "tasks").write_text("")
    go(tmp_path / "project", tools, queue(check_before=True), BEADS_LABEL_PREFIX="loop/")
    assert (tools / "asked").read_text() == "ready --label=loop/s\n"


def test_queue_stage_ends_at_its_maximum(tmp_path: Path, tools: Path) -> None:
    (tools / "tasks").write_text("task\n" * 50)
    project = tmp_path / "project"
    assert go(project, tools, queue(3)).completed
    assert_iteration_count(ObservedSession(project, "s"), 3)
    assert said(project, "node_complete")[0]["reason"] == "max_iterations"


@pytest.mark.parametrize("mock", [{}, {"MOCK_MODE": "1"}], ids=["agents", "mock mode"])
def test_a_run_that_needs_bd_does_not_start_without_it(tmp_path: Path, mock: dict[str, str]) -> None:
    project = tmp_path / "project"
    with pytest.raises(ProviderUnusable, match="stage 'plan' ends when its queue is empty") as caught:
        go(project, None, queue(), **mock)
    assert "Missing required command: bd" in caught.value.message
    assert "npm install -g @beads/bd" in caught.value.message
    assert not run_dir(project).exists()


def test_bd_failure_is_reported_with_its_output_and_the_run_can_be_resumed(
    tmp_path: Path, tools: Path
) -> None:
    project = tmp_path / "project"
    (tools / "tasks").write_text("")
    good = (tools / "bd").read_text()
    (tools / "bd").write_text("#!/bin/sh\necho 'database is locked' >&2\nexit 4\n")
    result = go(project, tools, queue())
    assert result.error == "`bd ready --label=pipeline/s` exited with 4: database is locked"
    error = load(iteration_dir(project) / "error.json")
    assert (error["type"], error["message"]) == ("queue_unreadable", result.error)
    assert (error["iteration"], error["attempt"]) == (1, None)
    (tools / "bd").write_text(good)

    async def again() -> RunResult:
        cast = {"scripted": ScriptedProvider([says("x")])}
        path = f"{tools}:{ENVIRON['PATH']}"
        async with Engine(project, providers=cast, environ={**ENVIRON, "PATH": path}) as sdk:
            return await sdk.resume("s")

    assert run(again()).completed
    assert_iteration_count(ObservedSession(project, "s"), 1)


def test_agent_error_stops_a_queue_stage_at_once(tmp_path: Path, tools: Path) -> None:
    (tools / "tasks").write_text("task\n" * 5)
    result = go(tmp_path / "project", tools, queue(), does=says("no", "error"))
    assert result.error_type == "agent_error"
    assert not (tools / "asked").exists()
