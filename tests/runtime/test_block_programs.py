"""Parallel blocks of real programs: many at once, each reattached to by a later engine."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.agents import PATIENT, EngineProcess, agents, end_left, engine
from tests.runtime.attempt_run import eventually, lives
from tests.sdk.blocks import branch_dir
from tests.sdk.projects import eventually as soon
from tests.sdk.projects import load, pipeline, run, run_dir, types

from agentforge.views.results import RunResult

QUICK = """
echo "$MOCK_ITERATION of $AGENTFORGE_ATTEMPT"
printf '{"summary": "%s"}' "$MOCK_ITERATION" > "$MOCK_RESULT_FILE"
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    end_left(tmp_path)


def block(names: list[str], script: str, runs: int = 1) -> dict[str, Any]:
    """Every provider is the same program under a name of its own."""
    providers = [{"name": name, "type": "command", "run": script} for name in names]
    stage = {"id": "draft", "prompt": "do it", "runs": runs, "delay": 0, "retry": {"initial_delay": 0}}
    return {"id": "duel", "parallel": {"providers": providers, "stages": [stage]}}


def cursors(project: Path, kind: str) -> list[tuple[str, int]]:
    lines = (run_dir(project) / "events.jsonl").read_bytes().splitlines()
    found = [event["cursor"] for event in map(json.loads, lines) if event["type"] == kind]
    return sorted((cursor["provider"], cursor["iteration"]) for cursor in found)


@pytest.mark.parametrize("count", [4, 8])
def test_many_programs_at_once_lose_and_tear_no_event(project: Path, count: int) -> None:
    names = [f"p{number}" for number in range(count)]

    async def main() -> RunResult:
        async with engine(project) as sdk:
            return await sdk.run(pipeline(block(names, QUICK, runs=2)), session="s")

    assert run(main(), 60).completed
    everything = [(name, number) for name in names for number in (1, 2)]
    for kind in ("iteration_start", "attempt_start", "worker_complete", "iteration_complete"):
        assert cursors(project, kind) == everything
    for name, number in everything:
        here = branch_dir(project, name) / "stage-00-draft" / "iterations" / f"{number:03d}"
        said = (here / "output.md").read_text()
        assert said.startswith(f"{number} of ")
        assert f"/0.0@{name}/1/{number}/1" in said
        assert load(here / "result.json")["summary"] == str(number)


def test_agents_of_all_branches_outlive_the_engine_and_are_reattached_to(project: Path) -> None:
    names = ["a", "b", "c"]
    first = EngineProcess(project, block(names, PATIENT))
    eventually(lambda: len(agents(project)) == 3)
    first.kill()
    assert all(lives(pid) for pid in agents(project))

    async def main() -> RunResult | None:
        async with engine(project) as sdk:
            (project / "go").touch()
            return await sdk.recover("s")

    result = run(main())
    assert result is not None
    assert result.completed
    assert len(agents(project)) == 3, "each agent ran once"
    assert cursors(project, "iteration_complete") == [(name, 1) for name in names]
    assert "attempt_lost" not in types(project)
    assert load(run_dir(project) / "parallel-00-duel" / "manifest.json")["providers"].keys() == set(names)


def test_branch_whose_agent_died_with_the_engine_is_restarted_and_the_other_reattached(
    project: Path,
) -> None:
    first = EngineProcess(project, block(["a", "b"], PATIENT))
    eventually(lambda: len(agents(project)) == 2)
    first.kill()
    claim = branch_dir(project, "a") / "stage-00-draft" / "iterations" / "001" / "attempt-1" / "claim"
    supervisor = json.loads(claim.read_text())["pid"]
    os.kill(supervisor, signal.SIGKILL)
    (project / "go").touch()

    async def main() -> RunResult | None:
        async with engine(project) as sdk:
            return await sdk.recover("s")

    result = run(main())
    assert result is not None
    assert result.completed
    assert cursors(project, "attempt_lost") == [("a", 1)]
    assert cursors(project, "attempt_start") == [("a", 1), ("a", 1), ("b", 1)]
    assert cursors(project, "iteration_complete") == [("a", 1), ("b", 1)]


def test_pause_now_ends_the_programs_of_all_branches(project: Path) -> None:
    async def main() -> RunResult:
        async with engine(project) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(block(["a", "b"], PATIENT)), session="s"))
            await soon(lambda: len(agents(project)) == 2)
            await sdk.pause("s", now=True)
            return await going

    assert run(main()).status == "paused"
    assert not any(lives(pid) for pid in agents(project))
    assert cursors(project, "attempt_cancelled") == [("a", 1), ("b", 1)]
