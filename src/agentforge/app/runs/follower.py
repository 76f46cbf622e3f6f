"""Following logs. Each subscriber reads the log itself, from where it is: a slow one holds up nobody and
misses nothing; being told of news only saves it waiting."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from agentforge.app.runs.lookup import Runs, Tail
from agentforge.model.event import Event
from agentforge.ports.event_log import Head

POLL_SECONDS = 0.25


class Follower:
    """The subscriptions of one engine."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._waiting: set[asyncio.Event] = set()
        self._begun: dict[str, Head] = {}
        self._closed = False

    def begin(self, session: str, head: Head) -> None:
        """The engine drives this session from now on, from that head of its log."""
        self._begun[session] = head

    def tell(self) -> None:
        for news in self._waiting:
            news.set()

    def close(self) -> None:
        self._closed = True
        self.tell()

    async def follow(self, session: str | None) -> AsyncIterator[Event]:
        """All events of one run until it stops, or of every run of the engine until that is closed."""
        news = asyncio.Event()
        self._waiting.add(news)
        tails: dict[str, Tail] = {session: Tail(self._runs, session)} if session else {}
        try:
            while True:
                news.clear()
                last = self._closed or any(tail.is_over for tail in tails.values() if session)
                if session is None:
                    for name, head in self._begun.items():
                        tails.setdefault(name, Tail(self._runs, name, head))
                for tail in list(tails.values()):
                    for event in tail.news():
                        yield event
                if last:
                    return
                # Until there is news, or it is time to look for what other processes wrote.
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await news.wait()
        finally:
            self._waiting.discard(news)
