"""The system calls that make the log durable, in one place so that tests can make them fail."""

import errno
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct

from agentforge.model.errors import StorageFailed
from agentforge.system import files
from agentforge.system.folders import draft_name

T = TypeVar("T")

# Space may be freed, and a flaky device may recover; other errors are permanent.
_TRANSIENT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EAGAIN})


class Disk:
    """The real disk; a test derives from it and overrides the calls that should fail. All methods raise
    OSError."""

    def now(self) -> float:
        """For comparisons of how long calls take, in seconds."""
        return time.perf_counter()

    def open(self, path: str, flags: int) -> int:
        return files.open_file(path, flags)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def write_at(self, fd: int, data: bytes, position: int) -> None:
        """Overwrite bytes of a file that wasn't opened for appending."""
        while data:
            written = os.pwrite(fd, data, position)
            data, position = data[written:], position + written

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def truncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def sync(self, fd: int) -> None:
        files.sync(fd)

    def rename(self, old: str, new: str) -> None:
        files.rename(old, new)

    def make_directory(self, path: str, mode: int) -> bool:
        """Create one folder; returns False if it exists."""
        return files.make_directory(path, mode)

    def sync_directory(self, path: str) -> None:
        files.sync_directory(path)

    def make_directories(self, path: str, mode: int = files.PRIVATE) -> None:
        """Create a folder and its missing parents, durably. The parents get the default mode.

        Of the folders that exist, the name of the lowest is synced, too: its creator may have died before it
        did that. The names above are durable, since a folder is created after its parent's name is synced.
        """
        parent = os.path.dirname(path)
        if files.is_dir(path):
            # A parent that can't be read is not one that an engine creates folders in.
            with suppress(PermissionError):
                self.sync_directory(parent)
            return
        if parent != path:
            self.make_directories(parent, 0o777)
        self.make_directory(path, mode)
        self.sync_directory(parent)

    def fill(self, path: str, chunks: Iterable[bytes]) -> None:
        """Write a new file and wait for the disk; its name is durable only once its directory is synced
        too."""
        fd = self.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            self.write_all(fd, chunks)
            self.sync(fd)
        finally:
            os.close(fd)

    def write_all(self, fd: int, chunks: Iterable[bytes]) -> None:
        for chunk in chunks:
            left = chunk
            while left:
                left = left[self.write(fd, left) :]

    def replace(self, path: str, content: bytes) -> None:
        """Replace a file; its content and name are durable when this returns. Drafts left by a crash are
        never read."""
        folder, name = os.path.split(path)
        draft = os.path.join(folder, draft_name(name))
        try:
            self.fill(draft, (content,))
            self.rename(draft, path)
        except OSError:
            with suppress(StorageFailed):
                files.remove(draft)
            raise
        self.sync_directory(folder)


class WriteRetry(Struct, frozen=True):
    """How often to retry a failed disk operation, and the delays in between."""

    delays: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4)
    sleep: Callable[[float], None] = time.sleep

    def call(self, what: str, act: Callable[[], T]) -> T:
        """Retry after transient errors; raises StorageFailed with `what` if all attempts fail."""
        for delay in self.delays:
            try:
                return act()
            except OSError as error:
                if error.errno not in _TRANSIENT:
                    raise files.storage_failed(what, error) from error
            self.sleep(delay)
        try:
            return act()
        except OSError as error:
            raise files.storage_failed(what, error) from error
