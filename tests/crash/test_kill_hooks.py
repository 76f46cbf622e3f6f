"""Real SIGKILL around the calls of hooks: what arrives at the service, by key, and what is recorded."""

import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.sampling import one_in

from .case import Case, CrashRun, play
from .checks import violations
from .points import baseline
from .scenarios import SCENARIOS, SESSION
from .story import Story

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]


def killed(tmp_path: Path, case: str) -> Story:
    """The story of a run that survived the kills without a violation."""
    played = Case.parse(case)
    story = play(tmp_path / "run", played).story
    assert violations(story, baseline(played.scenario).state) == []
    assert story.killed
    return story


def arrivals(story: Story) -> list[int]:
    """How often each key arrived, in the order of their first arrival."""
    return list(Counter(got["key"] for got in story.received()).values())


def told(story: Story, *types: str) -> list[str]:
    return [event["type"] for event in story.events() if event["type"] in types]


def requests(story: Story) -> list[str]:
    opened = (event["data"] for event in story.events() if event["type"] == "request_opened")
    return [data["reason"] for data in opened]


MOMENTS = {
    "before it is sent": ("engine:post:1:before:engine", 1),
    "when half of its headers are sent": ("engine:post:1:during:engine", 1),
    "after it is sent and before the answer": ("engine:post:2:after:engine", 2),
    "before the answer is received": ("engine:answer:1:before:engine", 2),
    "after the answer and before the record": ("engine:answer:1:after:engine", 2),
    "by a power cut after the answer": ("engine:answer:1:after:engine+power", 2),
    "before the record": ("engine:append=hook_complete:1:before:engine", 2),
}
"""With how often the webhook arrives."""


@pytest.mark.parametrize("moment", one_in(5, MOMENTS))
def test_webhook_is_repeated_with_the_same_key_when_the_engine_is_killed(moment: str, tmp_path: Path) -> None:
    kill, count = MOMENTS[moment]
    story = killed(tmp_path, f"webhook-asks {kill}")
    assert arrivals(story) == [count, *(1,) * 5]
    assert [got["attempt"] for got in story.received()[:count]] == list(range(3 - count, 3))
    assert requests(story) == ["hook_lost"]


@pytest.mark.parametrize("when", one_in(2, ("during", "after")))
def test_answer_that_is_recorded_is_never_asked_for_again(when: str, tmp_path: Path) -> None:
    """Its line is the first of those that are written; in the middle of them, the effect is still open."""
    story = killed(tmp_path, f"webhook engine:append=hook_complete:3:{when}:engine")
    assert max(arrivals(story)) == 1
    assert told(story, "hook_lost") == []


def test_lost_webhook_is_repeated_at_once(tmp_path: Path) -> None:
    story = killed(tmp_path, "webhook engine:answer:1:after:engine engine:answer:1:after:engine")
    assert arrivals(story) == [3, *(1,) * 7]
    assert requests(story) == []
    reconciled = [e["data"] for e in story.events() if e["type"] == "effect_reconciled"]
    assert [(data["found"], data["then"]) for data in reconciled] == [("unknown", "repeat")] * 2


def test_person_decides_that_a_lost_webhook_is_not_repeated(tmp_path: Path) -> None:
    run = CrashRun(tmp_path / "run", SCENARIOS["webhook-asks"])
    run.turn(
        run.story.scenario.command, Case.parse("webhook-asks engine:post:2:after:engine").planned_kills[0]
    )
    run.turn(("recover", SESSION))
    assert requests(run.story) == ["hook_lost"]
    run.turn(("answer", SESSION, "continue"))
    assert run.story.status() == "completed"
    assert arrivals(run.story) == [1] * 6
    assert told(run.story, "effect_reconciled", "hook_lost") == ["hook_lost", "effect_reconciled"]


@pytest.mark.soak
def test_lost_try_uses_no_retry(tmp_path: Path) -> None:
    story = killed(tmp_path, "webhook-retry engine:post:2:after:engine engine:answer:1:before:engine")
    assert told(story, "hook_failed", "hook_retry") == []
    assert arrivals(story) == [3]


