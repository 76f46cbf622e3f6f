"""Reads the events of a log without its lease and in constant memory: splits its bytes into lines, and
verifies each by the hash chain. Shared by all log adapters."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import Protocol

from agentforge.legacy.upcaster import BEGINNING, Upcaster, is_event, is_shell_log
from agentforge.model import codec
from agentforge.model.codec import Payload
from agentforge.model.errors import LogConflict, LogCorrupt, LogTooNew
from agentforge.model.event import Event
from agentforge.ports.event_log import Damage, Head, TornTail

# A line that doesn't continue the chain is damage: reported once and skipped. The next line may then continue
# any hash that the damaged line leaves open: the one it claims (its body was edited), the one it should claim
# (its hash was edited), or the one before it (it was never part of the log).
#
# Lines written by the shell engine have no chain: they are returned as they are, and our first line continues
# the hash of all of them.

_HASH_CHARS = 32
EMPTY = Head(seq=0, hash=codec.GENESIS, length=0)
CHUNK_BYTES = 256 * 1024
MAX_DAMAGED_BYTES = 64 * 1024 * 1024
"""The longest damaged line that is skipped: reading a line of any length could take for ever."""
# How many bytes before a known head are needed to recognise that head.
TAIL_BYTES = codec.SUFFIX_BYTES + 1


class ShellPrefix:
    def __init__(self) -> None:
        self._sha = sha256()
        self._upcaster = Upcaster()
        self.lines = 0

    def add(self, line: bytes) -> None:
        self.lines += 1
        self._sha.update(line)
        self._sha.update(b"\n")

    def events(self, line: bytes) -> list[Event]:
        """The events of the line added last; raises DamagedLine. Must be called for every line or for
        none."""
        return self._upcaster.take(line, self.lines)

    @property
    def sha256(self) -> str:
        return self._sha.hexdigest()

    @property
    def hash(self) -> str:
        """The hash that our first line is chained to."""
        return self.sha256[:_HASH_CHARS]


def continues(tail: bytes, head: Head) -> bool:
    """Whether a log whose bytes before `head.length` end in `tail` can have that head."""
    if head.length == 0:
        return True
    # A damaged last line may have no hash; then only the length is checked.
    return tail[-1:] == b"\n" and codec.hash_of(tail[:-1]) in ("", head.hash)


class Lines:
    """Splits chunks into batches of lines in constant memory: only the end of an overlong line is kept."""

    def __init__(self) -> None:
        self.rest = b""
        self.dropped = 0
        """Bytes dropped from the first line of the next batch, or from `rest`."""

    def batches(self, chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
        for chunk in chunks:
            *lines, self.rest = (self.rest + chunk).split(b"\n")
            if lines:
                yield lines
                self.dropped = 0
            if len(self.rest) > codec.MAX_LINE_BYTES:
                self.dropped += len(self.rest) - codec.SUFFIX_BYTES
                self.rest = self.rest[-codec.SUFFIX_BYTES :]
            if self.dropped > MAX_DAMAGED_BYTES:
                raise LogCorrupt(
                    f"the log has a line of over {MAX_DAMAGED_BYTES:,} bytes, which AgentForge never writes",
                    hint="restore events.jsonl from a copy, or delete the run with `agentforge rm`",
                )


class Scan:
    """One pass over a log in constant memory. Its attributes describe the log up to the last line yielded."""

    __slots__ = (
        *("_last", "_lost", "_open", "_seq", "damage", "hash", "length", "number", "rest", "shell_prefix"),
        "torn_bytes",
    )

    def __init__(self, start: Head = EMPTY) -> None:
        self.number = start.seq
        self.length = start.length
        self.hash = start.hash
        self.damage: list[Damage] = []
        self.shell_prefix: ShellPrefix | None = None
        """The shell engine's lines before our first line."""
        self.torn_bytes = 0
        self.rest = b""
        """The torn line itself, unless it is too long."""
        self._seq = start.seq
        self._last = b""
        self._lost = 0
        self._open: tuple[str, ...] = ()

    @property
    def head(self) -> Head:
        return Head(self._last_seq() + self._lost, self.hash, self.length)

    def lines(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The intact lines."""
        source, chain = Lines(), codec.chain
        for batch in source.batches(chunks):
            self.length += source.dropped
            dropped = source.dropped
            for line in batch:
                self.number += 1
                self.length += len(line) + 1
                digest = chain(line, self.hash)
                if digest or (self._open and (digest := self._follows(line))):
                    self.hash = digest
                    self._last = line
                    if self._open:
                        self._lost, self._open = 0, ()
                    yield line
                elif self._may_be_shell_line(line):
                    self.shell_prefix = self.shell_prefix or ShellPrefix()
                    self.shell_prefix.add(line)
                    self.hash, self._seq = self.shell_prefix.hash, self.number
                    yield line
                else:
                    self._record_damage(line, dropped)
                dropped = 0
        self.torn_bytes = source.dropped + len(source.rest)
        self.rest = b"" if source.dropped else source.rest

    def check(self, chunks: Iterable[bytes], load: Callable[[Payload], bytes]) -> None:
        """Scan these bytes for damage, including payloads."""
        for line in self.lines(chunks):
            if self.is_at_shell_line or not codec.names_payload(line):
                continue
            try:
                codec.decode(line, load)
            except codec.DamagedLine as error:
                self.reject(str(error))
            except LogTooNew:
                continue  # Not damage; decoding the line reports it.

    def reject(self, reason: str) -> None:
        """Mark the line yielded last as damaged."""
        self.damage.append(Damage(self.number, reason))

    def lacks_only_newline(self) -> bool:
        """Whether the last line is complete except for its newline."""
        if self._may_be_shell_line(self.rest):
            return is_event(self.rest)
        return bool(self.rest) and bool(codec.chain(self.rest, self.hash) or self._follows(self.rest))

    @property
    def is_at_shell_line(self) -> bool:
        """Whether the line yielded last was written by the shell engine."""
        return self.shell_prefix is not None and self.shell_prefix.lines == self.number

    def _may_be_shell_line(self, line: bytes) -> bool:
        if self.shell_prefix is None:
            return self.number <= 1 and not self.damage and is_shell_log(line) and is_event(line)
        return not self._last and codec.seq_of(line) is None

    def _follows(self, line: bytes) -> str:
        return next((digest for hash in self._open if (digest := codec.chain(line, hash))), "")

    def _record_damage(self, line: bytes, dropped: int) -> None:
        self.damage.append(Damage(self.number, self._reason(line, dropped)))
        claimed, before = codec.hash_of(line), self._open[-1] if self._open else self.hash
        self._open = (codec.computed_hash(line, self.hash), before)
        self.hash = claimed or self.hash
        if not dropped and codec.seq_of(line) is not None:
            self._last, self._lost = line, 0
        else:
            self._lost += 1

    def _last_seq(self) -> int:
        return codec.seq_of(self._last) or self._seq

    def _reason(self, line: bytes, dropped: int) -> str:
        if dropped:
            return f"a line of {len(line) + dropped} bytes exceeds the maximum of {codec.MAX_LINE_BYTES}"
        if not line:
            return "an empty line"
        seq, last = codec.seq_of(line), self._last_seq()
        # Each unreadable line in between may or may not have been an event.
        expected = last + self._lost + 1
        if seq is None:
            return "not an event: it doesn't start with a seq"
        if not codec.hash_of(line):
            return f"event {seq} doesn't end in a hash"
        if seq > expected:
            missing = "1 event is" if seq - expected == 1 else f"{seq - expected} events are"
            return f"event {seq} where {expected} was expected: {missing} missing before it"
        if seq <= last:
            return f"event {seq} where {expected} was expected: repeated or out of order"
        return f"event {seq} doesn't match its hash: it was changed, or the line before it was"


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
            tail = b"".join(
                snapshot.chunks(max(start.length - TAIL_BYTES, 0), min(start.length, snapshot.length))
            )
            if start.length > snapshot.length or not continues(tail, start):
                raise LogConflict(
                    f"the log no longer holds event {start.seq} at byte {start.length}: "
                    "it was cut or replaced",
                    hint="read it from the beginning",
                )
            beginning = b"".join(snapshot.chunks(0, min(start.length, len(BEGINNING))))
            if is_shell_log(beginning) and not codec.hash_of(tail[:-1]):
                # The head is among the lines of the shell engine, which mean nothing without those before.
                read = self._read(snapshot, EMPTY)
                yield from (event for event in read if event.seq > start.seq)
            else:
                yield from self._read(snapshot, start)

    def _read(self, snapshot: LogSnapshot, start: Head) -> Iterator[Event]:
        self._scan = scan = Scan(start)
        load, decode = snapshot.load, codec.decode
        for line in scan.lines(snapshot.chunks(start.length, snapshot.length)):
            try:
                event = decode(line, load)
            except codec.DamagedLine as error:
                if scan.shell_prefix is None or not scan.is_at_shell_line:
                    scan.reject(str(error))
                    continue
                try:
                    upcast = scan.shell_prefix.events(line)
                except codec.DamagedLine as unreadable:
                    scan.reject(str(unreadable))
                else:
                    yield from upcast
            except LogTooNew as error:
                scan.reject(error.message)
            else:
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
