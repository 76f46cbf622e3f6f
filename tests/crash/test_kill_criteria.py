"""Real SIGKILL around what an item has to pass: each criterion has one outcome for each try of its item, and
the item ends once, when all of them pass."""

import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.sampling import one_in

from .case import Case, play
from .checks import violations
from .points import baseline

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]

COMMAND = "1/1/check/test"
FIRST_COMMAND = 5
"""The note with which it begins: the planner and the first try of the item took two each."""
MOMENTS = {
    "before the rule": "engine:append=check_start:1:before:engine",
    "while the rule is applied": "engine:append=check_prepared:1:after:engine",
    "in the middle of its outcome": "engine:append=check_complete:1:during:engine",
    "between the rule and the command": "engine:append=check_complete:1:after:engine",
    "while the command runs": f"agent:note:{FIRST_COMMAND}:after:engine",
    "with all that runs": f"agent:note:{FIRST_COMMAND}:after:engine+supervisor+agent",
    "after the command": "engine:append=check_complete:2:after:engine",
    "before the item ends": "engine:append=item_ended:1:before:engine",
    "when the item has ended": "engine:append=item_ended:1:after:engine",
}


@pytest.mark.parametrize("moment", one_in(5, MOMENTS))
def test_criteria_count_once_for_each_try(moment: str, tmp_path: Path) -> None:
    story = play(tmp_path / "run", Case.parse(f"criteria {MOMENTS[moment]}")).story
    assert violations(story, baseline("criteria").state) == []
    assert story.killed
    outcomes = [event["data"] for event in story.events() if event["type"] == "check_complete"]
    assert [(data["check"], data["status"]) for data in outcomes] == [
        ("criteria", "pass"),
        ("test", "fail"),
        ("criteria", "pass"),
        ("test", "pass"),
        ("criteria", "pass"),
    ]
    ended = [event["data"]["item"] for event in story.events() if event["type"] == "item_ended"]
    assert ended == ["s1", "s2"]
    started = Counter(note["attempt"].rpartition("/")[0] for note in story.notes() if note["what"] == "start")
    again = {COMMAND: 2} if moment == "with all that runs" else {}
    assert started == dict.fromkeys(("0/1", "1/1", COMMAND, "1/2", "1/2/check/test", "1/3"), 1) | again
