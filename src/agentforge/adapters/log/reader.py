"""Reads the events of a log without its lease and in constant memory."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from agentforge.adapters.log.scan import EMPTY, TAIL_BYTES, Scan, ShellPrefix, continues
from agentforge.legacy.upcaster import BEGINNING, is_shell_log
from agentforge.model import codec
from agentforge.model.codec import Payload
from agentforge.model.errors import LogConflict, LogTooNew
from agentforge.model.event import Event
from agentforge.ports.event_log import Damage, Head, TornTail


class LogSnapshot(Protocol):
    """The log's bytes at one moment; later appends are not visible."""

    @property
    def length(self) -> int: ...

    def chunks(self, start: int, end: int) -> Iterator[bytes]: ...

    def load(self, payload: Payload) -> bytes:
        """Raises DamagedLine if the payload is missing or doesn't match."""
        ...


TakeSnapshot = Callable[[], AbstractContextManager[LogSnapshot]]


class Reader:
    """Each `events` call reads the log as of its first event; a line that is still being written counts as
    torn and is complete the next time."""

    def __init__(self, snapshot: TakeSnapshot) -> None:
        self._snapshot = snapshot
        self._scan = Scan()

    def events(self, after: Head | None = None) -> Iterator[Event]:
        start = after or EMPTY
        with self._snapshot() as snapshot:
            _check_head(snapshot, start)
            if start.length and _is_in_shell_lines(snapshot, start):
                # Such lines have no meaning without the preceding ones.
                yield from self._after_shell_lines(snapshot, start)
                return
            self._scan = scan = Scan(start)
            yield from self._read(snapshot, scan, start)

    def _read(self, snapshot: LogSnapshot, scan: Scan, start: Head) -> Iterator[Event]:
        load, decode = snapshot.load, codec.decode
        for line in scan.lines(snapshot.chunks(start.length, snapshot.length)):
            try:
                event = decode(line, load)
            except codec.DamagedLine as error:
                if scan.shell_prefix is not None and scan.is_at_shell_line:
                    yield from _upcast(scan, scan.shell_prefix, line)
                else:
                    scan.reject(str(error))
            except LogTooNew as error:
                scan.reject(error.message)
            else:
                yield event

    def _after_shell_lines(self, snapshot: LogSnapshot, start: Head) -> Iterator[Event]:
        self._scan = scan = Scan()
        for event in self._read(snapshot, scan, EMPTY):
            if event.seq > start.seq:
                yield event

    @property
    def damage(self) -> Sequence[Damage]:
        return tuple(self._scan.damage)

    @property
    def torn(self) -> TornTail | None:
        return TornTail(self._scan.torn_bytes, "") if self._scan.torn_bytes else None

    @property
    def head(self) -> Head:
        return self._scan.head

    @property
    def lines(self) -> int:
        """How many lines the last `events` read, including damaged ones."""
        return self._scan.number


def _upcast(scan: Scan, shell_prefix: ShellPrefix, line: bytes) -> list[Event]:
    try:
        return shell_prefix.events(line)
    except codec.DamagedLine as error:
        scan.reject(str(error))
        return []


def _is_in_shell_lines(snapshot: LogSnapshot, head: Head) -> bool:
    """Whether a head is among the lines of the shell engine."""
    if not is_shell_log(b"".join(snapshot.chunks(0, min(head.length, len(BEGINNING))))):
        return False
    tail = b"".join(snapshot.chunks(max(head.length - TAIL_BYTES, 0), head.length))
    return not codec.hash_of(tail[:-1])


def _check_head(snapshot: LogSnapshot, head: Head) -> None:
    tail = b"".join(snapshot.chunks(max(head.length - TAIL_BYTES, 0), min(head.length, snapshot.length)))
    if head.length > snapshot.length or not continues(tail, head):
        raise LogConflict(
            f"the log no longer holds event {head.seq} at byte {head.length}: it was cut or replaced",
            hint="read it from the beginning",
        )
