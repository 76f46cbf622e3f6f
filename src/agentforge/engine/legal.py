"""Checks which facts may be recorded next. Every write to the log passes this check, so the log holds only
the transitions of `model.status`."""

import shlex

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.errors import IllegalMove
from agentforge.model.names import session_argument
from agentforge.model.plan import Plan
from agentforge.model.state import RunState, TaskState
from agentforge.model.status import (
    FINAL,
    ITERATION_MOVES,
    RUN_MOVES,
    STAGE_MOVES,
    TASK_MOVES,
    IterationStatus,
    NodeStatus,
    RunStatus,
    TaskStatus,
    move,
    status_text,
)

# Theory of operation
#
# `evolve` accepts whatever is on the disk, so nothing illegal may get there: this is asked before each write.
# Most facts say themselves which status they lead to, and the tables of `model.status` say from where: a new
# fact needs no line here. Without this check, a bug in a gate or in the driver would be part of a run for
# ever, as a second outcome of one task, or as work after the end of the run.
#
# It refuses what contradicts the state, not what is missing from it: after a damaged line the start of a task
# may be unknown, and its outcome counts all the same.

_ALLOWS_NEXT_ATTEMPT = frozenset({TaskStatus.DUE, TaskStatus.LOST, TaskStatus.CANCELLED})
"""After these, another attempt of the agent may start: a failed one is first decided about. Other tasks start
again after a failure without a decision that is recorded."""


def refuse_illegal(state: RunState | None, fact: f.AnyFact, cursor: Cursor | None = None) -> None:
    """Raise IllegalMove if the fact can't follow the state, at the stage of the cursor."""
    if state is None:
        if not isinstance(fact, f.SessionStarted):
            raise IllegalMove(f"{fact.TYPE} before session_start")
        return
    if isinstance(fact, f.LogImported):
        if state.run_id:
            raise IllegalMove("log_adopted in a log that was not written by the shell engine")
        return
    refuse_shell_run(state)
    if isinstance(fact, f.SessionStarted):
        raise IllegalMove("the log already has a session_start")
    if state.status in FINAL and not fact.AFTER_END:
        raise IllegalMove(f"{fact.TYPE} after the run was {state.status}")
    match fact.MOVES_TO:
        case RunStatus() as status:
            move(RUN_MOVES, state.status, status)
        case NodeStatus() as status:
            provider = cursor.provider if cursor else None
            here = state.stage(provider) or (state.block if provider is None else None)
            move(STAGE_MOVES, NodeStatus.RUNNING if here else NodeStatus.PENDING, status)
        case _:
            _refuse_work(state, fact, cursor)


def _refuse_work(state: RunState, fact: f.AnyFact, cursor: Cursor | None) -> None:
    provider = cursor.provider if cursor else None
    stage = state.stage(provider)
    iteration = stage.iteration if stage else None
    match fact:
        case f.SessionRecovered():
            # A run without its engine is recovered, and one that was stopped by a shutdown of the machine.
            is_continued = fact.by == "recovery" and state.is_stopped_by_shutdown
            if state.status is not RunStatus.RUNNING and not is_continued:
                raise IllegalMove(f"invalid transition: {state.status} → {RunStatus.RUNNING}")
        case f.RequestOpened():
            if any(fact.key == known.key for known in state.requests):
                raise IllegalMove(f"request {fact.key!r} is already open")
        case f.RequestAnswered() | f.RequestResolved():
            _refuse_answer(state, fact)
        case f.TaskFact():
            # A damaged log may lack the start of a task; its outcome still counts.
            if (task := state.task(fact.KIND, fact.about, provider)) is not None:
                _refuse_task(task, fact)
        case _ if iteration is not None:
            if isinstance(fact.MOVES_TO, IterationStatus):
                move(ITERATION_MOVES, iteration.status, fact.MOVES_TO)
            due = isinstance(fact, f.TimerFired) and fact.timer == "retry"
            status = TaskStatus.DUE if due else fact.MOVES_TO
            if iteration.attempt is not None and isinstance(status, TaskStatus):
                move(TASK_MOVES, iteration.attempt.status, status)


