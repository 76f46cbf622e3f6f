"""The writing half of every log: checks numbers, chains lines, buffers events and commits them in groups.

`append` only buffers an event in memory; one `sync` makes any number of them durable with one write and
one wait. Thread-safe: calls are serialized.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import RLock
from typing import Protocol

from msgspec import Struct

from agentforge.adapters.log.reader import Lines, LogSnapshot, Scan
from agentforge.legacy.upcaster import Upcaster
from agentforge.model import codec
from agentforge.model.codec import Payload
from agentforge.model.errors import AgentForgeError, InvalidRequest, LogConflict, LogCorrupt, LogTooNew
from agentforge.model.event import Event
from agentforge.ports.event_log import BufferHealth, Damage, Head, ShellLines, TornTail

# How it works. `append` gives an event its place in the chain at once, in memory; the bytes follow in groups.
# The head therefore is ahead of the file, and the file is ahead of the disk. Who acts on an event calls
# `sync` first (runtime/journal.py decides when); who only shows one waits for no one.
#
# Invariants:
# - The file holds a prefix of what was appended, in order, and ends with a newline, also after any crash: a
#   write is all or nothing (jsonl_file.py), and what a power failure tears is at the end, where `_repair`
#   deals with it.
# - A torn last line that lacks nothing but its newline is kept, not cut off: it was complete, so its engine
#   may have synced it and acted on it. Anything else at the end never counted: it is saved beside the log and
#   cut off.
# - After a failed sync, or a failed write that can't be undone, this writer accepts nothing any more
#   (`Store.failure`). To retry a sync proves nothing: the kernel reports an error once and may have dropped
#   the pages.
#
# A line that doesn't continue the chain in the middle of the log is damage, and no crash explains it. It is
# never repaired: a person decides, with `--accept-damage`.

SLOW_FLUSH_SECONDS = 0.1


def warn(message: str) -> None:
    import logging  # Not needed to read a log.

    logging.getLogger(__name__).warning(message)


class Store(LogSnapshot, Protocol):
    """The log's bytes while its lease is held."""

    @property
    def failure(self) -> AgentForgeError | None:
        """Why this store is no longer writable; None while it is usable."""
        ...

    def write(self, data: bytes) -> None:
        """Append all of it or nothing; raises StorageFailed, or LogConflict if another process wrote."""
        ...

    def sync(self) -> None:
        """Wait until all writes are durable."""
        ...

    def verify(self) -> None:
        """Raise LogConflict if the log is no longer where readers look for it, or was changed."""
        ...

    def save_tail(self, start: int) -> str:
        """Copy everything from `start` to another file, durably; returns its path."""
        ...

    def cut(self, length: int) -> None:
        """Truncate the log to a length, durably."""
        ...

    def save(self, data: bytes) -> Payload:
        """Store data beside the log; durable when this returns."""
        ...

    def close(self) -> None:
        """Release the lease."""
        ...


class Buffering(Struct, frozen=True):
    """When buffered events are written, and where to report a slow disk."""

    events: int = 100
    seconds: float = 1.0
    on_warning: Callable[[str], None] = warn
    monotonic: Callable[[], float] = time.monotonic


DEFAULT = Buffering()


