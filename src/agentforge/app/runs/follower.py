"""Follow logs. Each subscriber reads the log at its own pace: a slow one blocks no other and misses no
events. Notifications only save waiting for the next poll."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from agentforge.app.runs.lookup import Runs
from agentforge.app.runs.updates import Tail
from agentforge.model.event import Event
from agentforge.ports.event_log import Head

POLL_SECONDS = 0.25


class Follower:
    """The subscriptions of one engine."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._waiting: set[asyncio.Event] = set()
        self._started: dict[str, Head] = {}
        self._closed = False

    def begin(self, session: str, head: Head) -> None:
        """The engine drives the session from now on, from this head of its log."""
        self._started[session] = head

    def notify(self) -> None:
        for news in self._waiting:
            news.set()

    def close(self) -> None:
        self._closed = True
        self.notify()

    async def follow(self, session: str | None) -> AsyncIterator[Event]:
        """All events of one run until it stops, or of every run of the engine until it is closed."""
        news = asyncio.Event()
        self._waiting.add(news)
        tails: dict[str, Tail] = {session: Tail(self._runs, session)} if session else {}
        try:
            while True:
                news.clear()
                last = self._closed or any(tail.is_over for tail in tails.values() if session)
                if session is None:
                    started = {name: head for name, head in self._started.items() if name not in tails}
                    tails |= {name: Tail(self._runs, name, head) for name, head in started.items()}
                for tail in list(tails.values()):
                    for event in tail.news():
                        yield event
                if last:
                    return
                # Wait for a notification, or poll for events that other processes wrote.
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await news.wait()
        finally:
            self._waiting.discard(news)
