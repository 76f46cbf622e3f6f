"""Calls off the event loop, with a deadline."""

import asyncio
import threading

import pytest

from agentforge.system.work_limit import call_within


def test_result_of_a_call() -> None:
    assert asyncio.run(call_within(60, threading.current_thread)) is not threading.main_thread()


def test_exception_of_a_call() -> None:
    with pytest.raises(KeyError):
        asyncio.run(call_within(60, lambda: {}["a"]))


def test_call_that_never_returns_holds_up_neither_the_loop_nor_the_end() -> None:
    never = threading.Event()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await call_within(0.01, never.wait)

    asyncio.run(main())
    never.set()


def test_call_that_returns_after_the_deadline_is_ignored() -> None:
    late, ended = threading.Event(), threading.Event()

    def work() -> None:
        late.wait()
        ended.set()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await call_within(0.01, work)
        late.set()
        await asyncio.to_thread(ended.wait)

    asyncio.run(main())


def test_cancelled_call_is_left_to_itself() -> None:
    never = threading.Event()

    async def main() -> None:
        waiting = asyncio.create_task(call_within(60, never.wait))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())
    never.set()
