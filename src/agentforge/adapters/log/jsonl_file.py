"""`events.jsonl` as bytes: writes are all or nothing, and durable once synced."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256

from agentforge.adapters.log.displacement import DisplacedLog, chunks_of
from agentforge.adapters.log.lease import LogLease
from agentforge.adapters.log.write_ahead import WriteAhead
from agentforge.model.codec import DamagedLine, Payload
from agentforge.model.errors import AgentForgeError, InvalidRequest, LogConflict, StorageFailed
from agentforge.system import files
from agentforge.system.disk import Disk, WriteRetry
from agentforge.system.files import open_file, storage, storage_failed

# An agent can remove, move or replace the log at any time. Before each write, one `lstat` and one short read
# compare the file at the path with what this engine wrote last: inode, length, and the last bytes, which
# contain the hash of the last event. An engine that only looked when it opened the log would write to a file
# without a name while another one takes the lease of the new file. The head outside of the project is
# compared on opening only: reading it before each write would cost more and prove less, as the engine's own
# memory is out of an agent's reach (decision 18).

MAX_PAYLOAD = 32 * 1024 * 1024
"""Commands that only look at a run read its payloads, too, also those of a foreign run."""
_NAME = re.compile(r"[0-9a-f]{64}")

_TAIL_BYTES = 64
"""The end of the log that is compared before each write: it contains the hash of the last event."""

_RETURN_DELAYS = (0.1,) * 10


def payload_of(data: bytes) -> Payload:
    return Payload(sha256(data).hexdigest(), len(data))


def verified(data: bytes | None, payload: Payload) -> bytes:
    """The data, if it matches the line's reference; raises DamagedLine."""
    if data is None:
        raise DamagedLine(f"its payload {payload.sha256[:12]} is missing")
    if payload_of(data) != payload:
        raise DamagedLine(f"its payload {payload.sha256[:12]} was changed: it has {len(data)} bytes")
    return data


class PayloadStore:
    def __init__(self, directory: str, disk: Disk, retry: WriteRetry) -> None:
        self._directory = directory
        self._disk = disk
        self._retry = retry
        self._is_made = False
        """Whether this object has made the name of its folder durable."""

    def save(self, data: bytes) -> Payload:
        if len(data) > MAX_PAYLOAD:
            raise InvalidRequest(
                f"an event has {len(data):,} bytes of data; the log accepts at most {MAX_PAYLOAD:,}",
                hint="make the prompts of the pipeline shorter, or split it",
            )
        payload = payload_of(data)
        # Rewritten on each attempt.
        self._retry.call(f"can't write a payload to {self._directory}", lambda: self._write(payload, data))
        return payload

    def load(self, payload: Payload) -> bytes:
        # The name comes from a file, so it is validated before it becomes a path.
        if not _NAME.fullmatch(payload.sha256):
            raise DamagedLine("the name of its payload is invalid")
        if not 0 <= payload.size <= MAX_PAYLOAD:
            raise DamagedLine(f"the size of its payload is invalid: {payload.size}")
        try:
            return verified(files.read_bytes(self._path(payload), payload.size), payload)
        except StorageFailed as error:
            raise DamagedLine(f"its payload {payload.sha256[:12]} can't be read: {error.message}") from error

    def _write(self, payload: Payload, data: bytes) -> None:
        if not self._is_made or not files.is_dir(self._directory):
            self._disk.make_directories(self._directory)
            self._is_made = True
        self._disk.replace(self._path(payload), data)

    def _path(self, payload: Payload) -> str:
        return os.path.join(self._directory, f"{payload.sha256}.json")


class FileSnapshot:
    """The file up to its length at that moment; empty if the file is missing."""

    def __init__(self, fd: int | None, payloads: PayloadStore) -> None:
        self._fd = fd
        self.length = 0 if fd is None else os.fstat(fd).st_size
        self.load = payloads.load

    def chunks(self, start: int, end: int) -> Iterator[bytes]:
        return iter(()) if self._fd is None else chunks_of(self._fd, start, end)


@contextmanager
def snapshot_of(path: str, payloads: PayloadStore) -> Iterator[FileSnapshot]:
    try:
        fd = open_file(path)
    except FileNotFoundError:
        yield FileSnapshot(None, payloads)
        return
    except OSError as error:
        raise storage_failed(f"can't read the log {path}", error) from error
    try:
        yield FileSnapshot(fd, payloads)
    finally:
        os.close(fd)


