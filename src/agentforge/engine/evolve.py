"""What an event makes of a state. Never decides, never refuses: what may be recorded is checked before
it is (see `legal`), so that a log is read the same way for ever, even with lines missing."""

from functools import partial
from typing import assert_never

from msgspec.structs import replace

from agentforge.engine.evolve_adopted import adopted
from agentforge.engine.evolve_block import (
    BlockFact,
    block_entered,
    block_of,
    provider_turn,
    with_branch_stage,
)
from agentforge.engine.evolve_stage import StageFact, evolve_stage, on_resume
from agentforge.engine.replan import replanned
from agentforge.model import facts as f
from agentforge.model.errors import LogCorrupt
from agentforge.model.event import Cursor, Event
from agentforge.model.failure import Failure
from agentforge.model.state import AT_MOST_ONCE, NodeState, OpenRequest, RunState, StageRecord, StopRequest
from agentforge.model.status import NodeStatus, RunStatus

CONTROLS_KEPT = 32
BEGINNINGS = (f.SessionStarted, f.LogAdopted)
FREQUENT = (f.IterationStarted, f.AttemptStarted, f.IterationCompleted)


def evolve(state: RunState | None, event: Event) -> RunState:
    """The state after the event; the first event of a log starts the session."""
    fact = event.fact
    if isinstance(fact, BEGINNINGS):
        return _started(event, fact) if isinstance(fact, f.SessionStarted) else adopted(event, fact)
    if state is None:
        raise LogCorrupt(
            f"the log of session {event.session!r} doesn't begin with session_start",
            hint="`agentforge log verify` shows what is left of it",
        )
    if isinstance(fact, FREQUENT) and event.cursor is not None and event.cursor.provider is None:
        return _frequent(state, event, fact)
    changed = _apply(state, event)
    return replace(changed, seq=event.seq, updated_at=event.at, cursor=_place(changed, event))


def _frequent(
    state: RunState, event: Event, fact: f.IterationStarted | f.AttemptStarted | f.IterationCompleted
) -> RunState:
    """What a long log is mostly made of, outside of blocks: the same as below, in one step."""
    return replace(
        state,
        seq=event.seq,
        updated_at=event.at,
        cursor=event.cursor,
        node=evolve_stage(_node(state, event), event, fact),
        block=None,
        recoveries=0 if isinstance(fact, f.IterationCompleted) else state.recoveries,
    )


def _place(state: RunState, event: Event) -> Cursor | None:
    """Where the run as a whole is: in a block no branch stands for it."""
    if event.cursor is None or event.cursor.provider is None:
        return event.cursor or state.cursor
    return Cursor(state.block.path, state.block.run, 0) if state.block else state.cursor


def _started(event: Event, fact: f.SessionStarted) -> RunState:
    return RunState(
        session=event.session,
        run_id=fact.run_id,
        mode=fact.mode,
        status=RunStatus.RUNNING,
        started_at=event.at,
        seq=event.seq,
        updated_at=event.at,
        clock_from=event.at,
        settings=fact.settings,
        cursor=event.cursor,
    )


def _apply(state: RunState, event: Event) -> RunState:
    fact = event.fact
    match fact:
        case f.TimerFired(timer=timer):
            return _fired(state, event, timer)
        case f.NodeStarted() | f.NodeCompleted():
            return _node_turn(state, event, fact)
        case f.ProviderStarted() | f.ProviderCompleted() | f.StageCompleted() | f.ManifestWritten():
            return _block_turn(state, event, fact)
        case f.RequestOpened() | f.RequestAnswered():
            return _request_turn(state, fact)
        case f.PauseRequested() | f.CancelRequested():
            return _stop_requested(state, fact)
        case f.DamageAccepted(lines=lines):
            return replace(state, accepted_damage=(*state.accepted_damage, *lines))
        case f.PlanChanged():
            return replanned(state, fact)
        case f.LogRepaired() | f.LogAdopted() | f.SessionStarted() | f.TmuxSessionCleaned():
            return state
        case (
            f.SessionCompleted()
            | f.SessionFailed()
            | f.SessionPaused()
            | f.SessionResumed()
            | f.SessionAborted()
            | f.SessionRecovered()
        ):
            return _session_turn(state, event, fact)
        case _:
            return _stage_turn(state, event, fact)


def _stage_turn(state: RunState, event: Event, fact: StageFact) -> RunState:
    """What happens in a stage, be it a step of the run or a stage of a provider's branch."""
    if isinstance(fact, f.IterationCompleted) and state.recoveries:
        state = replace(state, recoveries=0)
    if event.cursor is not None and event.cursor.provider is not None:
        block = block_of(state.block, event, state.next_node)
        return replace(state, node=None, block=with_branch_stage(block, event, fact))
    if event.cursor is None and state.node is None:
        return state
    return replace(state, node=evolve_stage(_node(state, event), event, fact), block=None)


def _block_turn(state: RunState, event: Event, fact: BlockFact) -> RunState:
    if event.cursor is None:
        return state
    block = block_of(state.block, event, state.next_node)
    return replace(state, node=None, block=provider_turn(block, event, fact))


