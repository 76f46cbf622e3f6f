"""A disk whose failures are controlled by the test."""

import errno
import os
from collections.abc import Callable

from agentforge.system.disk import Disk


def no_space() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


def _name(fd: int) -> str:
    return os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))


class FailingDisk(Disk):
    """Real, apart from a limit on bytes and from calls that were told to fail; notes what was called."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fail: dict[str, OSError] = {}
        self.room: int | None = None
        """Bytes that still fit; a write beyond them is short, and the next one is refused."""
        self.fail_halfway: OSError | None = None
        """Write half of the bytes, then raise this."""
        self.fail_for: dict[str, str] = {}
        """By the name of a file: the call that fails for it."""
        self.on_write: Callable[[], None] = lambda: None
        self.sync_seconds: dict[str, float] = {}
        """By the name of a file: how long a sync of it seems to take."""
        self.clock = 0.0
        self.synced: list[str] = []
        """The names of the files that were synced."""

    def now(self) -> float:
        return self.clock

    def _note(self, call: str, fd: int | None = None) -> None:
        self.calls.append(call)
        if call in self.fail:
            raise self.fail[call]
        if fd is not None and self.fail_for.get(_name(fd)) == call:
            raise OSError(errno.EIO, "Input/output error")

    def open(self, path: str, flags: int) -> int:
        self._note("open")
        return super().open(path, flags)

    def write(self, fd: int, data: bytes) -> int:
        self._note("write")
        self.on_write()
        if self.fail_halfway is not None:
            super().write(fd, data[: len(data) // 2])
            raise self.fail_halfway
        if self.room is None:
            return super().write(fd, data)
        if self.room == 0:
            raise no_space()
        written = super().write(fd, data[: self.room])
        self.room -= written
        return written

    def write_at(self, fd: int, data: bytes, position: int) -> None:
        self._note("write_at", fd)
        super().write_at(fd, data, position)

    def truncate(self, fd: int, length: int) -> None:
        before = os.fstat(fd).st_size
        self._note("truncate")
        super().truncate(fd, length)
        if self.room is not None:
            self.room += before - length

    def sync(self, fd: int) -> None:
        self._note("sync", fd)
        super().sync(fd)
        self.synced.append(_name(fd))
        self.clock += self.sync_seconds.get(_name(fd), 0.0)

    def rename(self, old: str, new: str) -> None:
        self._note("rename")
        super().rename(old, new)

    def make_directory(self, path: str, mode: int) -> bool:
        self._note("make_directory")
        return super().make_directory(path, mode)

    def sync_directory(self, path: str) -> None:
        self._note("sync_directory")
        if "sync_directory" in self.fail_for.values():
            raise OSError(errno.EIO, "Input/output error")
        super().sync_directory(path)
