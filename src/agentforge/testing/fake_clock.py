"""A clock that only moves when a test advances it, or by the length of each wait."""

import asyncio
from datetime import UTC, datetime, timedelta

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
SAME_SECONDS = 1e-5
"""Times of the log are in microseconds."""


class FakeClock:
    """Implements the clock port: `Engine(..., clock=FakeClock())`.

    By default a wait takes no real time: the clock moves to its end. With `hold=True` it doesn't move until
    `advance`. Every wait first returns early, as the port allows; `waits` has the lengths of those that were
    begun, not of those that were continued.
    """

    def __init__(self, now: datetime = NOON, *, hold: bool = False) -> None:
        self._now = now
        self._passed = 0.0
        self._hold = hold
        self._moved = asyncio.Event()
        self._ended_early: list[float] = []
        """When the waits would have ended that are to be continued."""
        self.waits: list[float] = []
        """How long each wait would have taken, in seconds."""

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._passed

    async def sleep(self, seconds: float) -> None:
        end = self._passed + seconds
        is_continued = self._is_continued(end)
        if not is_continued:
            self.waits.append(seconds)
        if self._hold and seconds > 0:
            await self._moved.wait()
        else:
            # Yield to other tasks, as a real wait does.
            await asyncio.sleep(0)
            left = end - self._passed
            if left > 0:
                self.advance(left if is_continued else left / 2)
        if self._passed < end:
            self._ended_early.append(end)

    def _is_continued(self, end: float) -> bool:
        known = next((early for early in self._ended_early if abs(early - end) < SAME_SECONDS), None)
        if known is not None:
            self._ended_early.remove(known)
        return known is not None

    def set(self, now: datetime) -> None:
        """Set the time of day, as a correction of the clock does; no time passes."""
        self._now = now

    def advance(self, seconds: float) -> None:
        """Let time pass, and wake all waits."""
        self._now += timedelta(seconds=seconds)
        self._passed += seconds
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
