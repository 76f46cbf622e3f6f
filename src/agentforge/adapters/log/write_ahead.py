"""`events.wal`, which makes frequent syncs of a log cheap.

To sync a file that has grown, the file system also commits its journal; to sync bytes that are overwritten in
place, it doesn't. An engine that syncs often therefore copies what it appends to the log to a second file of
fixed size, and waits for that one only. The log itself is synced when the second file is full, and when the
log is closed. After a power failure, the log may lack its latest lines: the next engine restores them.

Not every disk gains by it. At first, syncs of the file take turns with those of the log, and it is used
further if it is faster.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from zlib import crc32

from agentforge.model.errors import StorageFailed, UnusableFile
from agentforge.system import files
from agentforge.system.disk import Disk

# Invariant: at any time, each acknowledged byte of the log is durable in one of the two files. So
#
# - the file is overwritten from its beginning only after the log itself was synced (`restart`);
# - it is removed only when all of the log is synced, and by no one but the engine that holds the lease;
# - its zeros and its name are synced before it is used: else the first sync would extend it, which is as slow
#   as the log, and a power failure could take the name with what it has.
#
# An old record must not follow a newer one, although the file isn't cleared between its rounds. The checksums
# see to that: each continues the one before, and the first continues the end of the log at its position. The
# position alone doesn't identify a record; a log that was cut and continued has the same positions with other
# bytes.
#
# Preallocating the log instead was rejected: those that follow it with `tail -f` would see zeros (decision
# 29).

SIZE = 1024 * 1024
SYNCS_BEFORE = 32
"""The file is created after this many syncs of the log: short runs don't need it."""
COMPARED = 16
"""How many syncs of the file and of the log are compared."""
TURN = 4
"""How many of each follow each other: the first sync after those of another file takes longer."""

HEADER = Struct("<QII")
"""Position in the log, number of bytes, checksum. The checksum continues that of the record before; that of
the first record continues the end of the log before it. So no older record follows a newer one, and the file
fits one log only."""

Before = Callable[[int], bytes | None]
"""Returns the end of the log before a position, or None if the log is shorter."""


class WriteAhead:
    def __init__(self, log_path: str, disk: Disk) -> None:
        self.path = log_path.removesuffix(".jsonl") + ".wal"
        self._disk = disk
        self._fd = -1
        self._inode = (0, 0)
        self.is_created = False
        self._log_syncs = 0
        self._seconds: list[float] = []
        self._log_seconds: list[float] = []
        self._position = self._used = self._checksum = 0

    def left(self, before: Before) -> tuple[int, bytes]:
        """The bytes that the log may lack, and their position in it. A file without any for this log is
        renamed, or removed if it is empty."""
        try:
            content = files.read_bytes(self.path, SIZE)
        except UnusableFile:
            files.move_aside(self.path)
            return 0, b""
        position, data = records(content or b"", before)
        if content is not None and not data:
            # Zeros only: nothing was synced by means of it. Anything else is kept for a person to look at.
            if content.strip(b"\0"):
                files.move_aside(self.path)
            else:
                files.remove(self.path)
        return position, data

    def restart(self, position: int, before: bytes, seconds: float) -> None:
        """The log is synced up to this position, in this time: what follows may overwrite the file from its
        beginning."""
        self._log_syncs += 1
        if self._log_syncs == SYNCS_BEFORE:
            self._create()
        elif self._fd >= 0 and len(self._log_seconds) < COMPARED:
            self._log_seconds.append(seconds)
            if len(self._log_seconds) == COMPARED and not self._is_faster():
                self.remove()
        self._position, self._used, self._checksum = position, 0, crc32(before)

    def accepts(self, size: int) -> bool:
        """Whether the next bytes of the log are to be synced by means of the file: they fit, and it isn't the
        log's turn in the comparison."""
        if self._fd < 0 or self._used + HEADER.size + size > SIZE:
            return False
        return len(self._log_seconds) // TURN >= len(self._seconds) // TURN

    def sync(self, data: bytes) -> bool:
        """Store the next bytes of the log durably; returns False if the log has to be synced instead, because
        the disk is full, say, or another process removed the file."""
        checksum = crc32(data, self._checksum)
        record = HEADER.pack(self._position, len(data), checksum) + data
        try:
            self._check_place()
            self._disk.write_at(self._fd, record, self._used)
            self._disk.sync(self._fd)
        except OSError:
            self.close()
            return False
        self._position += len(data)
        self._used += len(record)
        self._checksum = checksum
        return True

    def note_time(self, seconds: float) -> None:
        """How long a sync by means of the file took."""
        if len(self._seconds) < COMPARED:
            self._seconds.append(seconds)

    def remove(self) -> None:
        """All of the log is synced: the file isn't needed any more, and does no harm if it remains."""
        self.close()
        self.is_created = False
        with suppress(StorageFailed):
            files.remove(self.path)

    def close(self) -> None:
        """Use the file no longer; it remains for the next engine."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _create(self) -> None:
        try:
            self._fd = self._disk.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except OSError:
            return
        self.is_created = True
        opened = os.fstat(self._fd)
        self._inode = (opened.st_ino, opened.st_dev)
        try:
            # Zeros are written and not reserved: to write to a reserved part changes the file's extents, and
            # a sync waits for that.
            self._disk.write_at(self._fd, bytes(SIZE), 0)
            self._disk.sync(self._fd)
            self._disk.sync_directory(os.path.dirname(self.path))
        except OSError:
            self.remove()

    def _is_faster(self) -> bool:
        return bool(self._seconds) and _median(self._seconds) <= _median(self._log_seconds)

    def _check_place(self) -> None:
        found = os.lstat(self.path)
        if (found.st_ino, found.st_dev) != self._inode:
            raise FileNotFoundError(self.path)


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def records(content: bytes, before: Before) -> tuple[int, bytes]:
    """The position of the first record, and the bytes of all that follow each other."""
    start = HEADER.unpack_from(content)[0] if len(content) >= HEADER.size else 0
    end = before(start)
    if end is None:
        return start, b""
    found, at, checksum = bytearray(), 0, crc32(end)
    while at + HEADER.size <= len(content):
        position, size, claimed = HEADER.unpack_from(content, at)
        data = content[at + HEADER.size : at + HEADER.size + size]
        checksum = crc32(data, checksum)
        # Where the records of this round end, an older one, zeros or a torn one begins: each fails here.
        if not size or len(data) < size or position != start + len(found) or checksum != claimed:
            break
        found += data
        at += HEADER.size + size
    return start, bytes(found)
