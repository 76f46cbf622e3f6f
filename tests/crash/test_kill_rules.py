"""Real SIGKILL around checks without a command: what they say is the same as in an uninterrupted run. They
start nothing, so they are applied again."""

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


@pytest.mark.parametrize("moment", one_in(3, MOMENTS))
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
