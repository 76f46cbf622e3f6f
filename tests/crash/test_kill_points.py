"""Real SIGKILL at exact calls, alone and together, and again while recovering: a small, spread sample.

`make crash N=…` plays as many as one likes; `CRASH_SEED` draws another sample here.
"""

import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.sampling import one_in

from .campaign import judge
from .case import Case, play
from .checks import violations
from .points import any_escalation, any_sequence, any_time, baseline, cases_of, spread
from .scenarios import SCENARIOS

SEED = int(os.environ.get("CRASH_SEED", "1"))
PLAYED_AT_ONCE = 3

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]


def expect_no_violation(cases: list[Case]) -> int:
    """How many processes were killed."""
    with ThreadPoolExecutor(PLAYED_AT_ONCE) as pool:
        done = list(pool.map(judge, cases))
    bad = [judged for judged in done if judged.violations]
    told = [f"{judged.case}: {wrong}" for judged in bad for wrong in judged.violations]
    assert not told, "repeat with `python -m tests.crash.campaign --case '…'`:\n" + "\n".join(told)
    return sum(judged.kills for judged in done)


@pytest.mark.parametrize("scenario", one_in(7, SCENARIOS))
def test_killed_at_calls_spread_over_the_whole_run(scenario: str) -> None:
    dice = random.Random(f"{SEED} {scenario}")
    expect_no_violation(spread(list(cases_of(scenario)), 1, dice))


def test_killed_at_random_moments() -> None:
    dice = random.Random(SEED)
    expect_no_violation([any_time(dice) for _ in range(2)])


def test_killed_again_while_recovering_up_to_three_times() -> None:
    dice = random.Random(SEED)
    expect_no_violation([any_sequence(dice) for _ in range(2)])


def test_killed_while_a_person_is_asked_and_answers() -> None:
    expect_no_violation([any_escalation(random.Random(SEED))])


PLACES = {
    "append": "plain engine:append=attempt_start:1:during:engine",
    "spawn": "plain engine:spawn:1:after:engine",
    "spawn of the supervisor, before its handover": "plain engine:send:1:before:engine",
    "the handover": "plain engine:send:1:during:engine",
    "the end of the handover": "plain engine:send:1:after:engine",
    "the supervisor during its handover": "plain engine:send:1:during:supervisor",
    "claim": "plain supervisor:link:1:after:engine+supervisor",
    "the record of a failed attempt": "retry engine:rename=attempts.jsonl:1:before:engine",
    "the intent to end": "cancel engine:signal:1:before:engine",
    "the end itself": "cancel engine:signal:1:after:engine",
    "an append, by a power cut": "plain engine:sync=attempt_start:2:before:engine+supervisor+agent+power",
    "a spawn, by a power cut": "plain agent:note:3:after:engine+supervisor+agent+power",
    "a control on its way": "cancel sender:link:1:before:sender+engine",
    "a control taken": "pause engine:drop:1:before:engine",
    "the spawn of a second branch": "block engine:spawn:2:after:engine",
    "the manifest": "block engine:rename=manifest.json:1:before:engine",
    "a branch's end, by a power cut": "block agent:note:4:after:engine+supervisor+agent+power",
    "a pause of two branches": "block-pause engine:drop:1:before:engine",
    "the intent to judge": "judge engine:spawn:2:before:engine",
    "the end of a judge": "judge-cancel engine:signal:1:before:engine",
    "another provider's first attempt": "chain engine:spawn:2:after:engine",
    "the end of a limit": "chain engine:append=timer_fired:1:before:engine",
    "an answer on its way": "approval - engine:link:1:before:engine",
    "an answer placed": "feedback - engine:link:1:after:engine",
    "a question after the last try": "exhausted engine:append=request_opened:1:during:engine",
    "the answer to it": "exhausted - engine:append=request_answered:1:before:engine",
    "what it allows": "exhausted - engine:append=request_resolved:1:after:engine",
    "a restart on its way": "restart sender:link:1:after:sender+engine",
    "a note taken": "steer engine:drop:1:before:engine",
    "an answer recorded": "question - engine:append=request_answered:1:after:engine",
    "a due answer": "timeout - engine:append=request_answered:1:during:engine",
}


def test_end_that_only_the_write_ahead_file_has_reaches_the_state_file() -> None:
    """After a power failure. The log on the disk says that the run was interrupted."""
    end = "block engine:sync=session_complete:1:after:engine+supervisor+agent+power"
    assert expect_no_violation([Case.parse(end)]) > 0


@pytest.mark.parametrize("place", one_in(5, PLACES))
def test_killed_at(place: str) -> None:
    assert expect_no_violation([Case.parse(PLACES[place])]) > 0


@pytest.mark.parametrize("when", one_in(3, ["during", "before", "after"]))
def test_killed_while_an_exchange_is_kept(when: str) -> None:
    assert expect_no_violation([Case.parse(f"record engine:keep:2:{when}:engine")]) == 1


