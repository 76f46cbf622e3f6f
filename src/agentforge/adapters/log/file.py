"""`events.jsonl` as bytes: writes are all or nothing, and durable once synced."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from agentforge.adapters.log.scan import CHUNK_BYTES
from agentforge.model.codec import DamagedLine, Payload
from agentforge.model.errors import LogConflict, StorageFailed
from agentforge.system import files
from agentforge.system.disk import Disk, WriteRetry
from agentforge.system.files import open_file, storage, storage_failed

_NAME = re.compile(r"[0-9a-f]{64}")


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

    def save(self, data: bytes) -> Payload:
        payload = payload_of(data)
        # Rewritten on each attempt.
        self._retry.call(f"can't write a payload to {self._directory}", lambda: self._write(payload, data))
        return payload

    def load(self, payload: Payload) -> bytes:
        # The name comes from a file, so it is validated before it becomes a path.
        if not _NAME.fullmatch(payload.sha256):
            raise DamagedLine("the name of its payload is invalid")
        try:
            return verified(files.read_bytes(self._path(payload)), payload)
        except StorageFailed as error:
            raise DamagedLine(f"its payload {payload.sha256[:12]} can't be read: {error.message}") from error

    def _write(self, payload: Payload, data: bytes) -> None:
        self._disk.make_directories(self._directory)
        self._disk.replace(self._path(payload), data)

    def _path(self, payload: Payload) -> str:
        return os.path.join(self._directory, f"{payload.sha256}.json")


def chunks_of(fd: int, start: int, end: int) -> Iterator[bytes]:
    while start < end and (chunk := _read(fd, min(CHUNK_BYTES, end - start), start)):
        yield chunk
        start += len(chunk)


def _read(fd: int, size: int, start: int) -> bytes:
    with storage("can't read the log"):
        return os.pread(fd, size, start)


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

    def __init__(self, path: str, fd: int, disk: Disk, retry: WriteRetry, payloads: PayloadStore) -> None:
        self._path = path
        self._fd = fd
        self._disk = disk
        self._retry = retry
        self._payloads = payloads
        self.length = disk.size(fd)
        # An earlier owner's writes may not be on the disk yet, so the first sync always waits.
        self._synced = -1
        self.failure = ""

    def chunks(self, start: int, end: int) -> Iterator[bytes]:
        return chunks_of(self._fd, start, end)

    def load(self, payload: Payload) -> bytes:
        return self._payloads.load(payload)

    def save(self, data: bytes) -> Payload:
        return self._payloads.save(data)

    def write(self, data: bytes) -> None:
        self._check_usable()
        self._retry.call(f"can't write to the log {self._path}", lambda: self._write_once(data))
        self.length += len(data)

    def sync(self) -> None:
        self._check_usable()
        if self._synced == self.length:
            return
        try:
            self._disk.sync(self._fd)
        except OSError as error:
            # The kernel may have dropped the unwritten pages and would report the next sync as a success.
            raise self._fail("make the log durable", error) from error
        self._synced = self.length

    def save_tail(self, start: int) -> str:
        target = Path(self._path).with_name(f"{Path(self._path).name}.torn-{start}")
        number = 1
        while target.exists():
            number += 1
            target = target.with_name(f"{Path(self._path).name}.torn-{start}-{number}")
        with storage(f"can't save the torn line to {target}"):
            self._disk.fill(str(target), self.chunks(start, self.length), os.O_EXCL)
            self._disk.sync_directory(str(target.parent))
        return str(target)

    def cut(self, length: int) -> None:
        try:
            self._disk.truncate(self._fd, length)
            self._disk.sync(self._fd)
        except OSError as error:
            raise self._fail("cut off the torn line", error) from error
        self.length = length

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _write_once(self, data: bytes) -> None:
        size = self._disk.size(self._fd)
        if size != self.length:
            raise LogConflict(
                f"another process wrote to the log {self._path}: {size} bytes instead of {self.length}",
                hint="run `agentforge log verify`, then resume the run",
            )
        try:
            written = self._disk.write(self._fd, data)
        except OSError:
            self._undo_partial_write()
            raise
        if written != len(data):
            self._undo_partial_write()
            # A short write has no errno; a full disk is the usual cause.
            raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes were written")

    def _undo_partial_write(self) -> None:
        """Cut off the part of a failed write that reached the file."""
        try:
            if self._disk.size(self._fd) != self.length:
                self._disk.truncate(self._fd, self.length)
        except OSError as error:
            raise self._fail("cut off a half-written line", error) from error

    def _fail(self, action: str, error: OSError) -> StorageFailed:
        failed = storage_failed(f"can't {action} ({self._path})", error)
        self.failure = failed.message
        return failed

    def _check_usable(self) -> None:
        if self.failure:
            raise StorageFailed(self.failure, hint="fix the disk, then resume the run")
