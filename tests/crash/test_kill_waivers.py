"""What a person skips, a check or a stage, stays skipped, whenever the engine dies."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import cut_log, engine, node, pipeline, run, run_dir, types

from agentforge import RunResult

from .case import CrashRun, Cut
from .scenarios import SCENARIOS, SESSION
from .story import Story

FAILS = [{"name": "test", "run": "exit 1"}]
REASON = {"test": "the server is down"}


@pytest.mark.parametrize("skipped", [{"skip_checks": REASON}, {"skip": {"plan": "done by hand"}}])
def test_waiver_of_a_new_run_is_in_the_first_event(skipped: dict[str, Any], tmp_path: Path) -> None:
    """As if the engine had died after each line that it wrote."""

    async def started() -> RunResult:
        async with engine(tmp_path) as sdk:
            return await sdk.run(pipeline(node(checks=FAILS)), session="s", **skipped)

    async def recovered() -> RunResult | None:
        async with engine(tmp_path) as sdk:
            return await sdk.recover("s")

    assert run(started()).completed
    whole = (run_dir(tmp_path) / "events.jsonl").read_bytes().splitlines(keepends=True)
    for lines in range(1, len(whole)):
        cut_log(tmp_path, whole[:lines])
        result = run(recovered())
        assert result is not None
        assert result.completed
        assert "check_start" not in types(tmp_path)
        assert types(tmp_path).count("stage_verdict") == 1
        assert ("iteration_start" in types(tmp_path)) == ("skip_checks" in skipped)


def asked(base: Path) -> CrashRun:
    """A run whose check fails, and that asks whether to go back once more."""
    scenario = SCENARIOS["checked"]
    limited = scenario.nodes.replace("on: {fail: build}", "on: {fail: build}, limits: {no_progress: 1}")
    crashed = CrashRun(base, replace(scenario, nodes=limited, agent={"AGENT_FAILS": "1/1/check/test"}))
    crashed.turn(crashed.story.scenario.command)
    assert crashed.story.open_requests()
    return crashed


def told(story: Story, *kinds: str) -> list[str]:
    return [event["type"] for event in story.events() if event["type"] in kinds]


@pytest.mark.crash
@pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc")
@pytest.mark.parametrize("option", ["--skip-check=test", "--skip=verify"])
def test_waiver_of_a_resumed_run_is_durable_before_the_answer_counts(option: str, tmp_path: Path) -> None:
    """The engine and the machine die when the answer of the resume is on the disk."""
    crashed = asked(tmp_path / "run")
    kill = Cut("engine", "link", 1, "after", "engine+power")
    crashed.turn(("resume", SESSION, option, "--reason", "flaky"), kill)
    story = crashed.story
    assert story.killed
    assert list((story.run_dir / "answers").glob("*.json"))
    crashed.turn(("recover", SESSION))
    assert story.status() == "completed"
    assert told(story, "waived", "session_continued") == ["waived", "session_continued"]
    assert len(told(story, "check_start")) == 1
