"""Calls a function off the event loop, with a deadline.

A thread can't be ended: after the deadline it keeps running in the background, so the function must not
write anything.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from agentforge.system.work_limit import WorkLimit

T = TypeVar("T")


async def call_within(seconds: float | None, function: Callable[[], T]) -> T:
    """Raises TimeoutError. The thread is a daemon, so that it can't hold up the end of the program."""
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
