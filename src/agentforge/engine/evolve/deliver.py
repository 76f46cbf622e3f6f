"""Applies events to the delivery of a stage: what is prepared, which steps are done, and what a person
accepted."""

from typing import assert_never, get_args

from msgspec.structs import replace

from agentforge.engine.evolve.task import evolve_call, without_call
from agentforge.model import facts as f
from agentforge.model.delivery import DeliveryState, DeliveryStep
from agentforge.model.event import Event
from agentforge.model.request import ACCEPT, RETRY, Request
from agentforge.model.state import StageState

DELIVERY = "delivery"
"""Why a run asks about a problem; the subject of the request is the id of the problem."""

EFFECTS: tuple[DeliveryStep, ...] = get_args(DeliveryStep)

_StageFact = (
    f.DeliverStarted
    | f.DeliverCompleted
    | f.DeliverFailed
    | f.DeliverLost
    | f.DeliverEnding
    | f.Delivered
    | f.EffectIntended
    | f.EffectDone
    | f.EffectReconciled
)


def evolve_delivery(at: StageState, event: Event, fact: _StageFact) -> StageState:
    now = at.delivery or DeliveryState()
    match fact:
        case f.DeliverStarted():
            if fact.what == "prepare":
                now = replace(now, since=now.since or event.at)
            return replace(evolve_call(at, event, fact), delivery=now)
        case f.DeliverCompleted():
            return replace(without_call(at, fact.KIND), delivery=_completed(now, fact))
        case f.DeliverFailed(outdated=True):
            return replace(without_call(at, fact.KIND), delivery=replace(now, prepared=None))
        case f.DeliverFailed() | f.DeliverLost() | f.DeliverEnding():
            return evolve_call(at, event, fact)
        case f.EffectIntended():
            step = next((step for step in EFFECTS if step == fact.kind), None)
            return replace(at, delivery=replace(now, effect=step, number_of_effect=fact.attempt))
        case f.EffectDone() | f.EffectReconciled():
            return replace(at, delivery=replace(now, effect=None, found=False))
        case f.Delivered():
            return replace(at, delivery=replace(now, status=fact.work.status))
        case _:
            assert_never(fact)


def _completed(now: DeliveryState, fact: f.DeliverCompleted) -> DeliveryState:
    if fact.what == "prepare":
        return replace(now, prepared=fact.prepared, number=now.number + 1)
    return replace(now, done=(*now.done, fact.what), found=fact.found, url=fact.url or now.url)


def answered_delivery(at: StageState, request: Request) -> StageState:
    """After a person answered what to do about a problem: it is accepted, or looked at again."""
    now, (kind, _, rest) = at.delivery or DeliveryState(), request.subject.partition(" ")
    if rest and request.answer == (RETRY if kind == "moved" else ACCEPT):
        others = tuple(id for id in now.accepted if id.partition(" ")[0] != kind)
        return replace(at, delivery=replace(now, accepted=(*others, request.subject)))
    return delivery_on_resume(at)


def delivery_on_resume(at: StageState) -> StageState:
    """What a person was asked about may be over: it is prepared again, unless a step has begun."""
    now = at.delivery
    if now is None or now.prepared is None or now.done or "deliver" in at.calls:
        return at
    return replace(at, delivery=replace(now, prepared=None))
