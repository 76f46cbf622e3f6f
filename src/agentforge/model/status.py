"""State machines of runs, stages, iterations and tasks, with their legal transitions."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from agentforge.model.errors import IllegalMove
from agentforge.model.request import Request


class RunStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    AWAITING_APPROVAL = "awaiting_approval"
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"


class NodeStatus(StrEnum):
    """Status of a stage or a block."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class IterationStatus(StrEnum):
    STARTED = "started"
    COMPLETED = "completed"
    FAILED = "failed"


class TaskStatus(StrEnum):
    """Status of a task that runs a program or calls a provider."""

    RUNNING = "running"
    ENDING = "ending"
    """A kill was recorded; the process may still be alive."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    WAITING = "waiting"
    """Failed, and another attempt is due at a recorded time."""
    DUE = "due"
    """The next attempt is due now."""
    LOST = "lost"
    """The engine or host died; doesn't count against the retry policy."""
    CANCELLED = "cancelled"
    """Stopped on request; doesn't count against the retry policy."""


_R, _N, _I, _A = RunStatus, NodeStatus, IterationStatus, TaskStatus

# `engine.legal` asks these tables before each write, so a log holds no other transitions.
RUN_MOVES: Mapping[RunStatus, frozenset[RunStatus]] = {
    _R.PENDING: frozenset({_R.RUNNING, _R.FAILED, _R.ABORTED}),
    _R.RUNNING: frozenset({_R.PAUSED, _R.AWAITING_APPROVAL, _R.COMPLETED, _R.FAILED, _R.ABORTED}),
    _R.PAUSED: frozenset({_R.RUNNING, _R.ABORTED}),
    _R.AWAITING_APPROVAL: frozenset({_R.RUNNING, _R.ABORTED}),
    _R.FAILED: frozenset({_R.RUNNING}),
    _R.COMPLETED: frozenset(),
    _R.ABORTED: frozenset(),
}

STAGE_MOVES: Mapping[NodeStatus, frozenset[NodeStatus]] = {
    _N.PENDING: frozenset({_N.RUNNING}),
    _N.RUNNING: frozenset({_N.COMPLETED, _N.FAILED}),
    _N.FAILED: frozenset({_N.RUNNING}),
    _N.COMPLETED: frozenset({_N.RUNNING}),  # Visited again.
}

ITERATION_MOVES: Mapping[IterationStatus, frozenset[IterationStatus]] = {
    _I.STARTED: frozenset({_I.COMPLETED, _I.FAILED}),
    _I.FAILED: frozenset({_I.STARTED}),
    _I.COMPLETED: frozenset(),
}

TASK_MOVES: Mapping[TaskStatus, frozenset[TaskStatus]] = {
    # An attempt is cancelled only once the intent to end it is in the log.
    _A.RUNNING: frozenset({_A.ENDING, _A.SUCCEEDED, _A.FAILED, _A.LOST}),
    _A.ENDING: frozenset({_A.CANCELLED, _A.SUCCEEDED, _A.FAILED, _A.LOST}),
    _A.FAILED: frozenset({_A.WAITING, _A.DUE, _A.SUCCEEDED}),  # If a person confirms it.
    _A.WAITING: frozenset({_A.DUE}),
    _A.SUCCEEDED: frozenset(),
    _A.DUE: frozenset(),
    _A.LOST: frozenset({_A.SUCCEEDED}),
    _A.CANCELLED: frozenset({_A.SUCCEEDED}),
}

APPROVALS = frozenset({"approval", "checkpoint"})
"""The kinds of requests for an approval."""

FINAL: frozenset[RunStatus] = frozenset(status for status, moves in RUN_MOVES.items() if not moves)

Status = TypeVar("Status", RunStatus, NodeStatus, IterationStatus, TaskStatus)


def move(table: Mapping[Status, frozenset[Status]], current: Status, to: Status) -> Status:
    """The new status; raises IllegalMove if the transition isn't allowed."""
    if to not in table[current]:
        raise IllegalMove(f"invalid transition: {current} → {to}")
    return to


def status_text(status: str, asked: Iterable[Request] = ()) -> str:
    """The status for people; files and events have `aborted` and `awaiting_approval`. `asked`: the open
    requests."""
    if status != RunStatus.AWAITING_APPROVAL:
        return {"aborted": "cancelled"}.get(status, status)
    kinds = {request.kind for request in asked}
    return "awaiting approval" if kinds and kinds <= APPROVALS else "waiting for an answer"
