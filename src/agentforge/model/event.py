"""A recorded fact, and the line of the log that holds it."""

from datetime import datetime

from msgspec import Struct

from agentforge.model.cursor import Cursor
from agentforge.model.facts import AnyFact


class Draft(Struct, frozen=True):
    """A fact that isn't recorded yet: it has a cursor but no sequence number or timestamp."""

    fact: AnyFact
    cursor: Cursor | None = None


class Event(Struct, frozen=True):
    seq: int
    at: datetime
    session: str
    trace_id: str
    fact: AnyFact
    cursor: Cursor | None = None
