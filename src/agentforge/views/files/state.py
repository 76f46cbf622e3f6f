"""state.json: the fields of agent-pipelines, and a snapshot that lets `status` skip the log.

Written by the engine; never read back as the source of truth.
"""

from datetime import datetime
from typing import Any

from msgspec import Struct

from agentforge.model.cursor import Cursor
from agentforge.model.place import folder_of
from agentforge.model.plan import Plan
from agentforge.model.state import RunState, is_within, position_of
from agentforge.model.status import FINAL, RunStatus
from agentforge.ports.event_log import BufferHealth, Head
from agentforge.views.history import History, HistoryEntry
from agentforge.views.run_model import Summary
from agentforge.views.stage_progress import current_step, is_skipped

SNAPSHOT_VERSION = 26
"""Version of the state and summary types: snapshots of other versions are ignored."""


class StateSnapshot(Struct, frozen=True):
    """The folded state at a given length of the log: a cache, valid while the log matches."""

    version: int
    length: int
    hash: str
    state: RunState
    summary: Summary
    buffer: BufferHealth
    """Buffer health of the engine that wrote this."""


class StageEntry(Struct, frozen=True):
    name: str
    index: int
    iterations: int
    completed_at: datetime | None
    status: str
    timestamp: datetime
    judge_failures: int = 0
    """Consecutive failures."""


class StateFile(Struct, frozen=True):
    session: str
    type: str
    """The stage of a single-stage run, else `pipeline`."""
    pipeline: str | None
    status: str
    iteration: int
    iteration_completed: int
    iteration_started: datetime | None
    """None while no agent is running."""
    started_at: datetime
    completed_at: datetime | None
    current_stage: str | None
    stages: tuple[StageEntry, ...]
    history: tuple[HistoryEntry, ...]
    history_omitted: int
    event_offset: int
    error: str | None
    error_type: str | None
    current_attempt: int
    paused_at: datetime | None
    pause_reason: str | None
    completion_reason: str | None
    requests: tuple[dict[str, Any], ...]
    wake_at: datetime | None
    """When a run that waits for people continues without an answer."""
    cursor: Cursor | None
    failed_at: datetime | None
    resumed_at: datetime | None
    resume_from: int | None
    """The iteration at which a resume starts; None once the run has ended."""
    snapshot: StateSnapshot | None = None


def state_file(
    plan: Plan,
    state: RunState,
    summary: Summary,
    history: History,
    *,
    head: Head,
    buffer: BufferHealth,
) -> StateFile:
    """`head`: of the log that all of it was folded from."""
    iteration, attempt = state.iteration, state.attempt
    working = attempt is not None and attempt.in_flight
    at, step = state.node or state.block, current_step(plan, state)
    # Of the current stage or block, else of the last one.
    completed = at.completed if at else state.stages[-1].iterations if state.stages else 0
    return StateFile(
        session=state.session,
        type=plan.only_stage.stage if plan.mode == "loop" else "pipeline",
        pipeline=plan.source.path if plan.mode == "pipeline" else None,
        status=state.status.value,
        iteration=iteration.number if iteration else completed,
        iteration_completed=completed,
        iteration_started=iteration.started_at if iteration and working else None,
        started_at=state.started_at,
        completed_at=state.completed_at,
        current_stage=folder_of(plan, at) if at and step else step.dir if step else None,
        stages=_stages(plan, state),
        history=history.entries,
        history_omitted=history.omitted,
        event_offset=state.seq,
        error=state.failure.message if state.failure else None,
        error_type=state.failure.kind.value if state.failure else None,
        current_attempt=attempt.number if attempt else 0,
        paused_at=state.paused_at,
        pause_reason=state.pause_reason,
        completion_reason=state.completion_reason,
        requests=tuple({"id": r.id, "question": r.question} for r in state.open_requests),
        wake_at=state.wake_at,
        cursor=state.cursor,
        failed_at=state.completed_at if state.status is RunStatus.FAILED else None,
        resumed_at=state.resumed_at,
        resume_from=None if state.status in FINAL else (state.node.completed if state.node else 0) + 1,
        snapshot=StateSnapshot(SNAPSHOT_VERSION, head.length, head.hash, state, summary, buffer),
    )


def _stages(plan: Plan, state: RunState) -> tuple[StageEntry, ...]:
    at = state.node or state.block
    left = tuple(step for step in plan.steps if is_skipped(step.path, state))
    # A node that is visited again is listed as current, not once more as completed.
    others = {at.path if at else "", *(step.path for step in left)}
    done = tuple(
        StageEntry(
            name=record.name,
            index=position_of(record.path),
            iterations=record.iterations,
            completed_at=record.completed_at,
            status="completed",
            timestamp=record.completed_at,
            judge_failures=record.judge_failures,
        )
        for record in state.stages
        if record.path not in others
    )
    for step in left:
        when = next(at for path, at in state.skipped.items() if is_within(step.path, path))
        done = (*done, StageEntry(step.node.id, position_of(step.path), 0, None, "skipped", when))
    if at is None or at.path not in plan.places:
        return done
    current = StageEntry(
        name=plan.places[at.path].node.id,
        index=position_of(at.path),
        iterations=at.completed,
        completed_at=None,
        status="failed" if state.status is RunStatus.FAILED else "running",
        timestamp=state.updated_at,
        judge_failures=state.node.judge_failures if state.node else 0,
    )
    return (*done, current)