@pytest.mark.soak
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_killed_while_any_exchange_is_kept(when: str) -> None:
    """At every exchange of a recorded run: a crash, iterations, judges."""
    count = baseline("record").counts["engine", "keep"]
    cases = [Case.parse(f"record engine:keep:{n}:{when}:engine") for n in range(1, count + 1)]
    assert expect_no_violation(cases) == len(cases)


@pytest.mark.parametrize("victims", ["engine", "engine+supervisor+agent"])
def test_work_of_a_reattached_or_lost_agent_is_recorded_once(victims: str) -> None:
    expect_no_violation([Case.parse(f"record agent:note:{n}:after:{victims}") for n in (1, 5)])


def outcomes_of(tmp_path: Path, case: str) -> list[str]:
    """How the attempts of the killed run ended, in order."""
    played = Case.parse(case)
    story = play(tmp_path / "run", played).story
    assert violations(story, baseline(played.scenario).state) == []
    kinds = ("iteration_complete", "error", "attempt_lost", "attempt_reattached")
    return [event["type"] for event in story.events() if event["type"] in kinds]


DONE = "iteration_complete"


def test_engine_killed_alone_while_the_agent_works_reattaches_and_runs_it_once(tmp_path: Path) -> None:
    assert outcomes_of(tmp_path, "plain agent:note:3:after:engine") == [
        DONE,
        "attempt_reattached",
        DONE,
        DONE,
    ]


def test_supervisor_killed_alone_loses_the_attempt_and_ends_its_agent_with_its_tools(tmp_path: Path) -> None:
    assert outcomes_of(tmp_path, "plain agent:spawn:2:after:supervisor") == [DONE, "attempt_lost", DONE, DONE]


def test_agent_killed_alone_is_a_failure_and_is_retried(tmp_path: Path) -> None:
    assert outcomes_of(tmp_path, "plain agent:note:3:after:agent") == [DONE, "error", DONE, DONE]


def test_all_killed_together_loses_the_attempt_and_nothing_else(tmp_path: Path) -> None:
    case = "plain agent:note:3:after:engine+supervisor+agent"
    assert outcomes_of(tmp_path, case) == [DONE, "attempt_lost", DONE, DONE]


def test_engine_killed_alone_while_two_branches_work_reattaches_to_both(tmp_path: Path) -> None:
    found = outcomes_of(tmp_path, "block agent:note:2:after:engine")
    assert found.count("attempt_reattached") >= 1
    assert found.count("attempt_lost") == 0
    assert found.count(DONE) == 7


def test_engine_killed_alone_while_the_judge_is_running_asks_the_judge_once(tmp_path: Path) -> None:
    story = play(tmp_path / "run", Case.parse("judge agent:note:3:after:engine")).story
    assert story.killed == [("engine", "")]
    assert violations(story, baseline("judge").state) == []
    asked = [event["cursor"]["iteration"] for event in story.events() if event["type"] == "judge_start"]
    assert asked == [1, 2, 3], "the answer of the judge that survived was taken"
    judges = [
        note["attempt"] for note in story.notes() if note["what"] == "start" and "judge" in note["attempt"]
    ]
    assert judges == ["0/1/judge/1", "0/2/judge/1", "0/3/judge/1"]


def test_judge_killed_with_its_engine_is_retried_and_costs_no_failure(tmp_path: Path) -> None:
    story = play(tmp_path / "run", Case.parse("judge agent:note:3:after:engine+supervisor+agent")).story
    assert violations(story, baseline("judge").state) == []
    asked = [
        (event["cursor"]["iteration"], event["data"].get("attempt", 1))
        for event in story.events()
        if event["type"] == "judge_start"
    ]
    assert asked == [(1, 1), (1, 2), (2, 1), (3, 1)]


def test_judge_killed_alone_is_asked_once_more(tmp_path: Path) -> None:
    story = play(tmp_path / "run", Case.parse("judge agent:note:3:after:agent")).story
    assert violations(story, baseline("judge").state) == []
    statuses = [e["data"]["status"] for e in story.events() if e["type"] == "judge_complete"]
    assert statuses == ["failed", "success", "success", "success"]


def test_agent_killed_before_any_output_still_resumes_its_session(tmp_path: Path) -> None:
    case = "chain agent:note:9:after:engine+supervisor+agent"
    story = play(tmp_path / "run", Case.parse(case)).story
    assert violations(story, baseline("chain").state) == []
    begun = [event for event in story.events() if event["type"] == "attempt_start"]
    resumed = [event["data"].get("resume") for event in begun if event["cursor"]["iteration"] == 2]
    assert resumed == [None, "of-0-2-1", "of-0-2-1"]


def test_engine_killed_after_the_agent_was_done_takes_its_result(tmp_path: Path) -> None:
    assert outcomes_of(tmp_path, "plain agent:note:2:after:engine") == [DONE, DONE, DONE]
