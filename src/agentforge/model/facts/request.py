"""Facts about requests to people."""

from datetime import datetime
from typing import Literal

from agentforge.model.facts.fact import Fact
from agentforge.model.state import Answerer, RequestKind, RequestScope


class RequestOpened(Fact, frozen=True):
    """A question to a person; state, not a blocked thread."""

    TYPE = "request_opened"

    id: str
    kind: RequestKind
    key: str
    """The task or the place that it is about: the same question is open once."""
    reason: str
    question: str
    options: tuple[str, ...]
    answerers: tuple[Answerer, ...] = ("person",)
    """Who may answer."""
    scope: RequestScope = "run"
    due_at: datetime | None = None
    """When the default counts as the answer."""
    default: str | None = None


class RequestAnswered(Fact, frozen=True):
    """The answer as it was given. What follows from it is recorded next to it."""

    TYPE = "request_answered"

    id: str
    answer: str
    by: str


class RequestResolved(Fact, frozen=True):
    """What the engine made of an answer: the request is closed."""

    TYPE = "request_resolved"

    id: str
    effect: Literal["continue", "succeeded", "cancel"]
