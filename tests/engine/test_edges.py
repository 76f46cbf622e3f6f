"""Rare corners of the engine: logs of other engines, chains without anybody left, stops while rehearsing."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, event, nested, plan_of, stage, started
from tests.engine.playbook import Play

from agentforge.engine.decide.failure import attempts_allowed, choose_in_chain
from agentforge.engine.decide.task_kinds import in_flight
from agentforge.engine.evolve.run import evolve
from agentforge.engine.legal import refuse_illegal
from agentforge.engine.nodes import NodeKeys, next_node
from agentforge.engine.normalise import normalise_returned
from agentforge.engine.rehearsal.outcomes import Answers
from agentforge.engine.rehearsal.rehearsed_run import RehearsedRun, step_of_fact, step_of_work
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.errors import IllegalMove, LogTooOld
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.plan import Judgment, Plan, RetryPolicy
from agentforge.model.request import Request
from agentforge.model.result import Result
from agentforge.model.state import Between, RunState, StageState, TaskState, Unavailable
from agentforge.model.status import TaskStatus
from agentforge.model.task import AgentTask, JudgeTask, Wait

PLAN = plan_of(stage())
RUNNING = evolve(None, event(1, started(PLAN), Cursor("0", 0, 0)))
THEIRS = replace(RUNNING, run_id="")
IMPORTED = f.LogImported(3, "0" * 64, "pipeline", "id", PLAN, "1.0", NOON, Between(None))


def test_log_of_an_older_format_names_both_formats() -> None:
    older = replace(started(PLAN), format=f.LOG_FORMAT - 1)
    with pytest.raises(LogTooOld, match=f"has format {f.LOG_FORMAT - 1}, but this version requires format"):
        evolve(None, event(1, older, Cursor("0", 0, 0)))


def test_run_of_the_original_can_only_be_imported() -> None:
    refuse_illegal(THEIRS, IMPORTED)
    with pytest.raises(IllegalMove, match="started by the agent-pipelines shell engine"):
        refuse_illegal(THEIRS, f.PauseRequested("x"))
    with pytest.raises(IllegalMove, match="log_adopted in a log that was not written by the shell engine"):
        refuse_illegal(RUNNING, IMPORTED)


@pytest.mark.parametrize(
    ("status", "fact", "legal"),
    [
        (TaskStatus.RUNNING, f.JudgeStarted("claude", "opus", 2), False),
        (TaskStatus.LOST, f.JudgeStarted("claude", "opus", 2), True),
        (TaskStatus.RUNNING, f.JudgeLost(1), True),
        (TaskStatus.LOST, f.JudgeLost(1), False),
    ],
)
def test_judge_moves_as_every_task_does(status: TaskStatus, fact: f.AnyFact, legal: bool) -> None:
    at = StageState("0", 1, calls={"judge": TaskState(1, status, NOON)})
    if legal:
        refuse_illegal(replace(RUNNING, at=at), fact)
    else:
        with pytest.raises(IllegalMove):
            refuse_illegal(replace(RUNNING, at=at), fact)


def request(at: Cursor | None, key: str = "lost@0/1") -> Request:
    return Request("r1", "escalation", key, "lost", "Go on?", ("resume", "abort"), NOON, at=at)


def test_request_is_opened_once() -> None:
    again = f.RequestOpened("r2", "escalation", "lost@0/1", "lost", "Go on?", ("resume", "abort"))
    refuse_illegal(RUNNING, again)
    with pytest.raises(IllegalMove, match="'lost@0/1' is already open"):
        refuse_illegal(replace(RUNNING, requests=(request(None),)), again)


def test_provider_is_the_one_that_is_available_first_where_all_rest() -> None:
    soon, later = NOON + timedelta(minutes=1), NOON + timedelta(minutes=5)
    at = StageState("0", 1, unavailable=(Unavailable(0, later), Unavailable(1, soon), Unavailable(2, None)))
    assert choose_in_chain(3, at, NOON) == 1
    assert choose_in_chain(4, at, NOON) == 3
    nobody = StageState("0", 1, unavailable=(Unavailable(0, None), Unavailable(1, None)))
    assert choose_in_chain(2, nobody, NOON) == 0


def test_first_attempt_needs_no_permission() -> None:
    assert attempts_allowed(RetryPolicy(max_attempts=1), ()) == 1
    assert attempts_allowed(RetryPolicy(max_attempts=1), (FailureKind.PROVIDER_CRASHED,)) == 1


def test_result_that_a_provider_returns() -> None:
    assert normalise_returned({"summary": "done"}) == Result(summary="done")
    missing = normalise_returned(None)
    assert isinstance(missing, Failure)
    assert missing.kind is FailureKind.RESULT_MISSING


def test_after_a_nested_pipeline_as_a_whole_comes_what_follows_it() -> None:
    plan = plan_of(nested("in", stage("a")), stage("b"))
    assert next_node(plan, "0", (1,)) == Destination("1", (1,))


def changed(old: Plan, new: Plan, *requests: Request) -> RunState:
    state = replace(RUNNING, requests=requests)
    return evolve(state, event(2, plan_change(new, old, state)))


def test_questions_follow_their_node_into_the_new_plan() -> None:
    old, new = plan_of(stage("plan"), stage("gone")), plan_of(stage("first"), stage("plan"))
    of_node, of_run, of_gone = request(Cursor("0", 1, 1)), request(None), request(Cursor("1", 1, 1))
    moved, *others = changed(old, new, of_node, of_run, of_gone).requests
    assert (moved.at, moved.key) == (Cursor("1", 1, 1), "lost@1/1")
    assert others == [of_run, of_gone]


# -- a run in memory


def rehearsed(plan: Plan, *happened: str) -> RehearsedRun:
    conversation = Play(plan)
    for words in happened:
        conversation.happens(words)
    assert conversation.state is not None
    return RehearsedRun(plan, conversation.state)


def test_rehearsal_goes_no_further_than_it_may() -> None:
    run = rehearsed(PLAN, "start")
    assert [turn.what for turn in run.advance(Answers(), 0)] == ["iteration"]
    assert run.events == []


def test_rehearsed_agent_and_judge_end_when_they_are_asked_to() -> None:
    working = rehearsed(PLAN, "start", "prepared", "cancel x")
    working.advance(Answers(), 9)
    assert "attempt_cancelled" in [event.fact.TYPE for event in working.events]
    judged = plan_of(stage(termination=Judgment(9, 1, 1)))
    judging = rehearsed(judged, "start", "prepared", "completed", "cancel x")
    judging.advance(Answers(), 9)
    assert "judge_lost" in [event.fact.TYPE for event in judging.events]


def test_nothing_is_in_flight_at_a_stage_that_the_plan_lacks() -> None:
    plan = plan_of(stage())
    elsewhere = StageState("7", 1, calls={"judge": TaskState(1, TaskStatus.RUNNING, NOON)})
    state = replace(evolve(None, event(1, started(plan))), at=elsewhere)
    assert list(in_flight(plan, state)) == []


def test_work_without_a_place_in_the_plan_has_no_recorded_outcome() -> None:
    (task,) = rehearsed(PLAN, "start", "prepared").decision().work
    assert isinstance(task, AgentTask)
    assert Answers().take(task, None) is None


def test_skipped_judgment_is_not_a_recorded_outcome_of_a_judge() -> None:
    judged = plan_of(stage(termination=Judgment(9, 1, 1)))
    judging = rehearsed(judged, "start", "prepared", "completed")
    (task,) = judging.decision().work
    assert isinstance(task, JudgeTask)
    place = NodeKeys(judged).at(task.cursor)
    skipped = event(9, f.JudgeCompleted("skipped", f.JudgeResult(stop=False, reason="x")), task.cursor)
    heard = event(9, f.JudgeCompleted("success", f.JudgeResult(stop=True, reason="x")), task.cursor)
    assert Answers([(place, skipped)]).take(task, place) is None
    assert Answers([(place, heard)]).take(task, place) == heard


def test_wait_is_not_a_turn_and_a_run_that_awaits_approval_is_paused() -> None:
    assert step_of_work(Wait("delay", NOON), None) is None
    asked = step_of_fact(f.AwaitingApproval(("r1",)), None, None)
    assert asked is not None
    assert (asked.what, asked.detail) == ("run_paused", "waiting for an answer")
