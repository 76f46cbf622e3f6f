"""The machine's own clock."""

import asyncio
import time
from datetime import UTC, datetime

# The time of day may jump ahead (the machine slept, the time was set): return at least this often.
MAX_SLEEP_SECONDS = 30.0


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, MAX_SLEEP_SECONDS))
