"""Where a log's bytes lie: the seam between what every log does (chain, buffer, judge) and how it is kept."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from agentforge.model.codec import Payload


class Snapshot(Protocol):
    """The log's bytes as they were at one moment; later appends don't show."""

    @property
    def length(self) -> int: ...

    def chunks(self, start: int, end: int) -> Iterator[bytes]: ...

    def load(self, payload: Payload) -> bytes:
        """Raises DamagedLine if it is missing or isn't what the line says."""
        ...


TakeSnapshot = Callable[[], AbstractContextManager[Snapshot]]


class Store(Snapshot, Protocol):
    """The log's bytes while its lease is held."""

    @property
    def failure(self) -> str:
        """Why nothing may be written through this store any more; empty while it is sound."""
        ...

    def write(self, data: bytes) -> None:
        """Append all of it or nothing; raises StorageFailed, or LogConflict if somebody else wrote."""
        ...

    def sync(self) -> None:
        """Wait until what was written is durable."""
        ...

    def keep_aside(self, start: int) -> str:
        """Copy everything from `start` elsewhere, durably; where."""
        ...

    def cut(self, length: int) -> None:
        """Cut the log off at a length, durably."""
        ...

    def save(self, data: bytes) -> Payload:
        """Keep data beside the log; durable when this returns."""
        ...

    def close(self) -> None:
        """Give the lease back."""
        ...
