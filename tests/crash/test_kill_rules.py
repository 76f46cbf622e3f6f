"""Real SIGKILL around checks without a command, and around baselines: what they say is the same as in an
uninterrupted run. Rules start nothing, so they are applied again; a baseline never runs after an agent."""

import sys
from pathlib import Path

import pytest
from tests.sampling import one_in

from .case import Case, play
from .checks import violations
from .points import baseline
from .story import Story

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]


def outcomes(story: Story) -> list[tuple[str, bool, str]]:
    found = (event["data"] for event in story.events() if event["type"] == "check_complete")
    return [(data["check"], "baseline" in data, data["status"]) for data in found]


MOMENTS = {
    "before the baseline": ("check_start", 1, "before"),
    "during the baseline": ("check_prepared", 1, "after"),
    "after the baseline": ("check_complete", 1, "after"),
    "in the middle of an outcome": ("check_complete", 2, "during"),
    "between the intent and the rule": ("check_start", 3, "after"),
    "while a rule is applied": ("check_prepared", 3, "after"),
    "in the second iteration": ("check_start", 4, "after"),
}


@pytest.mark.parametrize("moment", one_in(5, MOMENTS))
def test_rules_say_the_same_when_the_engine_is_killed(moment: str, tmp_path: Path) -> None:
    kind, number, when = MOMENTS[moment]
    case = Case.parse(f"rules engine:append={kind}:{number}:{when}:engine")
    story = play(tmp_path / "run", case).story
    assert violations(story, baseline("rules").state) == []
    assert story.killed == [("engine", "")]
    assert outcomes(story) == [
        ("scope", True, "pass"),
        ("scope", False, "fail"),
        ("left", False, "pass"),
        ("scope", False, "fail"),
        ("left", False, "pass"),
    ]


OF_BASELINE = {
    "while it runs": "agent:note:1:after:engine",
    "with all that it started": "agent:note:1:after:engine+supervisor+agent",
    "before it": "engine:append=check_start:1:before:engine",
    "between its intent and its start": "engine:append=check_start:1:after:engine",
    "in the middle of its outcome": "engine:append=check_complete:1:during:engine",
    "between its outcome and the agent": "engine:append=check_complete:1:after:engine",
    "when the agent has worked": "engine:append=iteration_complete:1:after:engine",
}


@pytest.mark.parametrize("moment", one_in(5, OF_BASELINE))
def test_failures_before_the_first_agent_are_known_when_the_engine_is_killed(
    moment: str, tmp_path: Path
) -> None:
    story = play(tmp_path / "run", Case.parse(f"red {OF_BASELINE[moment]}")).story
    assert violations(story, baseline("red").state) == []
    assert story.killed
    assert outcomes(story) == [("lint", True, "fail"), ("lint", False, "fail")]
    first, last = (event["data"] for event in story.events() if event["type"] == "check_complete")
    assert len(first["found"]["keys"]) == 1
    assert last["reason"] == "1 new failure (1 failed before too)"


@pytest.mark.parametrize("write", one_in(14, range(20, 48)))
def test_killed_while_a_tree_is_kept_leaves_only_what_git_removes(write: int, tmp_path: Path) -> None:
    case = Case.parse(f"rules engine:write:{write}:before:engine")
    assert violations(play(tmp_path / "run", case).story, baseline("rules").state) == []
