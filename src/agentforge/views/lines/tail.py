"""One line of `tail`: `[HH:MM:SS] type details`, and the same event as JSON for programs."""

from datetime import datetime, tzinfo

import msgspec
from msgspec import Struct

from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.facts import AnyFact
from agentforge.model.plan import Plan
from agentforge.views.lines.events import row_of
from agentforge.views.lines.row import ShownPlace
from agentforge.views.text import one_line


class EventLine(Struct, frozen=True):
    """The parts of a line, so that a terminal can colour them."""

    time: str
    type: str
    details: str

    @property
    def text(self) -> str:
        return f"[{self.time}] {self.type} {self.details}".rstrip()


class _EventJson(Struct):
    seq: int
    type: str
    timestamp: datetime
    session: str
    cursor: Cursor | None
    data: AnyFact
    trace_id: str


class _OutputData(Struct):
    attempt: int
    text: str


class _OutputJson(Struct):
    type: str
    session: str
    cursor: Cursor
    data: _OutputData


def event_line(event: Event, zone: tzinfo, plan: Plan | None = None) -> EventLine:
    """`plan`: to name nodes by their ids, not by their places."""
    fact = event.fact
    row = row_of(fact)
    fields = {**_place(event.cursor, row.at), **row.details(fact)}
    if plan and (node := plan.by_path.get(str(fields.get("node")))):
        fields["node"] = one_line(node.id)
    details = " ".join(f"{name}={value}" for name, value in fields.items() if value != "")
    return EventLine(f"{event.at.astimezone(zone):%H:%M:%S}", fact.TYPE, details)


def _place(at: Cursor | None, place: ShownPlace) -> dict[str, object]:
    if at is None or place == "run":
        return {}
    fields: dict[str, object] = {"node": at.node_path}
    if place != "node":
        fields["visit"] = at.node_run
    if place == "iteration" or (place == "call" and at.iteration):
        fields["iter"] = at.iteration
    if place not in ("node", "visit"):
        fields["branch"] = at.provider or ""
    return fields


def event_json(event: Event) -> bytes:
    """The event with the log's keys; payloads stored beside the log are included."""
    return msgspec.json.encode(
        _EventJson(
            event.seq, event.fact.TYPE, event.at, event.session, event.cursor, event.fact, event.trace_id
        )
    )


def output_json(session: str, cursor: Cursor, attempt: int, text: str) -> bytes:
    """A line of an agent's output, in the shape of an event; it isn't part of the log."""
    return msgspec.json.encode(_OutputJson("output", session, cursor, _OutputData(attempt, text)))
