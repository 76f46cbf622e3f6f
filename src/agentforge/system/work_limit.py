"""Limits in working time for what this process awaits.

A thread reads the clock while a limit is watched, so that an event loop that is only busy doesn't look as if
it were stopped.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

from agentforge.system.work_clock import BEAT_SECONDS, WorkClock

T = TypeVar("T")


class _Heartbeat:
    """Reads a clock in a thread while anything is watched."""

    def __init__(self, clock: WorkClock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._watched = 0
        self._thread: threading.Thread | None = None

    def watch(self) -> None:
        with self._lock:
            self._watched += 1
            # Not alive: this process was forked from the one that started it.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._beat, name="work time", daemon=True)
                self._thread.start()

    def unwatch(self) -> None:
        with self._lock:
            self._watched -= 1

    def _beat(self) -> None:
        while True:
            self._clock.now()
            time.sleep(BEAT_SECONDS)
            with self._lock:
                if not self._watched:
                    self._thread = None
                    return


_clock = WorkClock()
_heartbeat = _Heartbeat(_clock)


class WorkLimit:
    """`async with WorkLimit(seconds)`: as `asyncio.timeout`, in working time. None: no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(None)
        self._due = 0.0
        self._next: asyncio.TimerHandle | None = None

    def expired(self) -> bool:
        return self._timeout.expired()

    async def __aenter__(self) -> "WorkLimit":
        await self._timeout.__aenter__()
        if self._seconds is not None:
            _heartbeat.watch()
            self._due = _clock.now() + self._seconds
            self._look()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._next is not None:
            self._next.cancel()
        if self._seconds is not None:
            _heartbeat.unwatch()
        await self._timeout.__aexit__(kind, error, trace)

    def _look(self) -> None:
        loop, left = asyncio.get_running_loop(), self._due - _clock.now()
        if left > 0:
            self._next = loop.call_later(left, self._look)
        else:
            self._timeout.reschedule(loop.time())


async def call_within(seconds: float | None, function: Callable[[], T]) -> T:
    """The result of a function that runs off the event loop. Raises TimeoutError.

    A thread can't be ended: after the deadline it keeps running in the background, so the function must not
    write anything. The thread is a daemon, so that it can't hold up the end of the program."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def deliver(outcome: Callable[[], None]) -> None:
        if not result.done():
            outcome()

    def work() -> None:
        try:
            value = function()
        except Exception as error:
            failed = error
            outcome = lambda: result.set_exception(failed)  # noqa: E731
        else:
            outcome = lambda: result.set_result(value)  # noqa: E731
        with suppress(RuntimeError):  # The loop is closed.
            loop.call_soon_threadsafe(deliver, outcome)

    threading.Thread(target=work, name="deadline", daemon=True).start()
    async with WorkLimit(seconds):
        return await result
