"""Applies requests and their answers: what an answer allows, grants or resets."""

from typing import assert_never

from msgspec.structs import asdict, replace

from agentforge.engine.evolve import checks, hooks, spending
from agentforge.engine.evolve.deliver import DELIVERY, answered_delivery
from agentforge.engine.evolve.node import with_fresh_stages, with_stage
from agentforge.engine.evolve.stage import answered, excused, on_resume
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.failure import FailureKind
from agentforge.model.frozen import FROZEN_FILES
from agentforge.model.request import Feedback, Request
from agentforge.model.spending import SPENDING_CAP
from agentforge.model.state import LOST, STUCK, RunState, StageState
from agentforge.model.status import TaskStatus


def apply_request(state: RunState, event: Event, fact: f.AnyRequestFact) -> RunState:
    match fact:
        case f.RequestOpened():
            fields = asdict(fact)
            request = Request(**fields, opened_at=event.at, at=event.cursor)
            return replace(state, requests=(*state.requests, request))
        case f.RequestAnswered(id=id, answer=answer, by=by, text=text, secrets=secrets):
            known = hooks.answered(state, id, by)
            if all(request.reason != STUCK for request in state.requests if request.id == id):
                # An answer is progress, like work that isn't done again, but not the permission to continue
                # without any. All of it is bounded between two iterations, so no engine dies without end.
                known = replace(known, recoveries=0, recoveries_excused=0)
            return with_request(known, id, answer=answer, answered_by=by, text=text, secrets=secrets)
        case f.RequestResolved(id=id):
            closed = next((request for request in state.requests if request.id == id), None)
            left = replace(state, requests=tuple(r for r in state.requests if r.id != id))
            left = hooks.withdrawn(left, id)
            return _resolved(left, event, fact, closed) if closed else left
        case f.CheckpointCleared(name=name):
            return state if name in state.cleared else replace(state, cleared=(*state.cleared, name))
        case _:
            assert_never(fact)


def _resolved(state: RunState, event: Event, fact: f.RequestResolved, request: Request) -> RunState:
    """The state after the effect of an answer."""
    if request.kind == "escalation":
        return _allow_escalated(state, event, fact, request)
    if request.kind == "pause":
        return hooks.request_resolved(state, request, fact.effect)
    stage = state.stage_asking(request.at)
    if stage is None:
        return state
    match fact.effect:
        case "approved":
            return with_stage(state, request.at, replace(stage, approved=True))
        case "rejected":
            said = Feedback(request.text, request.answered_by, secrets=request.secrets)
            return with_stage(state, request.at, replace(stage, rejected=said))
        case "answered":
            return with_stage(state, request.at, answered(stage, request))
        case _:
            return state


def with_request(state: RunState, id: str, **changes: object) -> RunState:
    changed = (replace(r, **changes) if r.id == id else r for r in state.requests)
    return replace(state, requests=tuple(changed))


def _allow_escalated(state: RunState, event: Event, fact: f.RequestResolved, request: Request) -> RunState:
    """Let the escalated work continue. Counters are kept, so a limit can be hit again, unless the answer
    resets them."""
    if fact.effect not in ("continue", "reset", "granted", "accepted"):
        return state
    if request.reason == FROZEN_FILES:
        return replace(state, restorations=0)
    if fact.effect == "reset" and request.reason not in checks.ROUTE_REASONS:
        state = _reset(state, request)
    if request.reason == STUCK:
        return replace(state, recoveries_excused=state.recoveries)
    if request.reason == SPENDING_CAP and fact.effect == "granted":
        state = spending.granted(state, request, fact.granted)
    if request.reason == "runtime_limit":
        granted = float(fact.granted) if fact.effect == "granted" else None
        state = _extend_runtime(replace(state, clock_from=event.at, runtime_granted=granted), request)
    stage = state.stage_asking(request.at)
    if stage is None:
        return state
    if request.reason in checks.ROUTE_REASONS or request.reason == "verdict":
        changed = checks.answered(state, stage, request, fact)
        return with_stage(changed, request.at, checks.answered_stage(stage, request, fact))
    if request.reason == "hook_restarts" and fact.effect == "accepted":
        return hooks.request_resolved(state, request, "continue")
    return with_stage(state, request.at, _allowed(stage, request, fact))


def _allowed(stage: StageState, request: Request, fact: f.RequestResolved) -> StageState:
    """The stage that asked, with more of what it asked about, or with another try."""
    more = int(fact.granted) if fact.effect == "granted" else 1 if fact.effect == "continue" else 0
    match request.reason:
        case "approval_rounds":
            return replace(stage, rounds_granted=stage.rounds_granted + more)
        case "question_rounds":
            return replace(stage, asks_granted=stage.asks_granted + more)
        case "hook_restarts":
            return replace(stage, hook_restarts=max(0, stage.hook_restarts - more) if more else 0)
        case reason if reason == DELIVERY:
            return answered_delivery(stage, request)
        case "rollback":
            return replace(stage, refused=(), rolled_back=fact.effect == "accepted")
        case "spending_cap":
            return excused(stage, "" if stage.iteration else "judge")
        case _:
            return excused(stage, request.reason.removesuffix(LOST))


def _reset(state: RunState, request: Request) -> RunState:
    """Earlier failures no longer count: in the stage that asked, or everywhere."""
    if request.scope == "run":
        return with_fresh_stages(replace(state, recoveries=0, recoveries_excused=0))
    stage = state.stage_asking(request.at)
    return state if stage is None else with_stage(state, request.at, on_resume(stage))


def _extend_runtime(state: RunState, request: Request) -> RunState:
    """One branch asks for all: other branches whose agents the limit stopped continue, too."""
    if request.scope != "run":
        return state
    for provider, stage in tuple(state.under_way()):
        attempt = stage.iteration.attempt if stage.iteration else None
        failure = attempt.failure if attempt and attempt.status is TaskStatus.FAILED else None
        if attempt and not attempt.once and failure and failure.kind is FailureKind.ITERATION_TIMEOUT:
            state = with_stage(state, Cursor(stage.path, stage.run, 0, provider), excused(stage))
    return state
