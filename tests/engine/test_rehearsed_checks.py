"""Runs with checks, rehearsed and enacted: what the checks found comes from the record."""

from typing import Any

import pytest
from tests.engine.plans import NOON, plan_of, stage
from tests.engine.plans import event as event_of
from tests.engine.playbook import Play
from tests.engine.test_enact import work

from agentforge.engine.evolve.run import evolve
from agentforge.engine.nodes import NodeKey
from agentforge.engine.rehearsal.outcomes import Answers
from agentforge.engine.rehearsal.rehearse import rehearse
from agentforge.engine.rehearsal.rehearsed_run import RehearsedRun, enact, step_of_fact
from agentforge.model import facts as f
from agentforge.model.cassette import Exchange, ExchangeOutcome, RecordedAnswer
from agentforge.model.check import Check
from agentforge.model.course import CourseStep
from agentforge.model.cursor import Cursor
from agentforge.model.plan import Plan, Route
from agentforge.model.request import Request
from agentforge.model.state import Waiver

TEST, LINT = Check("test", "make test"), Check("lint", "make lint")


def checked(*checks: Check, runs: int = 2) -> Plan:
    routes = (Route("fail", "go", "build"),)
    return plan_of(stage("build"), stage("verify", runs, checks=checks, routes=routes))


def found(check: Check, status: str = "pass", iteration: int = 1, attempt: int = 1, **more: Any) -> Exchange:
    outcome = ExchangeOutcome("check_complete", {"check": check.name, "status": status, **more})
    return Exchange(
        "verify",
        iteration,
        attempt=attempt,
        kind="check",
        node="stage-verify",
        check=check.name,
        outcome=outcome,
    )


TAPE = (
    work("build"),
    work("verify"),
    work("verify", 2),
    found(TEST, "fail", 2, changed=["a.py"]),
    found(TEST, "pass", 2, 2),
    found(LINT, "pass", 2),
)


def told(steps: tuple[CourseStep, ...]) -> list[tuple[str, int, str]]:
    mine = ("check", "check_outcome", "verdict", "route")
    return [(step.what, step.attempt, step.detail) for step in steps if step.what in mine]


def test_a_recorded_run_with_checks_is_decided_again_to_its_end() -> None:
    plan = checked(TEST, LINT)
    events = enact(plan, TAPE)
    assert events[-1].fact.TYPE == "session_complete"
    rehearsal = rehearse(plan, events)
    assert rehearsal.is_same
    assert told(rehearsal.past) == told(rehearsal.now)
    assert told(rehearsal.now) == [
        ("check", 1, "test"),
        ("check_outcome", 1, "test: void"),
        ("check", 2, "test"),
        ("check_outcome", 2, "test: pass"),
        ("check", 1, "lint"),
        ("check_outcome", 1, "lint: pass"),
        ("verdict", 0, "pass"),
    ]


def test_a_pipeline_without_the_check_takes_another_course() -> None:
    rehearsal = rehearse(checked(LINT), enact(checked(TEST, LINT), TAPE))
    assert rehearsal.difference is not None
    assert (rehearsal.difference.past.what, rehearsal.difference.past.detail) == ("check", "test")
    assert rehearsal.now[-1].what == "run_completed"


def test_a_check_that_the_past_run_does_not_have_has_no_recorded_outcome() -> None:
    rehearsal = rehearse(checked(TEST, LINT, Check("new", "make new")), enact(checked(TEST, LINT), TAPE))
    assert rehearsal.unrecorded == (CourseStep("check", "verify", None, 1, 2, 1, "new"),)


def lost_and_waived(plan: Plan) -> Play:
    conversation = Play(plan)
    said = ("start", "prepared", "completed stop", "prepared", "completed stop", "check lost", "check fail a")
    for words in (*said, "prepared", "waive test", "completed stop"):
        conversation.happens(words)
    return conversation


def test_lost_and_waived_checks_take_the_same_course() -> None:
    plan = checked(TEST)
    events = lost_and_waived(plan).events
    assert events[-1].fact.TYPE == "session_complete"
    rehearsal = rehearse(plan, events)
    assert rehearsal.is_same
    assert ("check_outcome", 1, "test: lost") in told(rehearsal.now)


WAIVED = Waiver("test", "it is flaky", "Ada")


