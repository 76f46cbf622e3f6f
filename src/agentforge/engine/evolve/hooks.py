"""Applies events to the hooks that a run is at: their calls, answers and effects."""

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.hook import CALL_POINTS
from agentforge.model.request import Note, Request
from agentforge.model.state import (
    FAILED,
    HookCall,
    HookProgress,
    RunState,
    hook_host,
    latest_notes,
)
from agentforge.model.status import TaskStatus

# Theory of operation
#
# A host (a stage or block in a visit, a branch, a request, a resume) is at one hook point at a time, and
# the hooks of a point are called one after the other. So one `HookProgress` for each host says all: which
# of its hooks are done with, and the call of the one that isn't. It is replaced when its host comes to
# another point, and forgotten when the run leaves the place, which bounds the state. What a hook said
# earlier is in the log.
#
# A call is found by its delivery, not by its place. The outcome of one that is no longer awaited, because
# its stage was restarted or its request was withdrawn, then changes nothing; by place, it would count for
# the call that has taken its turn.
#
# An answer that has consequences doesn't settle its call (`is_settled`). The gate records them one after
# the other, and a crash in between finds the call as it was: settled, the pause would be forgotten, and
# called again, a service would hear of the same thing twice.

TIMER = "hook:"
"""Prefix of the name of a hook's timer, before its delivery id."""

BY = "hook "
"""Prefix of who said something, before the id of the hook."""

CallFact = f.HookCompleted | f.HookFailed | f.HookTimedOut | f.HookLost | f.HookEnding | f.HookRetryScheduled


def evolve_hooks(state: RunState, event: Event, fact: f.AnyHookOrEffect) -> RunState:
    match fact:
        case f.HookStarted():
            return _started(state, event, fact)
        case f.HookSkipped(hook=hook):
            return _with(state, _progress(state, event.cursor, fact).without_call(hook))
        case f.EffectIntended(key=key) | f.EffectDone(key=key) | f.EffectReconciled(key=key):
            is_open = isinstance(fact, f.EffectIntended)
            return _on_call(state, key, lambda call: replace(call, effect=is_open))
        case _:
            changed = _on_call(state, fact.delivery, lambda call: _call(call, event, fact))
            return _noted(changed, fact) if isinstance(fact, f.HookCompleted) else changed


def _started(state: RunState, event: Event, fact: f.HookStarted) -> RunState:
    known = _progress(state, event.cursor, fact)
    before = known.call if known.call and known.call.hook == fact.hook else None
    call = HookCall(
        fact.attempt,
        TaskStatus.RUNNING,
        event.at,
        before.lost if before else 0,
        hook=fact.hook,
        delivery=fact.delivery,
        failures=before.failures if before else 0,
    )
    return _with(state, replace(known, call=call))


def _progress(state: RunState, at: Cursor | None, fact: f.HookStarted | f.HookSkipped) -> HookProgress:
    """The progress at the fact's point: a new one, if its host was at another."""
    known = state.hook_progress(hook_host(fact.point, at, fact.subject))
    if known is None or not known.is_at(fact.point, at.iteration if at else 0):
        return HookProgress(fact.point, at, fact.subject)
    return known


def _on_call(state: RunState, delivery: str, change: Callable[[HookCall], HookCall]) -> RunState:
    """A call that isn't known was made by a run whose log is damaged, or is no longer of interest."""
    known = next((p for p in state.hooks if p.call and p.call.delivery == delivery), None)
    if known is None or known.call is None:
        return state
    call = change(known.call)
    return _with(state, known.without_call(call.hook) if call.is_settled else replace(known, call=call))


def _call(call: HookCall, event: Event, fact: CallFact) -> HookCall:
    match fact:
        case f.HookCompleted():
            return replace(
                call,
                status=TaskStatus.SUCCEEDED,
                outcome=fact.action,
                reason=fact.reason,
                answer=fact.answer,
                text=fact.text,
            )
        case f.HookFailed(message=message, retry=retry):
            return _failed(call, event, message, is_retryable=retry)
        case f.HookTimedOut():
            return _failed(call, event, "it timed out", is_retryable=False, timed_out=True)
        case f.HookLost(started=started):
            return call.as_lost(started=started)
        case f.HookEnding():
            return replace(call, status=fact.MOVES_TO)
        case f.HookRetryScheduled(due_at=due_at):
            status = TaskStatus.DUE if due_at is None else TaskStatus.WAITING
            return replace(call, status=status, due_at=due_at)
        case _:
            assert_never(fact)


