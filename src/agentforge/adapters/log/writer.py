"""The writing half of every log: numbers checked, lines chained, events buffered and committed in groups.

`append` only takes an event into memory; one `sync` makes any number of them durable with one write and
one wait. Any thread may call; calls run one after another.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import RLock

from msgspec import Struct

from agentforge.adapters.log.reader import Store
from agentforge.adapters.log.scan import Lines, Scan
from agentforge.legacy.upcaster import Upcaster
from agentforge.model import codec
from agentforge.model.errors import InvalidRequest, LogConflict, LogCorrupt, LogTooNew, StorageFailed
from agentforge.model.event import Event
from agentforge.ports.event_log import BufferHealth, Damage, Head, OriginalLines, TornTail

SLOW_FLUSH_SECONDS = 0.1


def warn(message: str) -> None:
    logging.getLogger(__name__).warning(message)


class Buffering(Struct, frozen=True):
    """When buffered events are written, and whom to tell when the disk is slow."""

    events: int = 100
    seconds: float = 1.0
    on_warning: Callable[[str], None] = warn
    monotonic: Callable[[], float] = time.monotonic


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
        self.original: OriginalLines | None = None
        self._take_over()

    def _take_over(self) -> None:
        """Judge what the log holds, and make it end where a line ends."""
        scan, store = Scan(), self._store
        scan.judge(store.chunks(0, store.length), store.load)
        if scan.is_whole_but_unended():
            # It may have been acted upon: only its newline was lost.
            store.write(b"\n")
            scan.judge((scan.rest, b"\n"), store.load)
        elif scan.torn_bytes:
            self.repaired = TornTail(scan.torn_bytes, store.keep_aside(scan.length))
            store.cut(scan.length)
        self.damage = tuple(scan.damage)
        if scan.original is not None:
            self.original = OriginalLines(scan.original.lines, scan.original.sha256)
        self._seq, self._hash, self._length = scan.head.seq, scan.hash, scan.length
        self._opened_length = self._length

    @property
    def head(self) -> Head:
        return Head(self._seq, self._hash, self._length)

    @property
    def health(self) -> BufferHealth:
        return BufferHealth(len(self._pending), self._flushed, self._flushes, round(self._slowest * 1000, 3))

    def replay(self) -> Iterator[Event]:
        # The chain was judged when the log was opened; this pass only decodes.
        damaged = frozenset(damage.line for damage in self.damage)
        upcaster, originals = Upcaster(), self.original.lines if self.original else 0
        number, load, decode = 0, self._store.load, codec.decode
        for batch in Lines().batches(self._store.chunks(0, self._opened_length)):
            for line in batch:
                number += 1
                if number <= originals:
                    # What can't be read of them was settled when the run was imported, or will be.
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
            if event.seq != self._seq + 1:
                raise LogConflict(
                    f"event {event.seq} can't follow event {self._seq}",
                    hint="number events from the writer's head",
                )
            line, digest = self._encode(event)
            if not self._pending:
                self._oldest = self._buffering.monotonic()
            self._pending.append(line)
            self._seq, self._hash = event.seq, digest
            self._length += len(line) + 1
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

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if not self._store.failure:
                    self._commit(wait=True)
            finally:
                self._store.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _encode(self, event: Event) -> tuple[bytes, str]:
        line, digest = codec.encode(event, self._hash)
        if len(line) <= codec.MAX_EVENT_BYTES:
            return line, digest
        data = codec.encode_fact(event.fact)
        if len(data) > codec.MAX_EVENT_BYTES:
            line, digest = codec.encode(event, self._hash, self._store.save(data))
        if len(line) > codec.MAX_LINE_BYTES:
            raise InvalidRequest(f"event {event.seq} has a session, cursor or trace id too long for the log")
        return line, digest

    def _commit(self, *, wait: bool) -> None:
        """One write for everything buffered, and one wait for the disk if asked."""
        pending, began = self._pending, self._buffering.monotonic()
        if pending:
            self._store.write(b"\n".join(pending) + b"\n")
            self._pending = []
            self._flushed += len(pending)
            self._flushes += 1
        if wait:
            self._store.sync()
        self._note_time(self._buffering.monotonic() - began)

    def _note_time(self, seconds: float) -> None:
        self._slowest = max(self._slowest, seconds)
        if seconds > SLOW_FLUSH_SECONDS:
            self._buffering.on_warning(f"event log flush took {seconds * 1000:.0f} ms")

    def _check_usable(self) -> None:
        if self._store.failure:
            raise StorageFailed(self._store.failure, hint="fix the disk, then resume the run")
        if self._closed:
            raise InvalidRequest("the log is closed", hint="open it again")


def _unreadable(line: bytes, number: int, error: codec.DamagedLine) -> LogCorrupt | LogTooNew:
    if codec.names_payload(line):
        return LogCorrupt(f"line {number}: {error}", hint="run `agentforge log verify`")
    # The chain says that the line is as it was written, so another version wrote it.
    return LogTooNew(
        f"line {number} is intact but can't be read: {error}",
        hint="the run was written by a newer version: use that one",
    )
