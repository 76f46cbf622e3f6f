"""Runs with hooks, rehearsed and enacted: what the hooks answered comes from the record."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, block, plan_of, stage
from tests.engine.test_enact import work

from agentforge.engine.evolve.run import evolve
from agentforge.engine.nodes import NodeKey, parse_key
from agentforge.engine.rehearsal.outcomes import Answers
from agentforge.engine.rehearsal.rehearse import rehearse
from agentforge.engine.rehearsal.rehearsed_run import RehearsedRun, enact, step_of_fact
from agentforge.model import facts as f
from agentforge.model.cassette import Exchange, ExchangeOutcome, RecordedAnswer, RecordedHook
from agentforge.model.course import CourseStep
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.hook import Hook
from agentforge.model.plan import Node, Plan

REVIEW = Hook("iteration_end-1", "iteration_end", "webhook", url="http://127.0.0.1/")
GREET = Hook("session_start-1", "session_start", "script", script="true")
CONFIRM = Hook("stage_end-1", "stage_end", "confirm")


def hooked(*hooks: Hook, nodes: tuple[Node, ...] = ()) -> Plan:
    plan = plan_of(*(nodes or (stage("plan"),)))
    return replace(plan, pipeline=replace(plan.pipeline, hooks=hooks))


def call(hook: Hook, attempt: int = 1, kind: str = "hook_complete", **more: Any) -> Exchange:
    """A recorded call in the first iteration of the stage; of GREET, at the start of the run."""
    data: dict[str, Any] = {"hook": hook.id, "point": hook.point, "delivery": "d", **more.pop("data", {})}
    is_run = hook.point == "session_start"
    given = {"node": "" if is_run else "stage-plan", "hook": RecordedHook(hook.id, "d"), **more}
    outcome = ExchangeOutcome(kind, data)
    return Exchange("plan", 0 if is_run else 1, attempt=attempt, kind="hook", outcome=outcome, **given)


FAILED = call(REVIEW, 1, "hook_failed", data={"message": "answered 500", "retry": True})
TAPE = (call(GREET), work("plan"), FAILED, call(REVIEW, 2, data={"action": "modify_context", "context": "c"}))
CONFIRMED = Exchange(
    "plan", 1, kind="answer", node="stage-plan", answer=RecordedAnswer("hook_confirm", "continue", CONFIRM.id)
)


def told(steps: tuple[CourseStep, ...]) -> list[tuple[str, int, str]]:
    return [(step.what, step.attempt, step.detail) for step in steps if step.what.startswith("hook")]


def test_a_recorded_run_with_hooks_is_decided_again_to_its_end() -> None:
    plan = hooked(GREET, REVIEW, CONFIRM)
    events = enact(plan, (*TAPE, CONFIRMED))
    assert events[-1].fact.TYPE == "session_complete"
    found = rehearse(plan, events)
    assert found.is_same
    assert told(found.past) == told(found.now)
    assert told(found.now) == [
        ("hook", 1, GREET.id),
        ("hook_answer", 1, "continue"),
        ("hook", 1, REVIEW.id),
        ("hook_answer", 1, "failed"),
        ("hook", 2, REVIEW.id),
        ("hook_answer", 2, "modify_context"),
        ("hook", 1, CONFIRM.id),
        ("hook_answer", 1, "pause"),
    ]


def test_a_pipeline_without_the_hook_takes_another_course() -> None:
    events = enact(hooked(REVIEW), TAPE)
    found = rehearse(hooked(), events)
    assert found.difference is not None
    assert (found.difference.past.what, found.difference.past.detail) == ("hook", REVIEW.id)
    assert found.now[-1].what == "run_completed"


def test_a_pipeline_with_another_hook_has_no_recorded_answer() -> None:
    events = enact(hooked(REVIEW), TAPE)
    found = rehearse(hooked(GREET, REVIEW), events)
    assert found.difference is not None
    assert found.difference.now == CourseStep("hook", attempt=1, detail=GREET.id)
    assert found.unrecorded == (CourseStep("hook", attempt=1, detail=GREET.id),)


def test_a_call_that_was_lost_is_repeated() -> None:
    plan = hooked(REVIEW)
    lost = call(REVIEW, 1, "hook_lost")
    events = enact(plan, (work("plan"), lost, call(REVIEW, 2)))
    assert events[-1].fact.TYPE == "session_complete"
    found = rehearse(plan, events)
    assert found.is_same
    assert ("hook_answer", 1, "lost") in told(found.now)


def test_a_hook_that_is_called_when_the_run_is_cancelled_is_ended() -> None:
    plan = hooked(REVIEW)
    events = enact(plan, (work("plan"),))
    state = None
    for event in events:
        state = evolve(state, event)
    assert state is not None
    run = RehearsedRun(plan, state)
    assert run.advance(Answers(), 10) == (CourseStep("hook", "plan", None, 1, 1, 1, REVIEW.id),)
    run.record(f.CancelRequested("enough"), state.cursor)
    run.advance(Answers(), 20)
    assert [event.fact.TYPE for event in run.events][-3:] == ["hook_ending", "hook_lost", "session_aborted"]


def test_hooks_of_a_branch_as_a_whole_are_answered() -> None:
    begin = Hook("parallel_provider_start-1", "parallel_provider_start", "script", script="true")
    plan = hooked(begin, nodes=(block("claude codex", stage("draft")),))
    calls = [
        replace(call(begin), stage="duel", iteration=0, node="parallel-duel", branch=who)
        for who in ("claude", "codex")
    ]
    drafts = [work("draft", node="parallel-duel", branch=who) for who in ("claude", "codex")]
    events = enact(plan, (*calls, *drafts))
    assert events[-1].fact.TYPE == "session_complete"
    assert rehearse(plan, events).is_same


def test_key_of_a_branch_as_a_whole() -> None:
    assert parse_key("parallel-duel", "claude", "duel") == NodeKey("parallel-duel", 1, "claude")
    assert parse_key("parallel-duel/run-002", "claude", "draft") == NodeKey(
        "parallel-duel", 2, "claude", "draft"
    )


def test_calls_of_a_damaged_log_are_not_found() -> None:
    plan = hooked(REVIEW)
    fact = f.HookCompleted(REVIEW.id, REVIEW.point, "d")
    answers = Answers([(None, Event(1, NOON, "s", "r", fact, Cursor("7", 1, 1)))])
    run = RehearsedRun(plan, _state(plan))
    run.advance(answers, 20)
    (task,) = run.decision().work
    assert answers.take(task, None) is None  # type: ignore[arg-type]


def _state(plan: Plan) -> Any:
    state = None
    for event in enact(plan, (work("plan"),)):
        state = evolve(state, event)
    return state


@pytest.mark.parametrize(
    ("fact", "detail"),
    [
        (f.HookCompleted("h", "stage_end", "d", action="abort"), "abort"),
        (f.HookFailed("h", "stage_end", "d"), "failed"),
        (f.HookTimedOut("h", "stage_end", "d"), "timeout"),
        (f.HookLost("h", "stage_end", "d"), "lost"),
    ],
)
def test_how_a_call_ended_is_part_of_the_course(fact: f.AnyFact, detail: str) -> None:
    assert step_of_fact(fact, NodeKey("stage-plan"), Cursor("0", 1, 2)) == CourseStep(
        "hook_answer", "plan", None, 1, 2, 1, detail
    )