class Writer:
    """Holds the store, and with it the lease, until `close`."""

    def __init__(self, store: Store, buffering: Buffering) -> None:
        self._store = store
        self._buffering = buffering
        self._lock = RLock()
        self._pending: list[bytes] = []
        self._oldest = 0.0
        self._flushed = self._flushes = 0
        self._slowest = 0.0
        self._closed = False
        self.repaired: TornTail | None = None
        self.damage: Sequence[Damage] = ()
        self.shell_lines: ShellLines | None = None
        self._repair()

    def _repair(self) -> None:
        """Scan the log for damage, and repair its tail so that it ends with a newline."""
        scan, store = Scan(), self._store
        scan.check(store.chunks(0, store.length), store.load)
        if scan.lacks_only_newline():
            # Only its newline was lost, so the event may already have had effects: keep it.
            store.write(b"\n")
            scan.check((scan.rest, b"\n"), store.load)
        elif scan.torn_bytes:
            self.repaired = TornTail(scan.torn_bytes, store.save_tail(scan.length))
            store.cut(scan.length)
        self.damage = tuple(scan.damage)
        if scan.shell_prefix is not None:
            self.shell_lines = ShellLines(scan.shell_prefix.lines, scan.shell_prefix.sha256)
        self.head = Head(scan.head.seq, scan.hash, scan.length)
        self._opened_length = scan.length

    @property
    def health(self) -> BufferHealth:
        return BufferHealth(len(self._pending), self._flushed, self._flushes, round(self._slowest * 1000, 3))

    def replay(self) -> Iterator[Event]:
        # The chain was verified when the log was opened; this pass only decodes.
        damaged = frozenset(damage.line for damage in self.damage)
        upcaster, shell_line_count = Upcaster(), self.shell_lines.lines if self.shell_lines else 0
        number, load, decode = 0, self._store.load, codec.decode
        for batch in Lines().batches(self._store.chunks(0, self._opened_length)):
            for line in batch:
                number += 1
                if number <= shell_line_count:
                    # Unreadable ones are handled when the run is imported.
                    with suppress(codec.DamagedLine):
                        yield from upcaster.take(line, number)
                    continue
                if number in damaged:
                    continue
                try:
                    event = decode(line, load)
                except codec.DamagedLine as error:
                    raise _unreadable(line, number, error) from error
                yield event

    def append(self, event: Event) -> None:
        with self._lock:
            self._check_usable()
            head = self.head
            if event.seq != head.seq + 1:
                raise LogConflict(
                    f"event {event.seq} can't follow event {head.seq}",
                    hint="number events starting from the writer's head",
                )
            # Before anything changes: an event that is refused here leaves the writer as it was.
            line, digest = self._encode(event)
            if not self._pending:
                self._oldest = self._buffering.monotonic()
            self._pending.append(line)
            self.head = Head(event.seq, digest, head.length + len(line) + 1)
            if len(self._pending) >= self._buffering.events:
                self._commit(wait=False)

    def flush(self) -> None:
        with self._lock:
            self._check_usable()
            self._commit(wait=False)

    def flush_if_due(self) -> float | None:
        if not self._pending:
            return None
        left = self._oldest + self._buffering.seconds - self._buffering.monotonic()
        if left > 0:
            return left
        self.flush()
        return None

    def sync(self) -> None:
        with self._lock:
            self._check_usable()
            self._commit(wait=True)

    def verify(self) -> None:
        with self._lock:
            self._check_usable()
            self._store.verify()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if not self._store.failure:
                    self._commit(wait=True)
                    self._store.verify()
            finally:
                self._store.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _encode(self, event: Event) -> tuple[bytes, str]:
        line, digest = codec.encode(event, self.head.hash)
        if len(line) <= codec.MAX_EVENT_BYTES:
            return line, digest
        data = codec.encode_fact(event.fact)
        if len(data) > codec.MAX_EVENT_BYTES:
            line, digest = codec.encode(event, self.head.hash, self._store.save(data))
        if len(line) > codec.MAX_LINE_BYTES:
            raise InvalidRequest(f"event {event.seq} has a session, cursor or trace id too long for the log")
        return line, digest

    def _commit(self, *, wait: bool) -> None:
        """Write everything buffered at once, and wait for the disk if asked."""
        pending, began = self._pending, self._buffering.monotonic()
        if pending:
            self._store.write(b"\n".join(pending) + b"\n")
            # Only now: if the write failed, they are still to be written, and the head already counts them.
            self._pending = []
            self._flushed += len(pending)
            self._flushes += 1
        if wait:
            self._store.sync()
        seconds = self._buffering.monotonic() - began
        self._slowest = max(self._slowest, seconds)
        if seconds > SLOW_FLUSH_SECONDS:
            self._buffering.on_warning(f"event log flush took {seconds * 1000:.0f} ms")

    def _check_usable(self) -> None:
        if self._store.failure:
            raise self._store.failure
        if self._closed:
            raise InvalidRequest("the log is closed", hint="open it again")


def _unreadable(line: bytes, number: int, error: codec.DamagedLine) -> LogCorrupt | LogTooNew:
    if codec.names_payload(line):
        return LogCorrupt(f"line {number}: {error}", hint="run `agentforge log verify`")
    # The chain proves that the line is unchanged, so another version wrote it.
    return LogTooNew(
        f"line {number} is intact but can't be read: {error}",
        hint="the run was written by a newer version of AgentForge: use that version",
    )
