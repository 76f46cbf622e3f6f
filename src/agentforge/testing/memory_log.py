"""A log in memory, for tests and embedding: the bytes of `events.jsonl` without a file."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from agentforge.adapters.log.jsonl_file import payload_of, verified
from agentforge.adapters.log.reader import CHUNK_BYTES, Reader
from agentforge.adapters.log.writer import Buffering, Writer, warn
from agentforge.model.codec import Payload
from agentforge.model.errors import AgentForgeError, LogConflict, RunActive
from agentforge.ports.event_log import LogReader, LogWriter


class MemoryLog:
    """Exists as long as this object. `data` may be set between openings, to simulate a crash or an edit."""

    def __init__(
        self,
        data: bytes = b"",
        *,
        buffer_events: int = 100,
        flush_seconds: float = 1.0,
        on_warning: Callable[[str], None] = warn,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.data = data
        self.payloads: dict[str, bytes] = {}
        self.archived: dict[str, bytes] = {}
        self._holder: object | None = None
        self._buffering = Buffering(buffer_events, flush_seconds, on_warning, monotonic)

    def exists(self) -> bool:
        return bool(self.data) or self.is_held()

    def is_held(self) -> bool:
        return self._holder is not None

    def reader(self) -> LogReader:
        return Reader(self._snapshot)

    @contextmanager
    def hold(self) -> Iterator[None]:
        holder = object()
        self._take(holder)
        try:
            yield
        finally:
            self.free(holder)

    def open(self) -> LogWriter:
        store = _MemoryStore(self)
        self._take(store)
        try:
            return Writer(store, self._buffering)
        except BaseException:
            self.free(store)
            raise

    def _take(self, holder: object) -> None:
        if self.is_held():
            raise RunActive("the log is held by another writer", hint="close that one first")
        self._holder = holder

    def is_held_by(self, holder: object) -> bool:
        return self._holder is holder

    def free(self, holder: object) -> None:
        """Free the lease, unless another holder has taken it since."""
        if self.is_held_by(holder):
            self._holder = None

    def release(self) -> None:
        """Free the lease as the kernel does when an owner dies: buffered events are lost, and the writer of
        that owner writes no more."""
        self._holder = None

    def _snapshot(self) -> AbstractContextManager["_MemorySnapshot"]:
        return nullcontext(_MemorySnapshot(self))


def slices(data: bytes, start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, CHUNK_BYTES):
        yield data[at : min(at + CHUNK_BYTES, end)]


class _MemorySnapshot:
    def __init__(self, log: MemoryLog) -> None:
        self._data = log.data
        self._payloads = log.payloads
        self.length = len(log.data)

    def chunks(self, start: int, end: int) -> Iterator[bytes]:
        return slices(self._data, start, end)

    def load(self, payload: Payload) -> bytes:
        return verified(self._payloads.get(payload.sha256), payload)


class _MemoryStore:
    failure: AgentForgeError | None = None

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.length = len(log.data)

    def chunks(self, start: int, end: int) -> Iterator[bytes]:
        return slices(self._log.data, start, end)

    def load(self, payload: Payload) -> bytes:
        return verified(self._log.payloads.get(payload.sha256), payload)

    def write(self, data: bytes) -> None:
        self.verify()
        self._log.data += data
        self.length += len(data)

    def verify(self) -> None:
        if not self._log.is_held_by(self):
            raise LogConflict("the lease of the log was lost", hint="open it again")
        if len(self._log.data) != self.length:
            raise LogConflict(
                f"the log has {len(self._log.data)} bytes where {self.length} were expected: "
                "another writer wrote to it",
                hint="open it again",
            )

    def sync(self) -> None:
        """Memory needs no sync."""

    def save_tail(self, start: int) -> str:
        name = f"torn-{start}"
        self._log.archived[name] = self._log.data[start:]
        return name

    def cut(self, length: int) -> None:
        self._log.data = self._log.data[:length]
        self.length = length

    def save(self, data: bytes) -> Payload:
        payload = payload_of(data)
        self._log.payloads[payload.sha256] = data
        return payload

    def close(self) -> None:
        self._log.free(self)
