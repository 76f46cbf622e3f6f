"""The log of one run: any number of readers, one writer that holds the lease."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from agentforge.model.event import Event


class BufferHealth(Struct, frozen=True):
    events_buffered: int = 0
    events_flushed: int = 0
    flushes: int = 0
    slowest_flush_ms: float = 0.0


class Damage(Struct, frozen=True):
    """A line that is no event or breaks the chain; lines count from 1 (after a known head: from its seq)."""

    line: int
    reason: str


class TornTail(Struct, frozen=True):
    """Bytes after the last newline: a write that was cut short."""

    bytes: int
    kept: str
    """Where they were put aside; empty while only reading."""


class OriginalLines(Struct, frozen=True):
    """What agent-pipelines' own engine wrote before the first line of ours."""

    lines: int
    sha256: str


class Head(Struct, frozen=True):
    """How far the log goes: what the next event is chained to."""

    seq: int
    hash: str
    length: int
    """In bytes."""


class LogReader(Protocol):
    """Reads without the lease; a damaged or torn line is skipped and reported, never fatal."""

    def events(self, after: Head | None = None) -> Iterator[Event]:
        """The events after a known head, or all; raises LogConflict if the log isn't that one any more."""
        ...

    @property
    def damage(self) -> Sequence[Damage]:
        """What was skipped by the last `events`."""
        ...

    @property
    def torn(self) -> TornTail | None:
        """Whether the last `events` ended in a torn line."""
        ...

    @property
    def head(self) -> Head:
        """The head that the last `events` reached."""
        ...


class LogWriter(Protocol):
    """Holds the lease from `open` to `close`."""

    @property
    def head(self) -> Head:
        """Of everything appended, buffered or not."""
        ...

    @property
    def health(self) -> BufferHealth: ...

    @property
    def repaired(self) -> TornTail | None:
        """The torn tail that opening cut off, if any."""
        ...

    @property
    def damage(self) -> Sequence[Damage]:
        """Damaged lines that the log already held; complete as soon as it is open."""
        ...

    @property
    def original(self) -> OriginalLines | None:
        """The lines of another engine that the log begins with, if it does."""
        ...

    def replay(self) -> Iterator[Event]:
        """Everything intact that the log held when it was opened; raises LogTooNew."""
        ...

    def append(self, event: Event) -> None:
        """Take the event into the buffer; a full buffer is flushed at once. Nothing is ever dropped."""
        ...

    def flush(self) -> None:
        """Write the buffer without waiting for the disk."""
        ...

    def flush_if_due(self) -> float | None:
        """Flush if the oldest buffered event has waited for the flush interval; cheap, for every tick.
        Returns the seconds after which to call again, or nothing while nothing is buffered."""
        ...

    def sync(self) -> None:
        """Write the buffer and wait for the disk: what was appended is durable when this returns."""
        ...

    def close(self) -> None:
        """Sync and give the lease back, also when the sync fails."""
        ...


class EventLog(Protocol):
    def exists(self) -> bool: ...

    def is_held(self) -> bool:
        """Whether somebody holds the lease now."""
        ...

    def reader(self) -> LogReader: ...

    def open(self) -> LogWriter:
        """Take the lease and repair a torn tail; raises RunActive if somebody else drives this run."""
        ...
