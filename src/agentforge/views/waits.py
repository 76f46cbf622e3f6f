"""What a run waits for: people, limits, retries, caps, and an engine that drives it."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Literal

from msgspec import Struct

from agentforge.engine.decide.cap_sums import Cap, caps_of
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.plan import Plan, StageNode
from agentforge.model.spending import shown
from agentforge.model.state import RunState, StageState
from agentforge.model.status import FINAL, RunStatus, TaskStatus
from agentforge.views.text import reason_text

WaitsFor = Literal["answer", "limit", "retry", "cap", "delay", "resume", "engine"]
"""`cap`: other attempts have reserved what is left; `delay`: the pause between two iterations; `resume`: of a
run that is paused or has failed."""
WaitKey = tuple[str, Cursor | None]
_STOPPED = (RunStatus.PAUSED, RunStatus.FAILED)


class RunWait(Struct, frozen=True):
    """A time in which a run, or a part of it, waited."""

    waits_for: WaitsFor
    started_at: datetime
    at: Cursor | None = None
    """None: the whole run waits."""
    message: str = ""
    request: str = ""
    """The id of the request that is to be answered."""
    ended_at: datetime | None = None
    """None: it still waits."""


def waits_after(plan: Plan, state: RunState, event: Event) -> Iterator[tuple[WaitKey, RunWait]]:
    """What the run waits for after the event; one that it begins to wait for begins with the event."""
    if state.status in FINAL:
        return
    for request in state.open_requests:
        asked = RunWait("answer", request.opened_at, request.at, request.question, request.id)
        yield (request.id, None), asked
    if state.status in _STOPPED and not state.open_requests:
        failure = state.failure if state.status is RunStatus.FAILED else None
        why = failure.message if failure else reason_text(state.pause_reason or "")
        yield ("resume", None), RunWait("resume", event.at, message=why)
    caps = [cap for cap in caps_of(plan, state) if cap.reserved and state.status is RunStatus.RUNNING]
    for provider, stage in state.under_way():
        number = stage.iteration.number if stage.iteration else stage.completed
        at = Cursor(stage.path, stage.run, number, provider)
        for kind, message in _of_stage(stage, event.fact):
            yield ("task", at), RunWait(kind, event.at, at, message)
        for held in _held(plan.stage(stage.path, provider), stage, caps):
            yield ("cap", at), RunWait("cap", event.at, at, held)


def _of_stage(stage: StageState, fact: f.Fact) -> Iterator[tuple[WaitsFor, str]]:
    attempt = stage.iteration.attempt if stage.iteration else None
    if attempt is not None and attempt.status is TaskStatus.WAITING:
        is_retry = isinstance(fact, f.RetryScheduled | f.StageRetried)
        yield "retry" if is_retry else "limit", attempt.failure.message if attempt.failure else ""
    elif stage.retry_due is not None:
        yield "retry", stage.failure.message if stage.failure else ""
    elif stage.delay_due is not None:
        yield "delay", ""


def _held(node: StageNode | None, stage: StageState, caps: Iterable[Cap]) -> Iterator[str]:
    """The caps that hold the next attempt until others have ended."""
    attempt = stage.iteration.attempt if stage.iteration else None
    is_due = attempt is None or not (attempt.in_flight or attempt.status is TaskStatus.WAITING)
    if node is None or stage.iteration is None or not is_due:
        return
    for cap in caps:
        needed = node.per_attempt.of(cap.unit) or 0.0
        if cap.place.has(stage.path) and (cap.left <= 0 or needed > cap.left):
            reserved, limit = shown(cap.unit, cap.reserved), shown(cap.unit, cap.limit)
            yield f"{cap.place.name}: {reserved} of {limit} reserved"
