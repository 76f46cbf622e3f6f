"""Sends a message to a web service: one try, with the answer or the reason why there is none."""

from typing import Protocol

from msgspec import Struct

MAX_ANSWER = 64 * 1024
"""The longest answer that is accepted, in bytes."""


class WebhookMessage(Struct, frozen=True):
    url: str
    body: bytes
    """JSON."""
    key: str
    """Identifies the message: the same for each try."""
    sent_at: int
    """Seconds since 1970."""
    secret: str = ""
    """Signs the message; empty: it is not signed."""
    local: bool = False
    """Whether it must not leave this machine."""


class WebhookAnswer(Struct, frozen=True):
    """The service accepted the message."""

    status: int
    body: bytes


class WebhookRefused(Struct, frozen=True):
    """The message was not delivered, or not accepted."""

    message: str
    retry: bool
    """Whether another try may succeed."""
    status: int | None = None
    """The HTTP status, if there was an answer."""


class WebhookTimedOut(Struct, frozen=True):
    """There was no complete answer in time; the service may have received the message."""


class Webhooks(Protocol):
    async def post(
        self, message: WebhookMessage, seconds: float
    ) -> WebhookAnswer | WebhookRefused | WebhookTimedOut:
        """Never raises because of the service or the network."""
