"""What an event makes of a state. Never decides, never refuses: what may be recorded is checked before
it is (see `legal`), so that a log is read the same way for ever, even with lines missing."""

from typing import assert_never

from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.errors import LogCorrupt
from agentforge.model.event import Event
from agentforge.model.failure import Failure
from agentforge.model.state import (
    AttemptState,
    IterationState,
    NodeState,
    OpenRequest,
    RunState,
    StageRecord,
    StopRequest,
)
from agentforge.model.status import AttemptStatus, IterationStatus, NodeStatus, RunStatus

CONTROLS_KEPT = 32


def evolve(state: RunState | None, event: Event) -> RunState:
    """The state after the event; the first event of a log starts the session."""
    fact = event.fact
    if isinstance(fact, f.SessionStarted):
        return _started(event, fact)
    if state is None:
        raise LogCorrupt(
            f"the log of session {event.session!r} doesn't begin with session_start",
            hint="`agentforge log verify` shows what is left of it",
        )
    changed = _apply(state, event)
    return replace(changed, seq=event.seq, updated_at=event.at, cursor=event.cursor or state.cursor)


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
    match event.fact:
        # The frequent ones first: a long log is mostly these three.
        case f.IterationStarted() as fact:
            return _iteration_started(state, event, fact)
        case f.AttemptStarted() as fact:
            return _attempt_started(state, event, fact)
        case f.IterationCompleted() as fact:
            return _iteration_completed(state, event, fact)
        case f.AttemptAdopted() | f.AttemptLost() | f.AttemptEnding() | f.AttemptCancelled():
            return _attempt_turn(state, event.fact)
        case f.ErrorOccurred() as fact:
            return _failed(state, event, fact)
        case f.DelayStarted() | f.RetryScheduled() | f.TimerFired():
            return _timer_turn(state, event, event.fact)
        case f.NodeStarted() | f.NodeCompleted():
            return _node_turn(state, event, event.fact)
        case f.RequestOpened() | f.RequestAnswered():
            return _request_turn(state, event.fact)
        case f.PauseRequested() | f.CancelRequested():
            return _stop_requested(state, event.fact)
        case f.DamageAccepted(lines=lines):
            return replace(state, accepted_damage=(*state.accepted_damage, *lines))
        case f.LogRepaired() | f.SessionStarted():
            return state
        case fact:
            return _session_turn(state, event, fact)


def _iteration_started(state: RunState, event: Event, fact: f.IterationStarted) -> RunState:
    node = _node(state, event)
    number = _number(node, event)
    iteration = IterationState(number, IterationStatus.STARTED, event.at, fact.prompt_sha256)
    return replace(state, node=replace(node, iteration=iteration, failure=None))


def _attempt_started(state: RunState, event: Event, fact: f.AttemptStarted) -> RunState:
    node = _node(state, event)
    before = node.iteration or IterationState(_number(node, event), IterationStatus.STARTED, event.at)
    attempt = AttemptState(fact.attempt, AttemptStatus.RUNNING, event.at, fact.timeout, fact.idle_timeout)
    iteration = replace(before, attempt=attempt, attempts=fact.attempt)
    return replace(state, node=replace(node, iteration=iteration))


def _iteration_completed(state: RunState, event: Event, fact: f.IterationCompleted) -> RunState:
    node = _node(state, event)
    done = replace(
        node,
        completed=_number(node, event),
        iteration=None,
        last_decision=fact.decision,
        last_completed_at=event.at,
        delay_due=None,
        delay_over=False,
    )
    return replace(state, node=done, recoveries=0)


def _attempt_turn(
    state: RunState, fact: f.AttemptAdopted | f.AttemptLost | f.AttemptEnding | f.AttemptCancelled
) -> RunState:
    match fact:
        case f.AttemptAdopted():
            return state
        case f.AttemptEnding():
            return _with_attempt(state, status=AttemptStatus.ENDING)
        case f.AttemptCancelled():
            return _with_attempt(state, status=AttemptStatus.CANCELLED)
        case f.AttemptLost():
            ended = _with_attempt(state, status=AttemptStatus.LOST)
            return _with_iteration(ended, lost=(ended.iteration.lost + 1 if ended.iteration else 0))
        case _:
            assert_never(fact)