def _refuse_task(known: TaskState, fact: f.TaskFact) -> None:
    """A task starts when the one before is over, has one outcome, and isn't started again after a result."""
    if not isinstance(fact, f.TaskStarted):
        if fact.MOVES_TO is not None:
            move(TASK_MOVES, known.status, fact.MOVES_TO)
        return
    if isinstance(fact, f.AttemptStarted):
        is_refused = known.status not in _ALLOWS_NEXT_ATTEMPT and not known.is_at_cap
    else:
        is_refused = known.in_flight or known.status is TaskStatus.SUCCEEDED
    if is_refused:
        name = fact.TYPE.removesuffix("_start")
        named = f"{name} {fact.label!r}" if fact.label else name
        raise IllegalMove(f"{named} {fact.attempt} starts while {name} {known.number} is {known.status}")


def _refuse_answer(state: RunState, fact: f.RequestAnswered | f.RequestResolved) -> None:
    """A request is answered once and resolved once."""
    known = next((request for request in state.requests if request.id == fact.id), None)
    if known is not None and isinstance(fact, f.RequestResolved) and fact.effect == "withdrawn":
        return
    if known is None or known.is_open != isinstance(fact, f.RequestAnswered):
        raise IllegalMove(f"{fact.TYPE} is not expected for request {fact.id!r}")
    if isinstance(fact, f.RequestAnswered) and known.is_overdue and fact.by != "default":
        raise IllegalMove(f"request {fact.id!r} timed out and takes its default answer")


def refuse_shell_run(state: RunState) -> None:
    """Raise IllegalMove if the run was started by the shell engine and not imported yet."""
    if not state.run_id:
        raise IllegalMove(
            f"Session {state.session!r} was started by the agent-pipelines shell engine.",
            hint=f"import it first: `agentforge resume {session_argument(state.session)}`",
        )


def refuse_resume(state: RunState, plan: Plan) -> None:
    """Raise IllegalMove, with a message for people, if the run can't be resumed."""
    if state.status not in FINAL:
        return
    is_completed = state.status is RunStatus.COMPLETED
    ended = "already completed" if is_completed else "was cancelled and can't be resumed"
    raise IllegalMove(
        f"Session {state.session!r} {ended}.",
        hint=f"`agentforge {_start_over(plan, state)}` archives it and starts over",
    )


def _start_over(plan: Plan, state: RunState) -> str:
    if plan.mode == "loop":
        return f"loop --force {shlex.quote(plan.only_stage.stage)} {session_argument(state.session)}"
    # A pipeline that was given as text has no file.
    file = "FILE" if plan.source.path.startswith("<") else shlex.quote(plan.source.path)
    request = ' "REQUEST"' if state.user_request is not None else ""
    return f"run --force -p {file} -s {state.session}{request}"


def refuse_pause(state: RunState) -> None:
    refuse_shell_run(state)
    if state.status is not RunStatus.RUNNING:
        shown = status_text(state.status, state.open_requests)
        raise IllegalMove(f"Session {state.session!r} is {shown}; only a running session can be paused.")


def refuse_restart(state: RunState, provider: str | None = None) -> None:
    """Raise IllegalMove, with a message for people, if there is no such stage to start over."""
    refuse_shell_run(state)
    name = f"Session {state.session!r}"
    if state.status in FINAL:
        raise IllegalMove(f"{name} is {status_text(state.status)}; no stage can be restarted.")
    if state.block is not None and provider is None:
        running = ", ".join(branch for branch, _ in state.under_way() if branch)
        raise IllegalMove(
            f"{name} is in a parallel block, whose branches are restarted separately.",
            hint=f"name one with --provider: {running}" if running else "",
        )
    if state.stage(provider) is None:
        where = f"provider {provider!r}" if provider else "the run"
        raise IllegalMove(f"{name} can't restart a stage: {where} is not in a stage.")


def refuse_note(state: RunState) -> None:
    """Raise IllegalMove, with a message for people, if nothing can be added to the run's context."""
    refuse_shell_run(state)
    if state.status in FINAL:
        raise IllegalMove(
            f"Session {state.session!r} is {status_text(state.status)}: it has no further iterations.",
            hint="start another run, with the text as --context",
        )


def refuse_cancel(state: RunState) -> None:
    refuse_shell_run(state)
    if RunStatus.ABORTED not in RUN_MOVES[state.status]:
        raise IllegalMove(
            f"Session {state.session!r} is {status_text(state.status)} and cannot be cancelled.",
            hint=f"to delete it: `agentforge rm {session_argument(state.session)}`",
        )