def _failed(
    call: HookCall, event: Event, message: str, *, is_retryable: bool, timed_out: bool = False
) -> HookCall:
    return replace(
        call,
        status=TaskStatus.FAILED,
        ended_at=event.at,
        failures=call.failures + 1,
        lost=0,
        message=message,
        is_retryable=is_retryable,
        timed_out=timed_out,
    )


def _noted(state: RunState, fact: f.HookCompleted) -> RunState:
    """What a hook says is a note like a person's."""
    if fact.action == "answer":
        state = replace(state, hook_answers=state.hook_answers + 1)
    if not fact.context:
        return state
    note = Note(fact.context, f"{BY}{fact.hook}")
    return replace(state, notes=latest_notes((*state.notes, note)))


def timer_fired(state: RunState, timer: str) -> RunState:
    def due(call: HookCall) -> HookCall:
        return replace(call, status=TaskStatus.DUE) if call.status is TaskStatus.WAITING else call

    return _on_call(state, timer.removeprefix(TIMER), due)


def request_resolved(state: RunState, request: Request, effect: str) -> RunState:
    """A person answered the pause of a hook: the run continues without asking it again, or calls it again."""
    known = next(
        (p for p in state.hooks if p.at == request.at and p.call and p.call.hook == request.subject), None
    )
    if known is None or known.call is None:
        return state
    if effect == "retry":
        call = replace(known.call, status=TaskStatus.DUE, failures=0, lost=0)
        return _with(state, replace(known, call=call))
    return _with(state, known.without_call(request.subject)) if effect == "continue" else state


def resumed(state: RunState) -> RunState:
    """A person resumed the run: failed calls are retried, and earlier failures no longer count."""
    if not state.hooks and not state.hook_answers:
        return state
    kept = (
        p
        for p in state.hooks
        if p.point != "resume" and not (p.subject.startswith(FAILED) and p.call is None)
    )
    return replace(state, hooks=tuple(map(_resumed, kept)), hook_answers=0)


def _resumed(progress: HookProgress) -> HookProgress:
    call = progress.call
    if call is None or call.in_flight or call.status is TaskStatus.SUCCEEDED:
        return progress
    is_due = call.status in (TaskStatus.FAILED, TaskStatus.WAITING)
    status = TaskStatus.DUE if is_due else call.status
    return replace(progress, call=replace(call, status=status, failures=0, lost=0))


def tried_again(state: RunState, at: Cursor | None) -> RunState:
    """The stage has new work: if it fails again, its hooks are called again."""
    host = hook_host("stage_end", at, FAILED)
    return replace(state, hooks=tuple(known for known in state.hooks if known.host != host))


def left(state: RunState, at: Cursor | None) -> RunState:
    """Forget the hooks of a place that the run has left."""
    kept = (p for p in state.hooks if p.point in CALL_POINTS or p.at is None or not _is_left(p.at, at))
    return replace(state, hooks=tuple(kept))


def _is_left(known: Cursor, at: Cursor | None) -> bool:
    if at is None or at.provider is None:
        return True
    if known.provider != at.provider:
        return False
    return known.node_path == at.node_path or known.node_path.startswith(f"{at.node_path}.")


def answered(state: RunState, id: str, by: str) -> RunState:
    """A request that is answered needs no hook; a person's answer lets hooks answer again."""
    if not by.startswith(BY) and state.hook_answers:
        state = replace(state, hook_answers=0)
    return withdrawn(state, id)


def withdrawn(state: RunState, id: str) -> RunState:
    if not state.hooks:
        return state
    kept = (p for p in state.hooks if p.point != "request" or p.subject != id)
    return replace(state, hooks=tuple(kept))


def _with(state: RunState, changed: HookProgress) -> RunState:
    others = (known for known in state.hooks if known.host != changed.host)
    return replace(state, hooks=(*others, changed))
