"""Who drives a run: an exclusive `flock` on its log, which the kernel frees when the owner dies."""

import fcntl
import os
import time
from collections.abc import Callable

from agentforge.system.files import open_file

# A probe holds a shared lock for an instant; one that stays longer is an owner.
_WAIT_SECONDS = 1.0
_STEP_SECONDS = 0.02


def take(fd: int, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Whether the lease was free, or became so within a second; held until the descriptor is closed."""
    for _ in range(int(_WAIT_SECONDS / _STEP_SECONDS)):
        if _try(fd, fcntl.LOCK_EX):
            return True
        sleep(_STEP_SECONDS)
    return _try(fd, fcntl.LOCK_EX)


def is_held(path: str) -> bool:
    """Whether somebody, in this process or another, holds the lease now."""
    try:
        fd = open_file(path)
    except FileNotFoundError:
        return False
    try:
        return not _try(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def _try(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
