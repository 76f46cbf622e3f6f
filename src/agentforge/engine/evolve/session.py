"""Applies events to the run as a whole: its controls, and what stops, resumes, changes and ends it."""

from datetime import timedelta
from typing import assert_never

from msgspec.structs import replace

from agentforge.engine.evolve import hooks
from agentforge.engine.evolve.node import with_fresh_stages, with_stage
from agentforge.engine.evolve.plan_change import apply_plan_change
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.failure import Failure
from agentforge.model.request import Note
from agentforge.model.state import (
    MACHINE_SHUTDOWN,
    MAX_REFUSED,
    LatestResume,
    RefusedFile,
    Restart,
    RunState,
    Stop,
    latest_notes,
)
from agentforge.model.status import RunStatus

MAX_CONTROLS = 32


def apply_session(state: RunState, event: Event, fact: f.AnyRunFact) -> RunState:
    if isinstance(fact, f.ControlFact):
        return _apply_control(state, fact)
    match fact:
        case f.SessionStarted() | f.TmuxSessionCleaned() | f.SpendingWarned():
            return state
        case f.PlanChanged():
            return apply_plan_change(state, event, fact)
        case f.FileRefused():
            refused = (*state.refused, RefusedFile(fact.name, fact.reason, fact.moved_to))
            return replace(state, refused=refused[-MAX_REFUSED:])
        case f.SessionCompleted(reason=reason):
            return _ended(state, event, RunStatus.COMPLETED, reason)
        case f.SessionFailed():
            failure = Failure(fact.kind, fact.message)
            return replace(state, status=RunStatus.FAILED, completed_at=event.at, failure=failure, stop=None)
        case f.SessionPaused(reason=reason, requests=requests):
            return _paused(state, event, RunStatus.PAUSED, reason, waits=bool(requests))
        case f.AwaitingApproval():
            return _paused(state, event, RunStatus.AWAITING_APPROVAL, "awaiting_approval", waits=True)
        case f.SessionAborted(reason=reason):
            return _ended(state, event, RunStatus.ABORTED, reason)
        case f.SessionRecovered(by="recovery") if not state.is_stopped_by_shutdown:
            is_over = state.stop is not None and state.stop.reason == MACHINE_SHUTDOWN
            return replace(state, recoveries=state.recoveries + 1, stop=None if is_over else state.stop)
        case f.SessionContinued() | f.SessionRecovered(by="recovery"):
            return _continued(state, event)
        case f.SessionRecovered() | f.SessionResumed():  # exhaustive
            known = state.settings
            settings = replace(
                known, record=known.record or fact.record, approve=known.approve or fact.approve
            )
            return _resumed(replace(state, settings=settings), event, fact)


def _apply_control(state: RunState, fact: f.ControlFact) -> RunState:
    if fact.control:
        # So that it isn't processed twice.
        state = replace(state, controls=(*state.controls, fact.control)[-MAX_CONTROLS:])
    match fact:
        case f.CancelRequested():
            return replace(state, stop=Stop(cancel=True, reason=fact.reason, now=True))
        case f.PauseRequested() if state.stop and state.stop.cancel:
            return state
        case f.PauseRequested():
            # A shutdown stops what a person was about to stop: it stays the person's stop.
            known = state.stop if fact.reason == MACHINE_SHUTDOWN else None
            reason = known.reason if known else fact.reason
            return replace(state, stop=Stop(cancel=False, reason=reason, now=fact.now, due_at=fact.due_at))
        case f.NoteAdded(text=text, by=by, secrets=secrets):
            return replace(state, notes=latest_notes((*state.notes, Note(text, by, secrets))))
        case f.RestartRequested(reason=reason, by=by, provider=provider, hook=hook):
            stage = state.stage(provider)
            if stage is None:
                return state
            count = stage.hook_restarts + bool(hook)
            restarts = replace(stage, restart=Restart(reason, by), hook_restarts=count)
            return with_stage(state, Cursor(stage.path, stage.run, 0, provider), restarts)
        case _:
            assert_never(fact)


def _ended(state: RunState, event: Event, status: RunStatus, reason: str) -> RunState:
    """The run is over; open requests are dropped."""
    ended = replace(state, status=status, completed_at=event.at, completion_reason=reason)
    return replace(ended, stop=None, requests=())


def _paused(state: RunState, event: Event, status: RunStatus, reason: str, *, waits: bool) -> RunState:
    return replace(state, status=status, paused_at=event.at, pause_reason=reason, stop=None, waits=waits)


def _continued(state: RunState, event: Event) -> RunState:
    """A request was answered, or the machine is up again: the time in between doesn't count as runtime."""
    waited = event.at - state.paused_at if state.paused_at else timedelta()
    return replace(
        state,
        status=RunStatus.RUNNING,
        clock_from=state.clock_from + waited,
        paused_at=None,
        pause_reason=None,
        waits=False,
    )


def _resumed(state: RunState, event: Event, fact: f.SessionResumed | f.SessionRecovered) -> RunState:
    """A person resumed the run: earlier failures no longer count."""
    notes = state.notes
    if fact.context:
        notes = latest_notes((*notes, Note(fact.context, fact.by, fact.secrets)))
    fresh = replace(
        state,
        status=RunStatus.RUNNING,
        clock_from=event.at,
        resumed_at=event.at,
        completed_at=None,
        failure=None,
        paused_at=None,
        pause_reason=None,
        waits=False,
        stop=state.stop if state.stop and state.stop.cancel else None,
        recoveries=0,
        recoveries_excused=0,
        runtime_granted=None,
        notes=notes,
        resumption=LatestResume(event.seq, fact.context or "", fact.by),
    )
    return with_fresh_stages(hooks.resumed(fresh))
