"""A clock that only moves when a test advances it, or by the length of each wait."""

import asyncio
from datetime import UTC, datetime, timedelta

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


class FakeClock:
    """Implements the clock port: `Engine(..., clock=FakeClock())`.

    By default a wait returns immediately and moves the clock to its end; `waits` has the lengths. With
    `hold=True` the clock doesn't move until `advance`.
    """

    def __init__(self, now: datetime = NOON, *, hold: bool = False) -> None:
        self._now = now
        self._passed = 0.0
        self._hold = hold
        self._moved = asyncio.Event()
        self.waits: list[float] = []
        """How long each wait would have taken, in seconds."""

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._passed

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        end = self._passed + seconds
        if not self._hold:
            # Yield to other tasks, as a real wait does.
            await asyncio.sleep(0)
            if self._passed < end:
                self.advance(end - self._passed)
        while self._passed < end:
            await self._moved.wait()

    def set(self, now: datetime) -> None:
        """Set the time of day, as a correction of the clock does; no time passes."""
        self._now = now

    def advance(self, seconds: float) -> None:
        """Let time pass, and end the waits that are due."""
        self._now += timedelta(seconds=seconds)
        self._passed += seconds
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
