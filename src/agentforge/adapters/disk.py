"""The system calls through which anything becomes durable, in one place so that tests can let them fail."""

import errno
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from agentforge.model.errors import StorageFailed

T = TypeVar("T")

# Somebody may free space, and a flaky device may recover; other refusals don't pass by themselves.
_MAY_PASS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EAGAIN})

_NEXT_STEP = {
    errno.ENOSPC: "free some space, then resume the run",
    errno.EDQUOT: "free some of your quota, then resume the run",
    errno.EROFS: "the file system is read-only: make it writable or move the project",
    errno.EACCES: "give yourself the right to write there",
    errno.EPERM: "give yourself the right to write there",
    errno.EIO: "check the disk, then resume the run",
}


class Disk:
    """The real one; a test derives from it and overrides what shall fail."""

    def open(self, path: str, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, 0o666)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def truncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def sync(self, fd: int) -> None:
        """Wait until the file's bytes and its length are on the medium."""
        if sys.platform == "darwin":
            # There fsync only reaches the drive's cache.
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        else:
            # It leaves out only times; the new length of a file is written, as reading it back needs it.
            os.fdatasync(fd)

    def rename(self, old: str, new: str) -> None:
        Path(old).rename(new)

    def make_directory(self, path: str) -> None:
        Path(path).mkdir()

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class Patience(Struct, frozen=True):
    """How often and how long to wait for a disk that refuses."""

    delays: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4)
    sleep: Callable[[float], None] = time.sleep

    def insist(self, act: Callable[[], T]) -> T:
        for delay in self.delays:
            try:
                return act()
            except OSError as error:
                if error.errno not in _MAY_PASS:
                    raise
            self.sleep(delay)
        return act()


def storage_failed(doing: str, error: OSError) -> StorageFailed:
    why = error.strerror or str(error)
    return StorageFailed(f"can't {doing}: {why}", hint=_NEXT_STEP.get(error.errno or 0, ""))


def make_directories(disk: Disk, path: str) -> None:
    """Create a folder and those above it that are missing, durably."""
    if Path(path).is_dir():
        return
    parent = str(Path(path).parent)
    make_directories(disk, parent)
    try:
        disk.make_directory(path)
    except FileExistsError:
        return
    disk.sync_directory(parent)


def write_file(disk: Disk, path: str, chunks: Iterable[bytes], *, flags: int) -> None:
    """Fill a file and wait for the disk; its name is durable only once its directory was synced too."""
    fd = disk.open(path, os.O_WRONLY | os.O_CREAT | flags)
    try:
        for chunk in chunks:
            left = chunk
            while left:
                left = left[disk.write(fd, left) :]
        disk.sync(fd)
    finally:
        os.close(fd)
