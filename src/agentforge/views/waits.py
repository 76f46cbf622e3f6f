"""What a run waits for: people, limits, retries, and an engine that drives it."""

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from msgspec import Struct

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.state import RunState, StageState
from agentforge.model.status import FINAL, RunStatus, TaskStatus
from agentforge.views.text import reason_text

WaitsFor = Literal["answer", "limit", "retry", "delay", "resume", "engine"]
"""`delay`: the pause between two iterations; `resume`: of a run that is paused or has failed."""
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


def waits_after(state: RunState, event: Event) -> Iterator[tuple[WaitKey, RunWait]]:
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
    for provider, stage in state.under_way():
        for kind, message in _of_stage(stage, event.fact):
            number = stage.iteration.number if stage.iteration else stage.completed
            at = Cursor(stage.path, stage.run, number, provider)
            yield ("task", at), RunWait(kind, event.at, at, message)


def _of_stage(stage: StageState, fact: f.Fact) -> Iterator[tuple[WaitsFor, str]]:
    attempt = stage.iteration.attempt if stage.iteration else None
    if attempt is not None and attempt.status is TaskStatus.WAITING:
        is_retry = isinstance(fact, f.RetryScheduled | f.StageRetried)
        yield "retry" if is_retry else "limit", attempt.failure.message if attempt.failure else ""
    elif stage.retry_due is not None:
        yield "retry", stage.failure.message if stage.failure else ""
    elif stage.delay_due is not None:
        yield "delay", ""
