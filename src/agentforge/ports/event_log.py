"""The log of one run: any number of readers, one writer that holds the lease."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct

from agentforge.model.event import Event


class BufferHealth(Struct, frozen=True):
    events_buffered: int = 0
    events_flushed: int = 0
    flushes: int = 0
    slowest_flush_ms: float = 0.0


class Damage(Struct, frozen=True):
    """A line that is not an event or breaks the chain; lines count from 1 (after a known head: from its
    seq)."""

    line: int
    reason: str


class TornTail(Struct, frozen=True):
    """Bytes after the last newline: a write that was cut short."""

    bytes: int
    kept: str
    """Path of the saved copy; empty while only reading."""


class ShellLines(Struct, frozen=True):
    """The lines that the shell engine wrote before our first line."""

    lines: int
    sha256: str


class Head(Struct, frozen=True):
    """The end of the log: what the next event is chained to."""

    seq: int
    hash: str
    length: int
    """In bytes."""


class LogReader(Protocol):
    """Reads without the lease; a damaged or torn line is skipped and reported, never fatal."""

    def events(self, after: Head | None = None) -> Iterator[Event]:
        """The events after a known head, or all; raises LogConflict if the log no longer contains that
        head."""

    @property
    def damage(self) -> Sequence[Damage]:
        """The lines that the last `events` skipped."""

    @property
    def torn(self) -> TornTail | None:
        """The torn line that the last `events` ended in, or None."""

    @property
    def head(self) -> Head:
        """The head that the last `events` reached."""


class LogWriter(Protocol):
    """Holds the lease from `open` to `close`."""

    @property
    def head(self) -> Head:
        """Includes buffered events."""

    @property
    def health(self) -> BufferHealth: ...

    @property
    def repaired(self) -> TornTail | None:
        """The torn tail that opening cut off, or None."""

    @property
    def damage(self) -> Sequence[Damage]:
        """Damaged lines that the log already held; complete as soon as it is open."""

    @property
    def shell_lines(self) -> ShellLines | None:
        """The shell engine's lines at the start of the log, or None."""

    def replay(self) -> Iterator[Event]:
        """All intact events that the log contained when it was opened; raises LogTooNew."""

    def append(self, event: Event) -> None:
        """Buffer the event; a full buffer is flushed at once. Nothing is ever dropped."""

    def flush(self) -> None:
        """Write the buffer without waiting for the disk."""

    def flush_if_due(self) -> float | None:
        """Flush if the oldest buffered event has waited for the flush interval; cheap, for every tick.
        Returns the seconds after which to call again, or None if the buffer is empty."""

    def sync(self) -> None:
        """Write the buffer and wait for the disk: all appended events are durable when this returns."""

    def verify(self) -> None:
        """Raise LogConflict if the log is no longer where readers look for it, or was changed."""

    def close(self) -> None:
        """Sync, verify and release the lease, even if one of them fails."""


class EventLog(Protocol):
    def exists(self) -> bool: ...

    def is_held(self) -> bool:
        """Whether any process holds the lease now."""

    def reader(self) -> LogReader: ...

    def open(self) -> LogWriter:
        """Take the lease and repair a torn tail; raises RunActive if another engine holds the lease."""

    def hold(self) -> AbstractContextManager[None]:
        """Take the lease without opening the log, for example to move the run; raises RunActive like
        `open`."""
