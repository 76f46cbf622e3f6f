"""Notices that a request was closed elsewhere while a person is asked, and ends the wait for input."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from agentforge import OpenRequest, Runs
from agentforge.cli.invocation import ABANDONED_SECONDS, Invocation
from agentforge.cli.request_choice import read_open_requests
from agentforge.model.facts import RequestAnswered
from agentforge.views.lines.requests import closed_text

LOOK_SECONDS = 0.5


class Closed(Exception):
    """The request that the person is asked about is no longer open."""


class ClosedRequest(Struct, frozen=True):
    """A request that was closed while a person was asked."""

    session: str
    text: str
    """By whom, and what was answered."""
    seq: int
    """Of the event that closed it, or of the latest one before."""


class RequestWatch:
    """The readline library waits for input without Python: only a signal interrupts it."""

    def __init__(self, call: Invocation, one: OpenRequest) -> None:
        self._call, self._session, self._id = call, one.session, one.request.id
        self._runs = Runs(call.root, os.environ)
        self._seq = self._runs.info(one.session).state.seq
        self._left_at: float | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Raises Closed in the body as soon as the request is closed."""
        before = signal.signal(signal.SIGALRM, self._look)
        try:
            signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _look(self, *_: Any) -> None:
        if self._is_closed():
            # A second signal must not interrupt what follows.
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Closed

    def _is_closed(self) -> bool:
        state = self._runs.info(self._session).state
        if all(request.id != self._id for request in state.open_requests):
            return True
        if not self._runs.is_recoverable(self._session):
            self._left_at = None
            return False
        # The process that answered it may be about to continue the run.
        self._left_at = self._left_at or time.monotonic()
        return time.monotonic() - self._left_at > ABANDONED_SECONDS

    def closed(self) -> ClosedRequest:
        """What became of the request."""
        read_open_requests(self._call, self._session)  # Records an answer that no engine applied.
        for event in self._runs.events(self._session):
            if isinstance(event.fact, RequestAnswered) and event.fact.id == self._id:
                return ClosedRequest(self._session, closed_text(event.fact), event.seq)
        return ClosedRequest(self._session, closed_text(None), self._seq)
