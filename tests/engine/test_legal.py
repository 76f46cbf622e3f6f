"""What may be recorded: nothing enters the log that isn't a move of the tables."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, event, plan_of, stage, started

from agentforge.engine.evolve.run import evolve
from agentforge.engine.legal import refuse_cancel, refuse_illegal, refuse_pause, refuse_resume
from agentforge.model import facts as f
from agentforge.model.check import FilesBefore
from agentforge.model.cursor import Cursor
from agentforge.model.errors import IllegalMove
from agentforge.model.failure import FailureKind
from agentforge.model.plan import Mode
from agentforge.model.request import UserRequest
from agentforge.model.result import Decision, Result
from agentforge.model.state import (
    MACHINE_SHUTDOWN,
    AttemptState,
    BlockState,
    BranchState,
    IterationState,
    RunState,
    StageState,
    TaskState,
)
from agentforge.model.status import (
    RUN_MOVES,
    TASK_MOVES,
    IterationStatus,
    NodeStatus,
    RunStatus,
    TaskStatus,
    status_text,
)

PLAN = plan_of(stage())
RUNNING = evolve(None, event(1, started(PLAN), Cursor("0", 0, 0)))

SESSION_MOVES: dict[RunStatus, f.AnyFact] = {
    RunStatus.COMPLETED: f.SessionCompleted("done"),
    RunStatus.FAILED: f.SessionFailed(FailureKind.PROVIDER_CRASHED, "it crashed", "plan"),
    RunStatus.PAUSED: f.SessionPaused("lunch"),
    RunStatus.ABORTED: f.SessionAborted("enough"),
    RunStatus.RUNNING: f.SessionResumed("person"),
}
ATTEMPT_TURNS: dict[TaskStatus, f.AnyFact] = {
    TaskStatus.ENDING: f.AttemptEnding(1, "lunch"),
    TaskStatus.CANCELLED: f.AttemptCancelled(1, "lunch"),
    TaskStatus.LOST: f.AttemptLost(1, "it died", started=True),
    TaskStatus.SUCCEEDED: f.IterationCompleted("plan", 1, Decision.CONTINUE, "", "result.json", Result(), 1),
    TaskStatus.FAILED: f.ErrorOccurred(FailureKind.PROVIDER_CRASHED, "it crashed", "plan", 1),
    TaskStatus.WAITING: f.RetryScheduled(2, 2, NOON, "again"),
    TaskStatus.DUE: f.TimerFired("retry"),
}


def attempt_in_flight(status: TaskStatus) -> RunState:
    attempt = AttemptState(1, status, NOON)
    iteration = IterationState(1, IterationStatus.STARTED, NOON, attempt=attempt, attempts=1)
    return replace(RUNNING, at=StageState("0", 1, iteration=iteration))


def is_refused(state: RunState | None, fact: f.AnyFact) -> bool:
    try:
        refuse_illegal(state, fact)
    except IllegalMove:
        return True
    return False


@pytest.mark.parametrize("status", RunStatus)
@pytest.mark.parametrize("target", SESSION_MOVES)
def test_session_moves_are_those_of_the_table(status: RunStatus, target: RunStatus) -> None:
    legal = target in RUN_MOVES[status]
    assert is_refused(replace(RUNNING, status=status), SESSION_MOVES[target]) != legal


@pytest.mark.parametrize("status", TaskStatus)
@pytest.mark.parametrize("target", ATTEMPT_TURNS)
def test_attempt_moves_are_those_of_the_table(status: TaskStatus, target: TaskStatus) -> None:
    legal = target in TASK_MOVES[status]
    assert is_refused(attempt_in_flight(status), ATTEMPT_TURNS[target]) != legal


@pytest.mark.parametrize("status", TaskStatus)
def test_attempt_starts_only_after_the_previous_one_ended(status: TaskStatus) -> None:
    makes_way = status in (TaskStatus.DUE, TaskStatus.LOST, TaskStatus.CANCELLED)
    begins = f.AttemptStarted(2, 2, "claude", "opus")
    assert is_refused(attempt_in_flight(status), begins) != makes_way


def test_node_starts_once_and_ends_only_after_its_start() -> None:
    begins = f.NodeStarted("plan", "0")
    ends = f.NodeCompleted("plan", "done", 1)
    within = replace(RUNNING, at=StageState("0", 1))
    assert [is_refused(RUNNING, begins), is_refused(RUNNING, ends)] == [False, True]
    assert [is_refused(within, begins), is_refused(within, ends)] == [True, False]


def test_iteration_starts_only_after_the_previous_one_ended() -> None:
    begins = f.IterationStarted("plan", "plan", "claude", "opus", "0" * 64)
    assert is_refused(attempt_in_flight(TaskStatus.RUNNING), begins)
    assert not is_refused(replace(RUNNING, at=StageState("0", 1)), begins)


def test_outcome_of_an_attempt_whose_beginning_a_damaged_log_lost_counts() -> None:
    state = replace(RUNNING, at=StageState("0", 1))
    assert [fact for fact in ATTEMPT_TURNS.values() if is_refused(state, fact)] == []


def test_other_timers_and_remarks_are_not_moves() -> None:
    state = attempt_in_flight(TaskStatus.RUNNING)
    due = NOON + timedelta(seconds=1)
    remarks = (f.TimerFired("delay"), f.AttemptReattached(1, 7), f.PauseRequested("x", due_at=due))
    assert [fact for fact in remarks if is_refused(state, fact)] == []


def test_what_is_recorded_of_a_task_in_flight_is_not_a_move() -> None:
    running = TaskState(1, TaskStatus.RUNNING, NOON, about="tests")
    state = replace(RUNNING, at=StageState("0", 1, calls={"check": running}))
    assert not is_refused(state, f.CheckPrepared("tests", 1, FilesBefore("abc")))


def test_move_is_judged_by_the_branch_that_it_is_about() -> None:
    claude = BranchState("claude", NodeStatus.RUNNING, attempt_in_flight(TaskStatus.RUNNING).node)
    block = BlockState("0", 1, "", (claude, BranchState("codex", NodeStatus.RUNNING)))
    state = replace(RUNNING, at=block)
    begins = f.AttemptStarted(2, 2, "claude", "opus")
    with pytest.raises(IllegalMove, match="attempt 2 starts while attempt 1 is running"):
        refuse_illegal(state, begins, Cursor("0.0", 1, 1, "claude"))
    refuse_illegal(state, begins, Cursor("0.0", 1, 1, "codex"))


def test_block_starts_once_and_ends_only_after_its_start() -> None:
    begins = f.NodeStarted("duel", kind="parallel", providers=("claude",))
    ends = f.NodeCompleted("duel", "done", 1)
    within = replace(RUNNING, at=BlockState("0", 1))
    assert [is_refused(RUNNING, begins), is_refused(RUNNING, ends)] == [False, True]
    assert [is_refused(within, begins), is_refused(within, ends)] == [True, False]


def test_log_starts_with_session_start_and_has_only_one() -> None:
    refuse_illegal(None, started(PLAN))
    with pytest.raises(IllegalMove, match="timer_fired before session_start"):
        refuse_illegal(None, f.TimerFired("delay"))
    with pytest.raises(IllegalMove, match="already has a session_start"):
        refuse_illegal(RUNNING, started(PLAN))


@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.ABORTED])
def test_only_facts_about_the_log_follow_a_final_status(status: RunStatus) -> None:
    over = replace(RUNNING, status=status)
    with pytest.raises(IllegalMove, match=f"cancel_requested after the run was {status}"):
        refuse_illegal(over, f.CancelRequested("enough"))
    refuse_illegal(over, f.LogRepaired(3, "events.jsonl.torn-7"))
    refuse_illegal(over, f.DamageAccepted((3,)))
    refuse_illegal(over, f.FileRefused("control/a.json", "empty", "a.json.refused"))


# -- invalid transitions, in the words that a person reads


@pytest.mark.parametrize(
    ("session", "path", "mode", "command"),
    [
        ("auth", "p.yaml", "pipeline", "run --force -p p.yaml -s auth"),
        ("-x", "my plan.yaml", "pipeline", "run --force -p 'my plan.yaml' -s -x"),
        ("auth", "<inline>", "pipeline", "run --force -p FILE -s auth"),
        ("auth", "p.yaml", "loop", "loop --force plan auth"),
        ("-x", "p.yaml", "loop", "loop --force plan -- -x"),
    ],
)
def test_resume_of_a_run_that_is_over_suggests_how_to_start_over(
    session: str, path: str, mode: Mode, command: str
) -> None:
    plan = replace(PLAN, source=replace(PLAN.source, path=path), mode=mode)
    state = replace(RUNNING, session=session, status=RunStatus.COMPLETED)
    with pytest.raises(IllegalMove, match=f"^Session '{session}' already completed\\.$") as caught:
        refuse_resume(state, plan)
    assert caught.value.hint == f"`agentforge {command}` archives it and starts over"
    if mode == "pipeline":
        with pytest.raises(IllegalMove) as caught:
            refuse_resume(replace(state, user_request=UserRequest("add a function")), plan)
        assert caught.value.hint == f'`agentforge {command} "REQUEST"` archives it and starts over'


def test_resume_on_aborted_is_refused() -> None:
    with pytest.raises(IllegalMove, match="'auth' was cancelled and can't be resumed"):
        refuse_resume(replace(RUNNING, status=RunStatus.ABORTED), PLAN)


@pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.PAUSED, RunStatus.FAILED])
def test_resume_on_anything_else_is_legal(status: RunStatus) -> None:
    state = replace(RUNNING, status=status)
    refuse_resume(state, PLAN)
    assert RunStatus.RUNNING in {status, *RUN_MOVES[status]}


@pytest.mark.parametrize("status", [status for status in RunStatus if status is not RunStatus.RUNNING])
def test_pause_of_a_run_that_is_not_running_is_refused(status: RunStatus) -> None:
    refuse_pause(RUNNING)
    shown = status_text(status)
    with pytest.raises(IllegalMove, match=f"'auth' is {shown}; only a running session can be paused"):
        refuse_pause(replace(RUNNING, status=status))


@pytest.mark.parametrize("status", RunStatus)
def test_cancel_of_an_ended_run_is_refused(status: RunStatus) -> None:
    state = replace(RUNNING, status=status)
    if status in (RunStatus.COMPLETED, RunStatus.ABORTED, RunStatus.FAILED):
        with pytest.raises(IllegalMove, match="cannot be cancelled"):
            refuse_cancel(state)
    else:
        refuse_cancel(state)


def test_recovery_is_for_runs_without_their_engine_and_those_that_a_shutdown_stopped() -> None:
    paused = replace(RUNNING, status=RunStatus.PAUSED, pause_reason="lunch")
    shut_down = replace(paused, pause_reason=MACHINE_SHUTDOWN)
    by_recovery, by_person = f.SessionRecovered(1, "here"), f.SessionRecovered(1, "here", "person")
    assert not is_refused(RUNNING, by_recovery)
    assert not is_refused(RUNNING, by_person)
    assert not is_refused(shut_down, by_recovery)
    assert is_refused(shut_down, by_person)
    assert is_refused(paused, by_recovery)
