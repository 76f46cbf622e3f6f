"""The time of day, for timestamps, and the passing of time, for waits and limits."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """In UTC. May jump in either direction."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; never jumps."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; may return early."""
        ...
