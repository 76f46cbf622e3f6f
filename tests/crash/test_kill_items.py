"""Real SIGKILL around artifacts and items: what is accepted stays as it is, an invalid artifact is healed
once, and no item that is done runs again."""

import sys
from collections import Counter
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

ALL = "engine+supervisor+agent"
UNINTERRUPTED = {
    "0/1": 2,
    "1/1": 2,
    "1/2": 1,
    "1/3": 1,
    "2/1": 1,
    "0~2/1": 1,
    "1~2/1": 1,
    "1~2/2": 1,
    "2~2/1": 1,
}
"""How often agents run at each place: at two, the first artifact is invalid."""


def killed(tmp_path: Path, kills: str) -> Story:
    """The story of a run that survived the kills without a violation."""
    story = play(tmp_path / "run", Case.parse(f"items {kills}")).story
    assert violations(story, baseline("items").state) == []
    assert story.killed
    return story


def ran(story: Story) -> Counter[str]:
    """How often agents were started at each place."""
    starts = (note["attempt"] for note in story.notes() if note["what"] == "start")
    return Counter(attempt.rpartition("/")[0] for attempt in starts)


def test_uninterrupted_run_heals_each_artifact_once_and_does_only_what_changed() -> None:
    *_, again = [data for kind, _, data in baseline("items").state["items"] if kind == "items_planned"]
    assert [again[part] for part in ("added", "changed", "dropped")] == [["s4"], ["s2"], ["s3"]]
    assert [item.get("status", "pending") for item in again["items"]] == ["done", "pending", "pending"]


ENGINE_DIES = {
    "between the file of a large artifact and its event": "engine:rename=artifact.json:2:after:engine",
    "before the file of a rejected artifact is moved": "engine:rename=artifact.json:1:before:engine",
    "between the file of a rejected artifact and its event": "engine:rename=artifact.json:1:after:engine",
    "in the middle of an event with an artifact": "engine:append=iteration_complete:2:during:engine",
    "between the plan of the items and the first one": "engine:append=items_planned:1:after:engine",
    "in the middle of the plan of the items": "engine:append=items_planned:1:during:engine",
    "before it plans again": "engine:append=items_planned:2:before:engine",
    "while it plans again": "engine:append=items_planned:2:during:engine",
    "after it planned again": "engine:append=items_planned:2:after:engine",
    "between an iteration and the end of its item": "engine:append=item_ended:1:before:engine",
    "between two items": "engine:append=item_ended:1:after:engine",
}


@pytest.mark.parametrize("moment", one_in(5, ENGINE_DIES))
def test_no_agent_runs_more_often_when_the_engine_dies(moment: str, tmp_path: Path) -> None:
    assert ran(killed(tmp_path, ENGINE_DIES[moment])) == UNINTERRUPTED


HEALING = 4
"""The note of the agent that heals: one began, left half an artifact and ended before."""


@pytest.mark.parametrize("victims", [ALL, f"{ALL}+power"])
def test_lost_healing_is_repeated_in_the_same_session(victims: str, tmp_path: Path) -> None:
    story = killed(tmp_path, f"agent:note:{HEALING}:after:{victims}")
    assert ran(story) == {**UNINTERRUPTED, "0/1": 3}
    begun = [event for event in story.events() if event["type"] == "attempt_start"]
    assert [event["data"].get("resume") for event in begun[:3]] == [None, "of-0-1-1", "of-0-1-1"]


def test_healing_that_survives_its_engine_is_reattached_to(tmp_path: Path) -> None:
    assert ran(killed(tmp_path, f"agent:note:{HEALING}:after:engine")) == UNINTERRUPTED


SECOND_ITEM = HEALING + 1 + 5 + 1
"""The note of the agent that begins the second item: five are of the first one."""


def test_first_item_is_not_run_again_when_all_die_during_the_second(tmp_path: Path) -> None:
    assert ran(killed(tmp_path, f"agent:note:{SECOND_ITEM}:after:{ALL}")) == {**UNINTERRUPTED, "1/2": 2}
