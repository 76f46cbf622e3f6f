"""The machine's clock and the fake one keep the port's contract in full."""

import asyncio
from datetime import timedelta

import pytest

from agentforge.adapters.host.machine import SystemClock
from agentforge.ports.host import Clock
from agentforge.testing import FakeClock
from agentforge.testing.clock_contract import ClockContract, wait
from agentforge.testing.fake_clock import NOON

HOURS = 3 * 3600.0


class TestSystemClock(ClockContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return SystemClock()


class TestFakeClock(ClockContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return FakeClock()


class PushedClock(FakeClock):
    """Held, and advanced by something else during every wait."""

    def __init__(self) -> None:
        super().__init__(hold=True)

    async def sleep(self, seconds: float) -> None:
        pushing = asyncio.get_running_loop().call_soon(self.advance, 0.01)
        try:
            await super().sleep(seconds)
        finally:
            pushing.cancel()


class TestHeldClock(ClockContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return PushedClock()


def test_a_fake_wait_takes_no_time_and_first_returns_early() -> None:
    async def main() -> None:
        await clock.sleep(HOURS)
        assert NOON < clock.now() < NOON + timedelta(seconds=HOURS)
        await wait(clock, HOURS - clock.monotonic())

    clock = FakeClock()
    asyncio.run(main())
    assert clock.now() == NOON + timedelta(seconds=HOURS)
    assert clock.waits == [HOURS]


def test_fake_waits_are_noted_when_they_begin() -> None:
    async def main() -> None:
        await asyncio.gather(*(wait(clock, seconds) for seconds in (2.0, 2.0, 5.0)))
        await wait(clock, 2.0)

    clock = FakeClock()
    asyncio.run(main())
    assert sorted(clock.waits) == [2.0, 2.0, 2.0, 5.0]


def test_a_held_clock_moves_only_when_it_is_advanced() -> None:
    async def main() -> None:
        waiting = asyncio.create_task(wait(clock, 10))
        for seconds in (4, 5):
            await asyncio.sleep(0)
            clock.advance(seconds)
            await asyncio.sleep(0)
        assert not waiting.done()
        clock.advance(1)
        async with asyncio.timeout(60):
            await waiting

    clock = FakeClock(hold=True)
    asyncio.run(main())
    assert clock.waits == [10]
