"""What an engine does when the path of its log no longer leads to its log.

The engine writes to an open file: if a process removes, moves or replaces `events.jsonl`, its writes would go
to a file without a name, and another engine could take the lease of the file at the path. The engine
therefore stops. A log that was removed exists only as long as its descriptor is open, so it is put back where
that overwrites nothing.
"""

import os
import stat
from collections.abc import Iterator

from agentforge.adapters.log.lease import LogLease
from agentforge.adapters.log.reader import CHUNK_BYTES
from agentforge.model.errors import LogConflict, StorageFailed
from agentforge.system import files
from agentforge.system.disk import Disk
from agentforge.system.files import storage
from agentforge.system.folders import draft_name

# The engine doesn't continue to write after the log is back: it can't know what else was removed with it, and
# for a moment another engine could have taken the lease at the path. To stop and be recovered is the path
# that is tested anyway.

CONTINUE = "run `agentforge recover` to continue; no recorded event is lost"


def chunks_of(fd: int, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        with storage("can't read the log"):
            chunk = os.pread(fd, min(CHUNK_BYTES, end - start), start)
        if not chunk:
            return
        yield chunk
        start += len(chunk)


class DisplacedLog:
    """A log whose path leads to nothing, or to another file."""

    def __init__(self, path: str, fd: int, length: int, disk: Disk) -> None:
        self._path = path
        self._fd = fd
        self._length = length
        self._disk = disk
        self.lease: LogLease | None = None
        """The lease on the file that is now at the path, held until this engine has stopped."""

    def settle(self) -> LogConflict:
        """Put a removed log back if possible; returns what happened and what to do next."""
        if target := self._moved_to():
            return LogConflict(
                f"the log {self._path} was moved to {target} while the run was in progress: "
                "the run was stopped",
                hint="move it back, then run `agentforge recover`; no recorded event is lost",
            )
        try:
            if self._restore():
                return LogConflict(
                    f"the log {self._path} was removed while the run was in progress "
                    "(by `git clean -x`, `git stash -a` or `rm`?): the run was stopped and its log restored; "
                    "other files of the run may be missing",
                    hint=CONTINUE,
                    restored=True,
                )
            return self._replaced()
        except (OSError, StorageFailed) as error:
            return LogConflict(
                f"the log {self._path} was removed while the run was in progress, "
                f"and can't be restored: {error}",
                hint="restore the run's folder, then run `agentforge recover`",
            )

    def _moved_to(self) -> str:
        """Where the log is now, or "" if it was removed."""
        if not os.fstat(self._fd).st_nlink:
            return ""
        try:
            target = os.readlink(f"/proc/self/fd/{self._fd}")
        except OSError:
            return "another place"
        return "" if target.endswith(" (deleted)") else target

    def _replaced(self) -> LogConflict:
        if self._complete_copy():
            return LogConflict(
                f"the log {self._path} was replaced by a copy while the run was in progress "
                "(by `git stash` and `git stash pop`, or from a backup?): the run was stopped",
                hint=CONTINUE,
                restored=True,
            )
        saved = files.free_name(f"{self._path}.replaced-{self._length}")
        self._disk.fill(saved, self._content())
        self._disk.sync_directory(os.path.dirname(saved))
        return LogConflict(
            f"the log {self._path} was replaced by another file while the run was in progress: "
            f"the run was stopped and its log saved to {saved}",
            hint="compare the two files and keep one as events.jsonl, then run `agentforge recover`",
        )

    def _restore(self) -> bool:
        """Write the log to its path with the lease held; False if something is there."""
        folder, name = os.path.split(self._path)
        self._disk.make_directories(folder)
        draft = os.path.join(folder, draft_name(name))
        try:
            self._disk.fill(draft, self._content())
            lease = LogLease(lambda: self._disk.open(draft, os.O_RDWR | os.O_NOFOLLOW))
            lease.take_now()
            try:
                files.link(draft, self._path)
            except OSError:
                lease.close()
                raise
            self.lease = lease
        except FileExistsError:
            return False
        finally:
            files.remove(draft)
        self._disk.sync_directory(folder)
        return True

    def _complete_copy(self) -> bool:
        """Take the lease of the file at the path, and append what it lacks; False if it isn't a copy of the
        log, or another engine has its lease."""
        if not stat.S_ISREG(os.lstat(self._path).st_mode):
            return False
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        lease = LogLease(lambda: self._disk.open(self._path, flags))
        size = self._disk.size(lease.fd)
        if size > self._length or not lease.take_now() or not self._begins_with(lease.fd, size):
            lease.close()
            return False
        self.lease = lease
        self._disk.write_all(lease.fd, chunks_of(self._fd, size, self._length))
        self._disk.sync(lease.fd)
        return True

    def _begins_with(self, fd: int, size: int) -> bool:
        pairs = zip(chunks_of(self._fd, 0, size), chunks_of(fd, 0, size), strict=False)
        return all(ours == theirs for ours, theirs in pairs)

    def _content(self) -> Iterator[bytes]:
        return chunks_of(self._fd, 0, self._length)
