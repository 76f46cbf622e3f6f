"""Events to lines and back.

A line is one JSON object; its last key is a hash over the hash of the line before and its own bytes.
The chain detects accidents (a lost, doubled, swapped or edited line), not tampering.
"""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import Any, Union

import msgspec
from msgspec import Raw, Struct

from agentforge.model.cursor import Cursor
from agentforge.model.errors import NOT_JSON, LogTooNew
from agentforge.model.event import Event
from agentforge.model.facts import FACTS, AnyFact

# The hash is at the end of a line and covers its bytes as they were written. So a reader can check the
# chain without decoding anything, and without a canonical form of JSON: the line of another version, with
# fields that this one doesn't know, is as intact as any other. Only then is it decoded, and a line that
# is intact and can't be read was written by another version, while one that doesn't continue the chain is
# damaged: a person is told which.
#
# The key of the number comes first and that of the payload last, so that both are found without decoding,
# too.

GENESIS = "0" * 32
MAX_EVENT_BYTES = 64 * 1024
# Data is capped and everything around it is small, so no engine ever writes a longer line.
MAX_LINE_BYTES = 1024 * 1024

_HASH_KEY = b',"hash":"'
_HASH_CHARS = 32
# After an event's own bytes: the key, the digest, a quote and the closing brace.
SUFFIX_BYTES = len(_HASH_KEY) + _HASH_CHARS + 2
_HEX = frozenset(b"0123456789abcdef")
_SEQ_KEY = b'{"seq":'


class Payload(Struct, frozen=True):
    """Data too large for a line: a file beside the log, named by its content."""

    sha256: str
    size: int


class DamagedLine(ValueError):
    """A line that isn't an event, or whose data doesn't fit its type."""


class _Line(Struct, omit_defaults=True):
    seq: int
    type: str
    timestamp: datetime
    session: str
    cursor: Cursor | None
    data: Any
    trace_id: str
    payload: Payload | None = None
    """The last field, so that a single byte shows whether a line has one. `data` is then null."""


def _line_of(name: str, fact: type[AnyFact]) -> type[Struct]:
    """The line of one event type. A union of these decodes a line and its fact in one pass."""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("seq", int),
        ("timestamp", datetime),
        ("session", str),
        ("cursor", Cursor | None),
        ("data", fact | None),
        ("trace_id", str),
        ("payload", Payload | None, None),
    ]
    return msgspec.defstruct(f"_Line_{name}", fields, tag_field="type", tag=name)


_encoder = msgspec.json.Encoder()


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    """Made when a line is decoded: a program that only reads the state starts faster without it."""
    lines = tuple(_line_of(name, fact) for name, fact in FACTS.items())
    return msgspec.json.Decoder(Union[lines])  # noqa: UP007 - made at run time


@cache
def _fact_decoder(name: str) -> msgspec.json.Decoder[AnyFact]:
    return msgspec.json.Decoder(FACTS[name])


class _Envelope(Struct):
    seq: int
    type: str
    data: Raw


_envelope_decoder = msgspec.json.Decoder(_Envelope)


def encode_fact(fact: AnyFact) -> bytes:
    return _encoder.encode(fact)


def encode(event: Event, previous: str, payload: Payload | None = None) -> tuple[bytes, str]:
    """The event's line without its newline, and its hash. With a payload, the line refers to it instead
    of holding the data."""
    data = event.fact if payload is None else None
    line = _Line(
        event.seq, event.fact.TYPE, event.at, event.session, event.cursor, data, event.trace_id, payload
    )
    body = _encoder.encode(line)[:-1]
    digest = _digest(body, previous)
    return b'%b,"hash":"%b"}' % (body, digest.encode()), digest


def decode(line: bytes, load: Callable[[Payload], bytes]) -> Event:
    """The event on a line; `load` fetches data stored beside the log. Raises DamagedLine or LogTooNew."""
    try:
        raw = _decoder().decode(line)
        fact = raw.data
        if fact is None:
            fact = _load_fact(raw, load)
    except RecursionError as error:
        raise DamagedLine("its data is nested too deeply") from error
    except NOT_JSON as error:
        raise _decode_error(line, error) from error
    if defect := fact.defect(raw.session):
        raise DamagedLine(defect)
    return Event(raw.seq, raw.timestamp, raw.session, raw.trace_id, fact, raw.cursor)


def chain(line: bytes, previous: str) -> str:
    """The line's hash if it is intact and follows the line whose hash is `previous`, else an empty
    string."""
    # Written out rather than through `_digest`: this runs for every line of every log.
    digest = sha256(previous.encode() + line[:-SUFFIX_BYTES]).hexdigest()[:_HASH_CHARS]
    return digest if line[-SUFFIX_BYTES:] == b',"hash":"%b"}' % digest.encode() else ""


def computed_hash(line: bytes, previous: str) -> str:
    """The hash that a line should have; used to check the lines after a damaged one."""
    return _digest(line[:-SUFFIX_BYTES], previous)


def hash_of(line: bytes) -> str:
    """The hash stored in a line, or an empty string."""
    claimed = line[-SUFFIX_BYTES + len(_HASH_KEY) : -2]
    if line[-SUFFIX_BYTES:] != _HASH_KEY + claimed + b'"}' or not _HEX.issuperset(claimed):
        return ""
    return claimed.decode()


def seq_of(line: bytes) -> int | None:
    """The sequence number of a line, even if the rest of it is damaged."""
    number = line[len(_SEQ_KEY) : len(_SEQ_KEY) + 20].partition(b",")[0]
    return int(number) if line.startswith(_SEQ_KEY) and number.isdigit() else None


def names_payload(line: bytes) -> bool:
    """Whether an intact line's data is stored beside the log."""
    return line[-SUFFIX_BYTES - 1 : -SUFFIX_BYTES] == b"}"


def _load_fact(raw: Any, load: Callable[[Payload], bytes]) -> AnyFact:
    if raw.payload is None:
        raise DamagedLine("it has neither data nor a payload")
    name: str = raw.__struct_config__.tag
    return _fact_decoder(name).decode(load(raw.payload))


def _decode_error(line: bytes, error: Exception) -> Exception:
    """DamagedLine, or LogTooNew if only the event type is unknown to this version."""
    try:
        envelope = _envelope_decoder.decode(line)
    except NOT_JSON:
        return DamagedLine(str(error))
    if envelope.type in FACTS:
        return DamagedLine(str(error))
    return LogTooNew(
        f"event {envelope.seq} has the unknown type {envelope.type!r}",
        hint="the run was written by a newer version of agentforge; use that version",
    )


def _digest(body: bytes, previous: str) -> str:
    return sha256(previous.encode() + body).hexdigest()[:_HASH_CHARS]
