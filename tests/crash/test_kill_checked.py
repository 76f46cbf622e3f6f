"""Real SIGKILL around a check, its verdict and the transition: visits and verdicts are those of an
uninterrupted run, and a check that survives counts once."""

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


def killed(tmp_path: Path, kills: str, scenario: str = "checked") -> Story:
    """The story of a run that survived the kills without a violation."""
    story = play(tmp_path / "run", Case.parse(f"{scenario} {kills}")).story
    assert violations(story, baseline(scenario).state) == []
    assert story.killed
    return story


def checks_run(story: Story) -> list[int]:
    """How often the check of each visit ran, in order."""
    starts = (n["attempt"] for n in story.notes() if n["what"] == "start" and "/check/" in n["attempt"])
    return list(Counter(attempt.partition("/")[0] for attempt in starts).values())


def told(story: Story, *types: str) -> list[str]:
    return [event["type"] for event in story.events() if event["type"] in types]


def test_uninterrupted_run_goes_back_once() -> None:
    assert baseline("checked").state["verdicts"] == [
        ("stage_verdict", "1", "fail", None),
        ("stage_transition", "1", "fail", 2),
        ("stage_verdict", "1~2", "pass", None),
    ]


COMPARED = ("check_prepared", "check_complete")
NOTE = {"its start": 5, "its end": 6}
"""Of the first check in the ledger, after two agents with two notes each."""


@pytest.mark.parametrize("note", one_in(2, NOTE))
def test_check_that_survives_its_engine_is_reattached_to_and_counts_once(note: str, tmp_path: Path) -> None:
    story = killed(tmp_path, f"agent:note:{NOTE[note]}:after:engine")
    assert story.killed == [("engine", "")]
    assert checks_run(story) == [1, 1]
    assert told(story, "check_lost") == []
    trees = {kind: [e["data"] for e in story.events() if e["type"] == kind] for kind in COMPARED}
    seen = [prepared["files"]["tree"] for prepared in trees["check_prepared"]]
    assert seen == [outcome["tree_before"] for outcome in trees["check_complete"]]


@pytest.mark.soak
def test_check_that_dies_with_its_engine_is_lost_and_runs_again(tmp_path: Path) -> None:
    story = killed(tmp_path, "agent:note:5:after:engine+supervisor+agent")
    assert checks_run(story) == [2, 1]
    assert told(story, "check_lost") == ["check_lost"]


@pytest.mark.soak
def test_check_that_is_killed_says_nothing_about_the_work(tmp_path: Path) -> None:
    """The shell that started it reports its end as an exit code."""
    story = killed(tmp_path, "agent:note:5:after:agent")
    assert checks_run(story) == [2, 1]


MOMENTS = {
    "between the verdict and the transition": ("stage_verdict", "after"),
    "before the check": ("check_start", "before"),
    "between the intent and the start": ("check_start", "after"),
    "in the middle of the outcome": ("check_complete", "during"),
    "after the outcome": ("check_complete", "after"),
    "in the middle of the transition": ("stage_transition", "during"),
    "between the transition and the next visit": ("stage_transition", "after"),
}


@pytest.mark.parametrize("moment", one_in(len(MOMENTS), MOMENTS))
def test_visits_and_verdicts_are_the_same_when_the_engine_is_killed(moment: str, tmp_path: Path) -> None:
    kind, when = MOMENTS[moment]
    story = killed(tmp_path, f"engine:append={kind}:1:{when}:engine")
    assert checks_run(story) == [1, 1]
    assert told(story, "stage_transition", "stage_verdict") == [
        "stage_verdict",
        "stage_transition",
        "stage_verdict",
    ]


OF_THE_NEED = {
    "before the check": "engine:append=check_start:1:before:engine",
    "between the intent and the start": "engine:append=check_start:1:after:engine",
    "while it runs": "agent:note:1:after:engine",
    "in the middle of the outcome": "engine:append=check_complete:1:during:engine",
    "after the outcome": "engine:append=check_complete:1:after:engine",
    "in the middle of the second verdict": "engine:append=stage_verdict:2:during:engine",
    "after that verdict": "engine:append=stage_verdict:2:after:engine",
}


@pytest.mark.parametrize("moment", one_in(3, OF_THE_NEED))
def test_stage_that_is_not_needed_stays_without_an_agent(moment: str, tmp_path: Path) -> None:
    story = killed(tmp_path, OF_THE_NEED[moment], "needed")
    assert checks_run(story) == [1, 1]
    assert told(story, "stage_verdict", "iteration_start") == [
        "iteration_start",
        "stage_verdict",
        "stage_verdict",
    ]
    started = {note["attempt"].rpartition("/")[0] for note in story.notes() if note["what"] == "start"}
    assert started == {"0/0/check/test", "0/1", "1/0/check/test"}


LAST_CHECK = 9
"""The note with which it begins: the agent and three checks took two each."""
OF_THE_RETRY = {
    "before it": "engine:append=stage_retry:1:before:engine",
    "in the middle of it": "engine:append=stage_retry:1:during:engine",
    "while it is awaited": "engine:append=stage_retry:1:after:engine",
    "when it is due": "engine:append=timer_fired:1:after:engine",
    "while its check runs": f"agent:note:{LAST_CHECK}:after:engine",
    "with all that runs": f"agent:note:{LAST_CHECK}:after:engine+supervisor+agent",
}


@pytest.mark.parametrize("moment", one_in(3, OF_THE_RETRY))
def test_a_stage_is_retried_once_after_a_check_that_was_disturbed_each_time(
    moment: str, tmp_path: Path
) -> None:
    story = killed(tmp_path, OF_THE_RETRY[moment], "disturbed")
    assert checks_run(story) == [5 if moment == "with all that runs" else 4]
    outcomes = (event["data"] for event in story.events() if event["type"] == "check_complete")
    assert [bool(data.get("changed")) for data in outcomes] == [True, True, True, False]
    assert told(story, "stage_retry", "stage_verdict") == ["stage_retry", "stage_verdict"]
