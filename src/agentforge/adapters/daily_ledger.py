"""What a user's runs spend in a day: a ledger in the user's state folder, which all engines share."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from secrets import token_hex
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.model.errors import NOT_JSON, StorageFailed, UnusableFile
from agentforge.model.spending import DailyAnswer, plus
from agentforge.ports.host import Clock
from agentforge.ports.ledger import Money, Reservation
from agentforge.system import files
from agentforge.system.disk import Disk

# How it works. The file begins with a day and what was spent on it, and every reservation and settlement adds
# a line, under a lock that the kernel frees if its holder dies. A reservation is on the disk before it is
# granted. A settlement isn't waited for: without it, too much is reserved, never too little.
#
# What a crash of the writer leaves is a last line without an end, which nothing relied on: it is cut. All
# else that can't be read was changed by someone, and then nothing is known of the day. Nor is it if the file
# is missing: that it was there is known from a second file, made after it.
#
# The day is that of the clock, or the ledger's if that is later: a clock that is set back makes no new day. A
# reservation counts for the day on which it was made, so a new day begins with an empty file.

MAX_HEAD, MAX_BYTES = 256, 4 * 1024 * 1024
COMPACT_BYTES = 32 * 1024
"""From this size on, the file is replaced when half of it isn't needed any more."""


class _Head(Struct, frozen=True):
    day: date
    spent: Money
    id: str
    """Tells the file from those that were in its place before."""
    format: Literal[1] = 1


class _Settlement(Struct, frozen=True, tag="settle"):
    run: str
    key: str
    usd: Money


_LedgerLine = Reservation | _Settlement
_HEAD, _LINE = msgspec.json.Decoder(_Head), msgspec.json.Decoder(_LedgerLine)


class _Day:
    """What the file says."""

    def __init__(self, day: str, spent: float = 0.0) -> None:
        self.day = day
        self.spent = spent
        self.open: dict[tuple[str, str], Reservation] = {}

    def apply(self, line: _LedgerLine) -> None:
        known = self.open.pop((line.run, line.key), None)
        if isinstance(line, Reservation):
            self.open[line.run, line.key] = line
        elif known is not None:
            self.spent = plus(self.spent, line.usd)

    @property
    def content(self) -> bytes:
        head = _Head(date.fromisoformat(self.day), self.spent, token_hex(8))
        return b"".join(map(files.compact, (head, *self.open.values())))


class DailyLedger:
    def __init__(self, folder: str, clock: Clock, disk: Disk | None = None) -> None:
        self._folder = folder
        self._path = os.path.join(folder, "ledger.jsonl")
        self._begun = os.path.join(folder, "begun")
        self._clock = clock
        self._disk = disk or Disk()
        self._known: tuple[bytes, int, _Day] | None = None
        """The head of the file, how much of it was read, and what that says."""

    def reserve(self, asked: Reservation, least: float, cap_on: Callable[[str], float]) -> DailyAnswer:
        with self._opened() as (descriptor, latest):
            today = self._clock.now().astimezone().date().isoformat()
            day = latest if today <= latest.day else _Day(today)
            known = day.open.pop((asked.run, asked.key), None)
            reserved, cap = plus(*(one.usd for one in day.open.values())), cap_on(day.day)
            usd = min(asked.usd, plus(cap, -day.spent, -reserved))
            granted = usd if usd > 0 and usd >= least else 0.0
            asked = replace(asked, usd=granted)
            answer = DailyAnswer(day.day, cap, day.spent, reserved, granted)
            if granted:
                day.apply(asked)
            size = self._disk.size(descriptor)
            if day is not latest or (size >= COMPACT_BYTES and size >= 2 * len(day.content)):
                self._disk.replace(self._path, day.content)
            elif granted:
                self._append(descriptor, asked)
                self._disk.sync(descriptor)
            elif known is not None:
                self._append(descriptor, _Settlement(asked.run, asked.key, 0.0))
            return answer

    def settle(self, run: str, key: str, usd: float) -> None:
        with self._opened() as (descriptor, day):
            if (run, key) in day.open:
                self._append(descriptor, _Settlement(run, key, usd))

    def open(self) -> tuple[Reservation, ...]:
        with self._opened() as (_, day):
            return tuple(day.open.values())

    # -- the file

    @contextmanager
    def _opened(self) -> Iterator[tuple[int, _Day]]:
        try:
            if not files.is_dir(self._folder):
                self._make_folder()
            with files.locked(os.path.join(self._folder, "lock")), files.storage(self._path):
                descriptor = self._open()
                try:
                    yield descriptor, self._read(descriptor)
                finally:
                    os.close(descriptor)
        except UnusableFile as error:
            raise self._refused(error.message) from error
        except BaseException:
            self._known = None
            raise

    def _make_folder(self) -> None:
        if os.path.lexists(self._folder):
            raise self._refused(f"{self._folder} is a link or a file, not a folder")
        with files.storage(self._folder):
            self._disk.make_directories(self._folder)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND
        try:
            descriptor = self._disk.open(self._path, flags)
        except FileNotFoundError:
            if files.is_file(self._begun):
                raise self._refused(f"{self._path} is missing") from None
            files.remove_drafts(self._folder)
            self._disk.replace(self._path, _Day(date.min.isoformat()).content)
            descriptor = self._disk.open(self._path, flags)
        if os.fstat(descriptor).st_uid != os.geteuid():
            os.close(descriptor)
            raise self._refused(f"{self._path} belongs to another user")
        if self._known is None and not files.is_file(self._begun):
            files.create(self._begun)
        return descriptor

    def _read(self, descriptor: int) -> _Day:
        size = self._disk.size(descriptor)
        if size > MAX_BYTES:
            raise self._refused(f"{self._path} has more than {MAX_BYTES:,} bytes")
        head, newline, _ = os.pread(descriptor, MAX_HEAD, 0).partition(b"\n")
        try:
            if self._known is None or self._known[0] != head or size < self._known[1]:
                begin = _HEAD.decode(head if newline else b"")
                self._known = head, len(head) + 1, _Day(begin.day.isoformat(), begin.spent)
            _, length, day = self._known
            *lines, torn = os.pread(descriptor, size - length, length).split(b"\n")
            for line in lines:
                day.apply(_LINE.decode(line))
        except NOT_JSON as error:
            raise self._refused(f"{self._path} was changed or is incomplete") from error
        if torn:
            self._disk.truncate(descriptor, size - len(torn))
        self._known = head, size - len(torn), day
        return day

    def _append(self, descriptor: int, line: _LedgerLine) -> None:
        size = self._disk.size(descriptor)
        try:
            self._disk.write_all(descriptor, (files.compact(line),))
        except OSError:
            self._disk.truncate(descriptor, size)
            raise

    def _refused(self, why: str) -> StorageFailed:
        return StorageFailed(
            f"what was spent today is unknown: {why}",
            hint=f"restore the file, or remove {self._folder} to count this day from $0.00",
        )