def test_a_check_that_was_skipped_from_the_start_is_not_enacted() -> None:
    events = enact(checked(TEST), (work("build"), work("verify"), work("verify", 2)), waivers=(WAIVED,))
    assert events[-1].fact.TYPE == "session_complete"
    assert told(rehearse(checked(TEST), events).now) == [("verdict", 0, "pass (waived: test)")]


def asking(*checks: Check) -> Plan:
    return plan_of(stage("verify", checks=checks, routes=(Route("fail", "ask"),)))


def test_a_check_that_was_skipped_at_a_question_is_skipped_there() -> None:
    answer = RecordedAnswer("verdict", "resume", by="Ada", waivers=(WAIVED,))
    given = Exchange("verify", 1, kind="answer", node="stage-verify", answer=answer)
    events = enact(asking(TEST), (work("verify"), found(TEST, "fail"), given))
    assert events[-1].fact.TYPE == "session_complete"
    assert [(step.what, step.detail) for step in rehearse(asking(TEST), events).now if step.detail][4:] == [
        ("verdict", "fail"),
        ("person_asked", "verdict"),
        ("run_paused", "verdict"),
        ("waived", "check test"),
        ("verdict", "pass (waived: test)"),
        ("node_over", "Completed 1 iterations (max: 1)"),
        ("run_completed", "all_loops_complete"),
    ]


def test_checks_are_skipped_with_the_answer_that_followed() -> None:
    at = Cursor("0", 1, 1)
    request = Request("r", "escalation", "k", "verdict", "?", ("resume",), NOON, at=at)
    opened = f.RequestOpened("r", "escalation", "k", "verdict", "?", ("resume",))
    answered, waived = f.RequestAnswered("r", "resume", "Ada"), f.Waived("test", "it is flaky", "Ada")
    for facts, expected in (
        ((opened, waived, answered), (waived, answered)),
        ((opened, waived, f.SessionResumed("Ada"), answered), (answered,)),
    ):
        answers = Answers((NodeKey("stage-verify"), event_of(1, fact, at)) for fact in facts)
        assert answers.reply(request, NodeKey("stage-verify")) == expected


def test_a_route_that_leads_elsewhere_is_another_course() -> None:
    plan = checked(TEST, runs=1)
    begin = ("start", "prepared", "completed stop", "prepared", "completed stop", "check fail a")
    conversation = Play(plan)
    for words in begin:
        conversation.happens(words)
    ended = plan_of(stage("build"), stage("verify", checks=(TEST,), routes=(Route("fail", "end"),)))
    rehearsal = rehearse(ended, conversation.events)
    assert rehearsal.difference is not None
    assert (rehearsal.difference.past.detail, rehearsal.difference.now) == (
        "build",
        CourseStep("route", "verify", None, 1, 1, 0, "the end"),
    )


def test_a_check_that_runs_when_the_run_is_cancelled_is_ended() -> None:
    plan = checked(TEST, runs=1)
    state = None
    for event in enact(plan, (work("build"), work("verify"))):
        state = evolve(state, event)
    assert state is not None
    run = RehearsedRun(plan, state)
    assert run.advance(Answers(), 10) == (CourseStep("check", "verify", None, 1, 1, 1, "test"),)
    run.record(f.CancelRequested("enough"), state.cursor)
    run.advance(Answers(), 20)
    assert [event.fact.TYPE for event in run.events][-3:] == ["check_ending", "check_lost", "session_aborted"]


@pytest.mark.parametrize(
    ("fact", "what", "detail"),
    [
        (f.CheckCompleted("t", status="error"), "check_outcome", "t: error"),
        (f.CheckLost("t"), "check_outcome", "t: lost"),
        (f.StageVerdictReached("reject"), "verdict", "reject"),
        (f.StageVerdictReached("pass", waived=("t", "l")), "verdict", "pass (waived: t, l)"),
        (f.StageTransitioned("a", "b", "fail"), "route", "b"),
    ],
)
def test_checks_verdicts_and_routes_are_parts_of_the_course(fact: f.AnyFact, what: Any, detail: str) -> None:
    step = step_of_fact(fact, NodeKey("stage-plan"), Cursor("0", 1, 2))
    assert step is not None
    assert (step.what, step.iteration, step.detail) == (what, 2, detail)