def scripts_of(story: Story) -> list[int]:
    """How often each script or function ran, in the order of their first run."""
    starts = (
        n["attempt"] for n in story.notes() if n["what"] == "start" and n["attempt"].startswith("hook/")
    )
    return list(Counter(attempt.rpartition("/")[0] for attempt in starts).values())


def test_script_is_reattached_to_and_runs_once(tmp_path: Path) -> None:
    story = killed(tmp_path, "script agent:note:3:after:engine")
    assert story.killed == [("engine", "")]
    assert scripts_of(story) == [1, 1, 1]
    assert told(story, "hook_lost") == []


def test_script_that_is_killed_with_its_engine_is_lost_and_repeated(tmp_path: Path) -> None:
    story = killed(tmp_path, "script agent:note:3:after:engine+supervisor+agent")
    assert scripts_of(story) == [2, 1, 1]
    assert told(story, "hook_lost", "hook_failed") == ["hook_lost"]


@pytest.mark.soak
def test_script_that_is_killed_alone_has_failed(tmp_path: Path) -> None:
    story = killed(tmp_path, "script agent:note:3:after:agent")
    assert scripts_of(story) == [2, 1, 1]
    assert told(story, "hook_lost", "hook_failed") == ["hook_failed"]
    assert requests(story) == ["hook_script_failed"]


@pytest.mark.parametrize("note", one_in(4, (1, 2, 3, 4)))
def test_function_that_is_killed_is_called_again(note: int, tmp_path: Path) -> None:
    """At its start and at its end: the first is to be asked about, the second to be repeated."""
    number = (note + 1) // 2
    story = killed(tmp_path, f"program engine:note:{note}:after:engine")
    assert scripts_of(story) == [1 + (number == 1), 1 + (number == 2), 1, 1]
    assert requests(story) == ["hook_lost"] * (number == 1)
    assert arrivals(story) == [1, 1]


PAUSES = (
    "confirm-block engine:append=hook_complete:1:after:engine",
    "confirm-block engine:append=request_opened:1:after:engine",
    "confirm-block - engine:append=request_resolved:1:during:engine",
)


@pytest.mark.parametrize("case", one_in(3, PAUSES))
def test_pause_of_a_branch_is_asked_and_notified_once_when_the_engine_is_killed(
    case: str, tmp_path: Path
) -> None:
    story = killed(tmp_path, case)
    assert requests(story) == ["hook_confirm"]
    assert told(story, "request_answered") == ["request_answered"]
    notices = (story.project.parent / "notices").read_text().split("\n")[:-1]
    assert len(notices) == len(set(notices)), "each at most once"
    assert {notice.split()[0] for notice in notices} <= {"request", "completed"}


POLICIES = (
    "policy - engine:note:1:after:engine",
    "policy - engine:append=hook_complete:2:before:engine",
    "policy - engine:append=request_answered:2:during:engine",
)


@pytest.mark.parametrize("case", one_in(3, POLICIES))
def test_functions_of_a_resume_and_a_request_are_called_until_their_answer_is_recorded(
    case: str, tmp_path: Path
) -> None:
    story = killed(tmp_path, case)
    assert requests(story) == ["hook_pause", "approval"]
    answered = [event["data"] for event in story.events() if event["type"] == "request_answered"]
    assert [data["by"] for data in answered] == ["person", "hook request-approve"]


CONFIRMS = {
    "as it is asked": "confirm - engine:append=request_opened:1:after:engine",
    "as the answer is placed": "confirm - - engine:link:1:after:engine",
    "as the answer is recorded": "confirm - - engine:append=request_answered:1:during:engine",
    "as the run continues": "confirm - - engine:post:2:after:engine",
}


@pytest.mark.parametrize("moment", one_in(6, CONFIRMS))
def test_confirmation_is_asked_and_answered_once_when_the_engine_is_killed(
    moment: str, tmp_path: Path
) -> None:
    story = killed(tmp_path, CONFIRMS[moment])
    assert requests(story) == ["hook_pause", "hook_confirm"]
    assert told(story, "request_answered") == ["request_answered"] * 2
