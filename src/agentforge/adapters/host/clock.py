"""The machine's own clock."""

import asyncio
from datetime import UTC, datetime

# A wall clock may jump (the machine slept, somebody set it): look again at least this often.
LONGEST_SLEEP = 30.0


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep_until(self, due: datetime) -> None:
        while (remaining := (due - self.now()).total_seconds()) > 0:  # noqa: ASYNC110 - only time passes
            await asyncio.sleep(min(remaining, LONGEST_SLEEP))
