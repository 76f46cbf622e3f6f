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
        self._hold = hold
        self._moved = asyncio.Event()
        self.waits: list[float] = []
        """How long each wait would have taken, in seconds."""

    def now(self) -> datetime:
        return self._now

    async def sleep_until(self, due: datetime) -> None:
        self.waits.append(max(0.0, (due - self._now).total_seconds()))
        if not self._hold:
            # Yield to other tasks, as a real wait does.
            await asyncio.sleep(0)
            self._now = max(self._now, due)
        while self._now < due:
            await self._moved.wait()

    def advance(self, seconds: float) -> None:
        """Move the clock, and end the waits that are due."""
        self._now += timedelta(seconds=seconds)
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
