"""The machine's own clock."""

import asyncio
from datetime import UTC, datetime

# A wall clock may jump (the machine slept, the time was set): check again at least this often.
MAX_SLEEP_SECONDS = 30.0


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep_until(self, due: datetime) -> None:
        while (remaining := (due - self.now()).total_seconds()) > 0:  # noqa: ASYNC110 - only time passes
            await asyncio.sleep(min(remaining, MAX_SLEEP_SECONDS))
