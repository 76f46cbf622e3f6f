"""The time of day, for timestamps and durable waits."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """In UTC."""
        ...

    async def sleep_until(self, due: datetime) -> None: ...