class JsonlFile:
    """The open log. Its descriptor carries the lease, so closing it releases the lease."""

    def __init__(
        self, path: str, lease: LogLease, disk: Disk, retry: WriteRetry, payloads: PayloadStore
    ) -> None:
        self._path = path
        self._lease = lease
        self._disk = disk
        self._retry = retry
        self.load, self.save = payloads.load, payloads.save
        # Of the open file, not of the path: the path may lead elsewhere by now.
        opened = os.fstat(lease.fd)
        self._inode = (opened.st_ino, opened.st_dev)
        self._ahead = WriteAhead(path, disk)
        self.length = opened.st_size
        self.restored = self._restore()
        """How many bytes it lacked after a power failure."""
        self._tail = self._last_bytes()
        # An earlier owner's writes may not be on the disk yet, so the first sync always waits.
        self._synced = -1
        self._unsynced: list[bytes] = []
        self._other_lease: LogLease | None = None
        self.failure: AgentForgeError | None = None

    def chunks(self, start: int, end: int) -> Iterator[bytes]:
        return chunks_of(self._lease.fd, start, end)

    def write(self, data: bytes) -> None:
        self._check_usable()
        self._retry.call(f"can't write to the log {self._path}", lambda: self._write_once(data))
        self.length += len(data)
        self._unsynced.append(data)
        self._tail = data[-_TAIL_BYTES:] if len(data) >= _TAIL_BYTES else self._last_bytes()

    def sync(self) -> None:
        self._check_usable()
        if self._synced == self.length:
            return
        began, size = self._disk.now(), self.length - self._synced
        # The write-ahead file gets what was appended since the last sync, if it can take that.
        if self._synced >= 0 and self._ahead.accepts(size) and self._ahead.sync(b"".join(self._unsynced)):
            self._ahead.note_time(self._disk.now() - began)
        else:
            self._sync_log()
            self._ahead.restart(self.length, self._tail, self._disk.now() - began)
        # The bytes are kept until here, as the write-ahead file gets them again.
        self._synced = self.length
        self._unsynced.clear()

    def verify(self) -> None:
        self._check_usable()
        with storage(f"can't check the log {self._path}"):
            self._check_place()

    def save_tail(self, start: int) -> str:
        target = files.free_name(f"{self._path}.torn-{start}")
        with storage(f"can't save the torn line to {target}"):
            self._disk.fill(target, self.chunks(start, self.length))
            self._disk.sync_directory(os.path.dirname(target))
        return target

    def cut(self, length: int) -> None:
        try:
            self._disk.truncate(self._lease.fd, length)
            self._disk.sync(self._lease.fd)
        except OSError as error:
            raise self._fail("cut off the torn line", error) from error
        self.length = length
        self._tail = self._last_bytes()

    def close(self) -> None:
        try:
            if self._ahead.is_created and not self.failure and self._synced == self.length:
                self._sync_log()
                self._ahead.remove()
        finally:
            self._ahead.close()
            if self._other_lease:
                self._other_lease.close()
            self._lease.close()

    def _restore(self) -> int:
        """Write the content of the write-ahead file to the log; returns how many bytes the log lacked.

        Also if it seems to lack none: after a failed sync, only the kernel's cache may have them.
        """
        # Before the first read of the log: what it lacks was acknowledged, and its engine has acted on it.
        position, data = self._ahead.left(self._end_before)
        if not data:
            return 0
        end = position + len(data)
        if not data.startswith(b"".join(self.chunks(position, min(end, self.length)))):
            self.save_tail(position)
        with storage(f"can't restore the log {self._path} from {self._ahead.path}"):
            self._overwrite(position, data)
        self._ahead.remove()
        missing = max(0, end - self.length)
        self.length += missing
        return missing

    def _overwrite(self, position: int, data: bytes) -> None:
        # The descriptor of the lease can only append.
        fd = self._disk.open(self._path, os.O_RDWR)
        try:
            self._disk.write_at(fd, data, position)
            self._disk.sync(fd)
        finally:
            os.close(fd)

    def _sync_log(self) -> None:
        try:
            self._disk.sync(self._lease.fd)
        except OSError as error:
            # The kernel may have dropped the unwritten pages and would report the next sync as a success.
            raise self._fail("make the log durable", error) from error

    def _write_once(self, data: bytes) -> None:
        self._check_place()
        try:
            written = self._disk.write(self._lease.fd, data)
        except OSError:
            self._undo_partial_write()
            raise
        if written != len(data):
            self._undo_partial_write()
            # A short write has no errno; a full disk is the usual cause.
            raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes were written")

    def _check_place(self) -> None:
        """Raise LogConflict unless the path leads to this log and the log ends as it was written. Called
        before every write: one stat and one short read."""
        try:
            found: os.stat_result | None = os.lstat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            found = self._wait_for_return()
        if found is None or (found.st_ino, found.st_dev) != self._inode:
            displaced = DisplacedLog(self._path, self._lease.fd, self.length, self._disk)
            self.failure = displaced.settle()
            self._other_lease = displaced.lease
            raise self.failure
        if found.st_size != self.length or self._last_bytes() != self._tail:
            raise LogConflict(
                f"another process wrote to the log {self._path}: "
                f"it has {found.st_size} bytes, {self.length} were expected",
                hint="run `agentforge log verify`, then resume the run",
            )

    def _wait_for_return(self) -> os.stat_result | None:
        """A log that is missing may come back at once, as after a rename that is undone."""
        for delay in _RETURN_DELAYS:
            self._retry.sleep(delay)
            with suppress(FileNotFoundError, NotADirectoryError):
                return os.lstat(self._path)
        return None

    def _last_bytes(self) -> bytes:
        begin = self.length - _TAIL_BYTES
        return os.pread(self._lease.fd, _TAIL_BYTES, begin if begin > 0 else 0)

    def _end_before(self, position: int) -> bytes | None:
        if position > self.length:
            return None
        begin = max(0, position - _TAIL_BYTES)
        return os.pread(self._lease.fd, position - begin, begin)

    def _undo_partial_write(self) -> None:
        """Cut off the part of a failed write that reached the file."""
        try:
            if self._disk.size(self._lease.fd) != self.length:
                self._disk.truncate(self._lease.fd, self.length)
        except OSError as error:
            raise self._fail("cut off a half-written line", error) from error

    def _fail(self, action: str, error: OSError) -> AgentForgeError:
        failed = storage_failed(f"can't {action} ({self._path})", error)
        self.failure = StorageFailed(failed.message, hint="fix the disk, then resume the run")
        return failed

    def _check_usable(self) -> None:
        if self.failure:
            raise self.failure
