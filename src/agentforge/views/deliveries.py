"""The deliveries of a run: each call of a hook with its tries and its answer, from the events."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.hook import HookAction, HookOutcome, HookPoint
from agentforge.model.plan import Plan
from agentforge.views.hook_calls import asks_about_hook
from agentforge.views.run_model import CARRIES_PLAN

TryStatus = Literal["running", "completed", "failed", "timed_out", "lost"]
DeliveryStatus = Literal["running", "waiting", "completed", "failed", "timed_out", "lost", "skipped"]


class HookTry(Struct, frozen=True):
    number: int
    started_at: datetime
    status: TryStatus = "running"
    ended_at: datetime | None = None
    duration_seconds: float | None = None
    """None while it is running, and of a try that was lost."""
    returned: int | None = None
    """The HTTP status, or the exit status of a script."""
    message: str = ""
    """Why it failed or was lost."""


class Delivery(Struct, frozen=True):
    """One call of a hook at one place, as far as it got; or a hook that was not called."""

    hook: str
    point: HookPoint
    key: str | None
    """The same for every try; None if the hook was not called."""
    action: HookAction | None
    """What the hook does; None if it was not called."""
    stage: str = ""
    """The id of the stage or block; empty for the run as a whole."""
    branch: str | None = None
    path: str | None = None
    visit: int | None = None
    iteration: int | None = None
    subject: str = ""
    """The request or the resume that it is about."""
    outcome: HookOutcome | None = None
    """What the hook returned."""
    reason: str = ""
    """What the hook gave as its reason."""
    context: str = ""
    answer: str = ""
    text: str = ""
    due_at: datetime | None = None
    """When the next try starts."""
    skipped: str | None = None
    """Why the run continues without its answer."""
    request: str | None = None
    """The id of the request that asked a person because of it."""
    decision: str | None = None
    """What the person answered."""
    decided_by: str = ""
    tries: tuple[HookTry, ...] = ()

    @property
    def status(self) -> DeliveryStatus:
        if self.skipped is not None:
            return "skipped"
        if self.due_at is not None:
            return "waiting"
        return self.tries[-1].status if self.tries else "running"


_DeliveryKey = tuple[str, HookPoint, Cursor | None, str]
"""Hook, point, place and subject: a hook is called there once."""


class DeliveryFold:
    """Folds the events of a run."""

    def __init__(self) -> None:
        self._plan: Plan | None = None
        self._found: dict[_DeliveryKey, Delivery] = {}
        self._places: dict[str, _DeliveryKey] = {}
        self._asked: dict[str, str] = {}
        """The keys of deliveries by the requests that they led to."""

    @property
    def deliveries(self) -> tuple[Delivery, ...]:
        """In the order in which they began."""
        return tuple(self._found.values())

    def apply(self, event: Event) -> None:
        match event.fact:
            case fact if isinstance(fact, CARRIES_PLAN):
                self._plan = fact.plan
                if isinstance(fact, f.PlanChanged):
                    self._move(fact.paths)
            case f.HookStarted() as fact:
                self._start(event, fact)
            case f.HookSkipped() as fact:
                place = (fact.hook, fact.point, event.cursor, fact.subject)
                known = self._found.get(place) or self._begun(event, fact, None, None)
                self._found[place] = replace(known, skipped=fact.reason, due_at=None)
            case f.HookCompleted() as fact:
                self._end(event, fact.delivery, "completed", fact.duration_ms, returned=fact.status)
                said = {"reason": fact.reason, "context": fact.context, "answer": fact.answer}
                self._change(fact.delivery, outcome=fact.action, text=fact.text, **said)
            case f.HookFailed() as fact:
                known_as = {"message": fact.message, "returned": fact.status}
                self._end(event, fact.delivery, "failed", fact.duration_ms, **known_as)
            case f.HookTimedOut() as fact:
                self._end(event, fact.delivery, "timed_out", fact.duration_ms)
            case f.HookLost() as fact:
                why = "" if fact.started else "it had not started"
                self._end(event, fact.delivery, "lost", None, message=why)
            case f.HookRetryScheduled() as fact:
                self._change(fact.delivery, due_at=fact.due_at)
            case f.RequestOpened() as fact if asks_about_hook(fact):
                self._ask(event, fact)
            case f.RequestAnswered() as fact if fact.id in self._asked:
                self._change(self._asked[fact.id], decision=fact.answer, decided_by=fact.by)

    def _start(self, event: Event, fact: f.HookStarted) -> None:
        place = (fact.hook, fact.point, event.cursor, fact.subject)
        known = self._found.get(place) or self._begun(event, fact, fact.delivery, fact.action)
        tries = (*known.tries, HookTry(fact.attempt, event.at))
        self._found[place] = replace(known, tries=tries, due_at=None)
        self._places[fact.delivery] = place

    def _move(self, paths: dict[str, str | None]) -> None:
        """Calls that continue under the new plan are at the new place of their node."""
        moved = {place: _moved(place, paths) for place in self._found}
        self._found = {moved[place]: one for place, one in self._found.items()}
        self._places = {key: moved[place] for key, place in self._places.items()}

    def _ask(self, event: Event, fact: f.RequestOpened) -> None:
        """The latest call of the hook at that place led to the request."""
        for key, (hook, _, at, _) in reversed(self._places.items()):
            if (hook, at) == (fact.subject, event.cursor):
                self._asked[fact.id] = key
                self._change(key, request=fact.id, decision=None, decided_by="")
                return

    def _begun(
        self, event: Event, fact: f.HookStarted | f.HookSkipped, key: str | None, action: HookAction | None
    ) -> Delivery:
        at = event.cursor
        found = Delivery(fact.hook, fact.point, key, action, subject=fact.subject)
        if at is None:
            return found
        place = self._plan.by_path.get(at.node_path) if self._plan else None
        stage = place.id if place else at.node_path
        iteration = at.iteration or None
        return replace(
            found, stage=stage, branch=at.provider, path=at.node_path, visit=at.node_run, iteration=iteration
        )

    def _end(self, event: Event, key: str, status: TryStatus, milliseconds: int | None, **more: Any) -> None:
        place = self._places.get(key)
        known = self._found.get(place) if place else None
        if known is None:
            return  # A damaged log may lack its start.
        seconds = None if milliseconds is None else milliseconds / 1000
        last = replace(known.tries[-1], status=status, ended_at=event.at, duration_seconds=seconds, **more)
        self._change(key, tries=(*known.tries[:-1], last))

    def _change(self, key: str, **changes: Any) -> None:
        place = self._places.get(key)
        if place is not None:
            self._found[place] = replace(self._found[place], **changes)


def _moved(place: _DeliveryKey, paths: dict[str, str | None]) -> _DeliveryKey:
    hook, point, at, subject = place
    if at is None:
        return place
    path = paths.get(at.node_path, at.node_path) or f"removed {at.node_path}"
    return hook, point, replace(at, node_path=path), subject


def deliveries_of(events: Iterable[Event]) -> tuple[Delivery, ...]:
    fold = DeliveryFold()
    for event in events:
        fold.apply(event)
    return fold.deliveries
