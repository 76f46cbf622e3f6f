"""The lease of a run: an exclusive `flock` on its log, which the kernel releases when the owner dies."""

import fcntl
import os
import time
from collections.abc import Callable

from agentforge.system.files import open_file

# A probe holds a shared lock only for an instant; a lock held longer belongs to an owner.
_WAIT_SECONDS = 1.0
_STEP_SECONDS = 0.02


def take(fd: int, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Try for up to a second; returns whether the lease was taken. Held until the descriptor is closed."""
    for _ in range(int(_WAIT_SECONDS / _STEP_SECONDS)):
        if _try_lock(fd, fcntl.LOCK_EX):
            return True
        sleep(_STEP_SECONDS)
    return _try_lock(fd, fcntl.LOCK_EX)


def is_held(path: str) -> bool:
    """Whether this or another process holds the lease now."""
    try:
        fd = open_file(path)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def _try_lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
