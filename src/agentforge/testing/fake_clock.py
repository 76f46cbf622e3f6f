"""A clock that moves only when a test says so, or as far as somebody waits."""

import asyncio
from datetime import UTC, datetime, timedelta

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


class FakeClock:
    """Fits wherever a clock is asked for: `Engine(..., clock=FakeClock())`.

    By default whoever waits is woken at once, with the clock put forward to that time: waits cost no time
    and their lengths can be read off. With `hold=True` time stands still until `advance`.
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
            # Let others have their turn, as a real wait does.
            await asyncio.sleep(0)
            self._now = max(self._now, due)
        while self._now < due:
            await self._moved.wait()

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass, and wake those whose time has come."""
        self._now += timedelta(seconds=seconds)
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
