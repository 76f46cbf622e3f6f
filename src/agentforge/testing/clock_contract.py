"""The contract of the clock port. Derive a test class, override `clock`, and run all of it.

class TestMyClock(ClockContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return MyClock()
"""

import asyncio
import contextlib
from datetime import timedelta
from itertools import pairwise

import pytest

from agentforge.ports.host import Clock

SECONDS = 0.05
"""How long a wait is, where it may take real time."""
PATIENCE = 60.0


async def wait(clock: Clock, seconds: float) -> None:
    """As a caller has to: a sleep may return early."""
    end = clock.monotonic() + seconds
    while (left := end - clock.monotonic()) > 0:
        await clock.sleep(left)


class ClockContract:
    @pytest.fixture
    def clock(self) -> Clock:
        raise NotImplementedError

    def test_the_time_of_day_is_in_utc(self, clock: Clock) -> None:
        assert clock.now().utcoffset() == timedelta()

    def test_time_passes_by_the_length_of_a_wait(self, clock: Clock) -> None:
        async def main() -> float:
            async with asyncio.timeout(PATIENCE):
                began = clock.monotonic()
                await wait(clock, SECONDS)
                return clock.monotonic() - began

        assert asyncio.run(main()) >= SECONDS

    def test_every_sleep_brings_its_end_nearer(self, clock: Clock) -> None:
        """One that returns early has passed some of its time: a caller that repeats it isn't busy."""

        async def main() -> list[float]:
            async with asyncio.timeout(PATIENCE):
                passed = [clock.monotonic()]
                for _ in range(3):
                    await clock.sleep(SECONDS)
                    passed.append(clock.monotonic())
                return passed

        passed = asyncio.run(main())
        assert all(later > earlier for earlier, later in pairwise(passed))

    @pytest.mark.parametrize("seconds", [0.0, -1.0])
    def test_a_wait_that_is_over_returns(self, clock: Clock, seconds: float) -> None:
        async def main() -> None:
            async with asyncio.timeout(PATIENCE):
                await clock.sleep(seconds)

        before = clock.monotonic()
        asyncio.run(main())
        assert clock.monotonic() >= before

    def test_others_work_during_a_wait(self, clock: Clock) -> None:
        async def main() -> list[str]:
            done: list[str] = []

            async def work() -> None:
                done.append("other")

            async with asyncio.timeout(PATIENCE):
                other = asyncio.create_task(work())
                await wait(clock, SECONDS)
                done.append("waited")
                await other
            return done

        assert asyncio.run(main()) == ["other", "waited"]

    def test_waits_at_the_same_time_all_end(self, clock: Clock) -> None:
        async def main() -> None:
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*(wait(clock, SECONDS) for _ in range(3)))

        asyncio.run(main())

    def test_a_wait_can_be_cancelled(self, clock: Clock) -> None:
        async def main() -> bool:
            waiting = asyncio.create_task(clock.sleep(3600))
            waiting.cancel()
            async with asyncio.timeout(PATIENCE):
                with contextlib.suppress(asyncio.CancelledError):
                    await waiting
            return waiting.cancelled()

        assert asyncio.run(main())
