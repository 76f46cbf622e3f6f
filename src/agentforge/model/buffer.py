"""How the log's buffer does, for `status`."""

from msgspec import Struct


class BufferHealth(Struct, frozen=True):
    events_buffered: int = 0
    events_flushed: int = 0
    flushes: int = 0
    slowest_flush_ms: float = 0.0
