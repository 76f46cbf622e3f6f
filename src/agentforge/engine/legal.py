"""What may be recorded next. The log is written through this check, so that every move in it is one of
the tables' (`model.status`)."""

from agentforge.model import facts as f
from agentforge.model.errors import IllegalMove
from agentforge.model.state import RunState
from agentforge.model.status import ATTEMPT_MOVES, RUN_MOVES, AttemptStatus, RunStatus, move

_RUN_TARGET: dict[type[f.AnyFact], RunStatus] = {
    f.SessionCompleted: RunStatus.COMPLETED,
    f.SessionFailed: RunStatus.FAILED,
    f.SessionPaused: RunStatus.PAUSED,
    f.SessionAborted: RunStatus.ABORTED,
    f.SessionResumed: RunStatus.RUNNING,
}

_ATTEMPT_TARGET: dict[type[f.AnyFact], AttemptStatus] = {
    f.AttemptEnding: AttemptStatus.ENDING,
    f.AttemptCancelled: AttemptStatus.CANCELLED,
    f.AttemptLost: AttemptStatus.LOST,
    f.IterationCompleted: AttemptStatus.SUCCEEDED,
    f.ErrorOccurred: AttemptStatus.FAILED,
    f.RetryScheduled: AttemptStatus.WAITING,
}


def refuse_illegal(state: RunState | None, fact: f.AnyFact) -> None:
    """Raise IllegalMove if the fact can't follow on the state."""
    kind = type(fact)
    if state is None:
        if kind is not f.SessionStarted:
            raise IllegalMove(f"{fact.TYPE} before session_start")
        return
    if target := _RUN_TARGET.get(kind):
        move(RUN_MOVES, state.status, target)
    elif (turn := _ATTEMPT_TARGET.get(kind)) and state.attempt is not None:
        move(ATTEMPT_MOVES, state.attempt.status, turn)
    elif kind is f.SessionStarted:
        raise IllegalMove("session_start twice in one log")


def refuse_resume(state: RunState) -> None:
    """Raise IllegalMove, in the words a person needs, if the run can't be resumed."""
    if state.status is RunStatus.COMPLETED:
        raise IllegalMove("Session already completed.", hint="use --force to restart it from the beginning")
    if state.status is RunStatus.ABORTED:
        raise IllegalMove(
            "Session was cancelled, and that is final.", hint="use --force to start it from the beginning"
        )


def refuse_pause(state: RunState) -> None:
    if state.status is not RunStatus.RUNNING:
        raise IllegalMove(f"Session {state.session!r} is {state.status}: there is nothing to pause.")


def refuse_cancel(state: RunState) -> None:
    if RunStatus.ABORTED not in RUN_MOVES[state.status]:
        raise IllegalMove(f"Session {state.session!r} is {state.status}: there is nothing to cancel.")
