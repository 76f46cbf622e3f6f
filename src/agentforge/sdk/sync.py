"""The engine for programs without an event loop: the same calls, blocking."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentforge.app.results import RunInfo, RunResult, RunRow
from agentforge.model.event import Event
from agentforge.ports.provider import Provider
from agentforge.sdk.engine import Engine


class SyncEngine:
    """Wraps an Engine and its event loop; use it as a context manager."""

    def __init__(self, workdir: str | os.PathLike[str] = ".", **options: Any) -> None:
        self._runner = asyncio.Runner()
        self.engine = Engine(workdir, **options)

    def __enter__(self) -> "SyncEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, pipeline: str | Mapping[str, Any] | None = None, **options: Any) -> RunResult:
        return self._runner.run(self.engine.run(pipeline, **options))

    def resume(self, session: str, context: str | None = None, **options: Any) -> RunResult:
        return self._runner.run(self.engine.resume(session, context, **options))

    def recover(self, session: str, **options: Any) -> RunResult | None:
        return self._runner.run(self.engine.recover(session, **options))

    def answer(self, session: str, answer: str, **options: Any) -> RunResult | None:
        return self._runner.run(self.engine.answer(session, answer, **options))

    def pause(self, session: str, reason: str = "requested", *, now: bool = False) -> None:
        self._runner.run(self.engine.pause(session, reason, now=now))

    def cancel(self, session: str, reason: str = "requested") -> RunResult | None:
        return self._runner.run(self.engine.cancel(session, reason))

    def register_provider(self, name: str, provider: Provider) -> None:
        self._runner.run(self.engine.register_provider(name, provider))

    def unregister_provider(self, name: str) -> None:
        self._runner.run(self.engine.unregister_provider(name))

    def subscribe(self, session: str) -> Iterator[Event]:
        """Events of one run as they become durable, until it stops."""
        events = self.engine.subscribe(session)
        try:
            while True:
                try:
                    yield self._runner.run(_next(events))
                except StopAsyncIteration:
                    return
        finally:
            self._runner.run(_close(events))

    def status(self, session: str) -> RunInfo:
        return self.engine.status(session)

    def list(self, count: int = 10) -> Sequence[RunRow]:
        return self.engine.list(count)

    def inspect(self, session: str) -> RunInfo:
        return self.engine.inspect(session)

    def events(self, session: str) -> Iterator[Event]:
        return self.engine.events(session)

    def close(self) -> None:
        self._runner.run(self.engine.close())
        self._runner.close()


async def _next(events: Any) -> Event:
    event: Event = await anext(events)
    return event


async def _close(events: Any) -> None:
    await events.aclose()