def _fired(state: RunState, event: Event, timer: str) -> RunState:
    if timer != "stop":
        return _stage_turn(state, event, f.TimerFired(timer))
    if state.stop and state.stop.due_at:
        return replace(state, stop=replace(state.stop, now=True))
    return state


def _node_turn(state: RunState, event: Event, fact: f.NodeStarted | f.NodeCompleted) -> RunState:
    match fact:
        case f.NodeStarted(kind="parallel"):
            return replace(state, block=block_entered(_entered(state, event), fact), node=None)
        case f.NodeStarted():
            return replace(state, node=_entered(state, event), block=None)
        case f.NodeCompleted():
            at = state.block or _node(state, event)
            index = at.index if fact.step is None else fact.step
            record = StageRecord(fact.name, index, fact.iterations, event.at, fact.reason, at.run)
            return replace(state, node=None, block=None, next_node=index + 1, stages=(*state.stages, record))
        case _:
            assert_never(fact)


def _request_turn(state: RunState, fact: f.RequestOpened | f.RequestAnswered) -> RunState:
    match fact:
        case f.RequestOpened():
            opened = OpenRequest(fact.id, fact.question, fact.options)
            return replace(state, requests=(*state.requests, opened))
        case f.RequestAnswered():
            return replace(state, requests=tuple(r for r in state.requests if r.id != fact.id))
        case _:
            assert_never(fact)


def _stop_requested(state: RunState, fact: f.PauseRequested | f.CancelRequested) -> RunState:
    controls = state.controls
    if fact.control:
        controls = (*controls, fact.control)[-CONTROLS_KEPT:]
    match fact:
        case f.CancelRequested():
            stop = StopRequest(cancel=True, reason=fact.reason, now=True)
        case f.PauseRequested():
            stop = StopRequest(cancel=False, reason=fact.reason, now=fact.now, due_at=fact.due_at)
            if state.stop and state.stop.cancel:
                stop = state.stop
        case _:
            assert_never(fact)
    return replace(state, stop=stop, controls=controls)


def _session_turn(
    state: RunState,
    event: Event,
    fact: f.SessionCompleted
    | f.SessionFailed
    | f.SessionPaused
    | f.SessionResumed
    | f.SessionAborted
    | f.SessionRecovered,
) -> RunState:
    match fact:
        case f.SessionCompleted(reason=reason):
            return replace(
                state, status=RunStatus.COMPLETED, completed_at=event.at, completion_reason=reason, stop=None
            )
        case f.SessionFailed():
            failure = Failure(fact.kind, fact.message)
            return replace(state, status=RunStatus.FAILED, completed_at=event.at, failure=failure, stop=None)
        case f.SessionPaused(reason=reason):
            return replace(state, status=RunStatus.PAUSED, paused_at=event.at, pause_reason=reason, stop=None)
        case f.SessionAborted(reason=reason):
            return replace(
                state,
                status=RunStatus.ABORTED,
                completed_at=event.at,
                completion_reason=reason,
                stop=None,
                requests=(),
            )
        case f.SessionRecovered(by="recovery"):
            return replace(state, recoveries=state.recoveries + 1)
        case f.SessionRecovered() | f.SessionResumed():
            if fact.record:
                state = replace(state, settings=replace(state.settings, record=True))
            return _resumed(state, event, fact.context)
        case _:
            assert_never(fact)


def _resumed(state: RunState, event: Event, context: str | None) -> RunState:
    """A person said go on: nothing of what went wrong before counts any more."""
    fresh = replace(
        state,
        status=RunStatus.RUNNING,
        clock_from=event.at,
        completed_at=None,
        failure=None,
        paused_at=None,
        pause_reason=None,
        stop=state.stop if state.stop and state.stop.cancel else None,
        recoveries=0,
        context="\n".join(text for text in (state.context, context) if text) or None,
    )
    stage_on_resume = partial(on_resume, asked=state.pause_reason == AT_MOST_ONCE)
    if fresh.node is not None:
        fresh = replace(fresh, node=stage_on_resume(fresh.node))
    return replace(fresh, block=fresh.block.resumed(stage_on_resume)) if fresh.block else fresh


def _node(state: RunState, event: Event) -> NodeState:
    """The current node; rebuilt from the cursor where its start is missing from a damaged log."""
    at, cursor = state.node, event.cursor
    if at is not None and (cursor is None or (at.path, at.run) == (cursor.node_path, cursor.node_run)):
        return at
    return _entered(state, event)


def _entered(state: RunState, event: Event) -> NodeState:
    """A node at its beginning. Its place is the event's own word where it has one, so that it is right
    even if the ends of other nodes are lost."""
    cursor = event.cursor
    if cursor is None:
        return NodeState(state.next_node, 1, NodeStatus.RUNNING)
    index = state.next_node
    if isinstance(event.fact, f.NodeStarted) and event.fact.step is not None:
        index = event.fact.step
    elif cursor.node_run == 1 and cursor.node_path.isascii() and cursor.node_path.isdigit():
        index = int(cursor.node_path)
    return NodeState(index, cursor.node_run, NodeStatus.RUNNING, path=cursor.node_path)
