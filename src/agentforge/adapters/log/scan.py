"""Bytes of a log to its intact lines, judging each by the chain. Shared by every adapter of the log.

A line that doesn't follow on the one before is damage: reported once and skipped. The next line may then
follow on any hash that the damaged one leaves open: the one it claims (its body was edited), the one it
should claim (its hash was edited), or the one before it (it was never part of the log).

A log that agent-pipelines' own engine began has no chain: its lines are given out as they are, and the
first line of ours follows on the hash of them all.
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256

from agentforge.legacy.upcaster import Upcaster, is_event, is_shell_log
from agentforge.model import codec
from agentforge.model.errors import LogTooNew
from agentforge.model.event import Event
from agentforge.ports.event_log import Damage, Head

_HASH_CHARS = 32
EMPTY = Head(seq=0, hash=codec.GENESIS, length=0)
CHUNK_BYTES = 256 * 1024
# As much of a log before a known head as it takes to recognise that head.
TAIL_BYTES = codec.SUFFIX_BYTES + 1


class OriginalPrefix:
    def __init__(self) -> None:
        self._sha = sha256()
        self._upcaster = Upcaster()
        self.lines = 0

    def take(self, line: bytes) -> None:
        self.lines += 1
        self._sha.update(line)
        self._sha.update(b"\n")

    def events(self, line: bytes) -> list[Event]:
        """What the line that was taken last says; raises DamagedLine. Asked for every line, or for none."""
        return self._upcaster.take(line, self.lines)

    @property
    def sha256(self) -> str:
        return self._sha.hexdigest()

    @property
    def hash(self) -> str:
        """What the first line of ours is chained to."""
        return self.sha256[:_HASH_CHARS]


def continues(tail: bytes, head: Head) -> bool:
    """Whether a log whose bytes before `head.length` end in `tail` can have had that head."""
    if head.length == 0:
        return True
    # A damaged last line may claim no hash; then only the length speaks for the head.
    return tail[-1:] == b"\n" and codec.hash_of(tail[:-1]) in ("", head.hash)


class Lines:
    """Chunks to batches of lines in constant memory: of a line too long to be one only the end is kept."""

    def __init__(self) -> None:
        self.rest = b""
        self.dropped = 0
        """Bytes left out of the first line of the coming batch, or of `rest`."""

    def batches(self, chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
        for chunk in chunks:
            *lines, self.rest = (self.rest + chunk).split(b"\n")
            if lines:
                yield lines
                self.dropped = 0
            if len(self.rest) > codec.MAX_LINE_BYTES:
                self.dropped += len(self.rest) - codec.SUFFIX_BYTES
                self.rest = self.rest[-codec.SUFFIX_BYTES :]


class Scan:
    """One pass over a log in constant memory. What it says about the log is as of the last line given out."""

    __slots__ = (
        *("_last", "_lost", "_open", "_seq", "damage", "hash", "length", "number", "original", "rest"),
        "torn_bytes",
    )

    def __init__(self, start: Head = EMPTY) -> None:
        self.number = start.seq
        self.length = start.length
        self.hash = start.hash
        self.damage: list[Damage] = []
        self.original: OriginalPrefix | None = None
        """What agent-pipelines' own engine wrote before the first line of ours."""
        self.torn_bytes = 0
        self.rest = b""
        """The torn line itself, unless it is too long to be one."""
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
                elif self._is_original(line):
                    yield line
                else:
                    self._take_damage(line, dropped)
                dropped = 0
        self.torn_bytes = source.dropped + len(source.rest)
        self.rest = b"" if source.dropped else source.rest

    def judge(self, chunks: Iterable[bytes], load: Callable[[codec.Payload], bytes]) -> None:
        """Take note of everything there is to say about these bytes, payloads included."""
        for line in self.lines(chunks):
            if self.is_at_original:
                continue
            if codec.names_payload(line) and (reason := _why_unloadable(line, load)):
                self.reject(reason)

    def reject(self, reason: str) -> None:
        """Count the line that was given out last as damage after all."""
        self.damage.append(Damage(self.number, reason))

    def is_whole_but_unended(self) -> bool:
        """Whether all that the last line lacks is its newline."""
        if self._may_be_original(self.rest):
            return is_event(self.rest)
        return bool(self.rest) and bool(codec.chain(self.rest, self.hash) or self._follows(self.rest))

    @property
    def is_at_original(self) -> bool:
        """Whether the line that was given out last is one of agent-pipelines' own engine."""
        return self.original is not None and self.original.lines == self.number

    def _may_be_original(self, line: bytes) -> bool:
        if self.original is None:
            return self.number <= 1 and not self.damage and is_shell_log(line) and is_event(line)
        return not self._last and codec.seq_of(line) is None

    def _is_original(self, line: bytes) -> bool:
        if not self._may_be_original(line):
            return False
        self.original = self.original or OriginalPrefix()
        self.original.take(line)
        self.hash, self._seq = self.original.hash, self.number
        return True

    def _follows(self, line: bytes) -> str:
        return next((digest for hash in self._open if (digest := codec.chain(line, hash))), "")

    def _take_damage(self, line: bytes, dropped: int) -> None:
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
            return f"a line of {len(line) + dropped} bytes; none may be longer than {codec.MAX_LINE_BYTES}"
        if not line:
            return "an empty line"
        seq, last = codec.seq_of(line), self._last_seq()
        # Unreadable lines in between may each have been an event, or not.
        expected = last + self._lost + 1
        if seq is None:
            return "not an event: it doesn't begin with a seq"
        if not codec.hash_of(line):
            return f"event {seq} doesn't end in a hash"
        if seq > expected:
            missing = "1 event is" if seq - expected == 1 else f"{seq - expected} events are"
            return f"event {seq} where {expected} was expected: {missing} missing before it"
        if seq <= last:
            return f"event {seq} where {expected} was expected: repeated or out of order"
        return f"event {seq} doesn't match its hash: it was changed, or the line before it was"


def _why_unloadable(line: bytes, load: Callable[[codec.Payload], bytes]) -> str:
    try:
        codec.decode(line, load)
    except codec.DamagedLine as error:
        return str(error)
    except LogTooNew:
        return ""  # Not damage; whoever decodes the line says so.
    return ""


def slices(data: bytes, start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, CHUNK_BYTES):
        yield data[at : min(at + CHUNK_BYTES, end)]
