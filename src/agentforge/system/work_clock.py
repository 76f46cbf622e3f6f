"""A clock for limits of work. Time in which this process was stopped, as by SIGSTOP, a container's pause or a
suspended machine, counts towards none: what it waits for probably was stopped with it."""

import threading
import time

BEAT_SECONDS = 0.5
STOPPED_SECONDS = 1.5
"""Between two readings: the process was stopped."""


class WorkClock:
    """Monotonic seconds, without those in which the process was stopped. Read it at least every
    `BEAT_SECONDS`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = time.monotonic()
        self._stopped = 0.0

    def now(self) -> float:
        with self._lock:
            before, self._read_at = self._read_at, time.monotonic()
            if self._read_at - before > STOPPED_SECONDS:
                self._stopped += self._read_at - before
            return self._read_at - self._stopped