def _failed(state: RunState, event: Event, fact: f.ErrorOccurred) -> RunState:
    failure = Failure(fact.kind, fact.message, fact.exit_code)
    if state.iteration is None:
        return replace(state, node=replace(state.node, failure=failure)) if state.node else state
    ended = _with_attempt(state, status=AttemptStatus.FAILED, failure=failure, ended_at=event.at)
    return _with_iteration(ended, failures=(*state.iteration.failures, fact.kind), lost=0)


def _timer_turn(
    state: RunState, event: Event, fact: f.DelayStarted | f.RetryScheduled | f.TimerFired
) -> RunState:
    match fact:
        case f.DelayStarted(due_at=due_at):
            return replace(state, node=replace(_node(state, event), delay_due=due_at, delay_over=False))
        case f.RetryScheduled(due_at=due_at):
            return _with_attempt(state, status=AttemptStatus.WAITING, due_at=due_at)
        case f.TimerFired(timer=timer):
            return _fired(state, timer)
        case _:
            assert_never(fact)


def _fired(state: RunState, timer: str) -> RunState:
    if state.stop and state.stop.due_at and timer == "stop":
        return replace(state, stop=replace(state.stop, now=True))
    if timer == "delay" and state.node:
        return replace(state, node=replace(state.node, delay_due=None, delay_over=True))
    if timer == "retry":
        return _with_attempt(state, status=AttemptStatus.DUE)
    return state


def _node_turn(state: RunState, event: Event, fact: f.NodeStarted | f.NodeCompleted) -> RunState:
    node = _node(state, event)
    match fact:
        case f.NodeStarted():
            return replace(state, node=_entered(state, event))
        case f.NodeCompleted():
            record = StageRecord(fact.name, node.index, fact.iterations, event.at, fact.reason, node.run)
            return replace(state, node=None, next_node=node.index + 1, stages=(*state.stages, record))
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
    if fresh.node is not None:
        fresh = replace(fresh, node=replace(fresh.node, failure=None))
    running = state.attempt if state.attempt and state.attempt.status in IN_FLIGHT else None
    return _with_iteration(fresh, attempt=running, failures=(), lost=0)


IN_FLIGHT = frozenset({AttemptStatus.RUNNING, AttemptStatus.ENDING})


def _node(state: RunState, event: Event) -> NodeState:
    """The current node; rebuilt from the cursor where its start is missing from a damaged log."""
    at = state.node
    return at if at is not None and at.index == _index(state, event, at.index) else _entered(state, event)


def _entered(state: RunState, event: Event) -> NodeState:
    """A node at its beginning."""
    run = event.cursor.node_run if event.cursor else 1
    return NodeState(_index(state, event, state.next_node), run, NodeStatus.RUNNING)


def _index(state: RunState, event: Event, otherwise: int) -> int:
    """Of the event's node. Its place is the cursor's word, right even if other nodes' ends are lost."""
    if event.cursor is None:
        return otherwise
    top = event.cursor.node_path.partition(".")[0]
    return int(top) if top.isascii() and top.isdigit() else state.next_node


def _number(node: NodeState, event: Event) -> int:
    return event.cursor.iteration if event.cursor else node.completed + 1


def _with_iteration(state: RunState, **changes: object) -> RunState:
    if state.node is None or state.node.iteration is None:
        return state
    return replace(state, node=replace(state.node, iteration=replace(state.node.iteration, **changes)))


def _with_attempt(state: RunState, **changes: object) -> RunState:
    attempt = state.attempt
    return state if attempt is None else _with_iteration(state, attempt=replace(attempt, **changes))
