"""Facts about requests to people."""

from datetime import datetime
from typing import Literal

from agentforge.model.facts.fact import Fact
from agentforge.model.state import Answerer, RequestKind, RequestScope


class RequestOpened(Fact, frozen=True):
    """A question to a person, kept as state rather than as a blocked thread."""

    TYPE = "request_opened"

    id: str
    kind: RequestKind
    key: str
    """The task or node that it is about; each question is open only once."""
    reason: str
    question: str
    options: tuple[str, ...]
    answerers: tuple[Answerer, ...] = ("person",)
    """Who may answer."""
    scope: RequestScope = "run"
    due_at: datetime | None = None
    """When the default becomes the answer."""
    default: str | None = None


class RequestAnswered(Fact, frozen=True):
    """The answer as given. Its consequences are recorded as separate facts."""

    TYPE = "request_answered"

    id: str
    answer: str
    by: str


class RequestResolved(Fact, frozen=True):
    """The effect of an answer; the request is closed."""

    TYPE = "request_resolved"

    id: str
    effect: Literal["continue", "succeeded", "cancel"]
