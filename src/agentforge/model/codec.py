"""Events to lines and back.

A line is one JSON object; its last key is a hash over the hash of the line before and its own bytes.
The chain detects accidents (a lost, doubled, swapped or edited line), not tampering.
"""

from collections.abc import Callable
from datetime import datetime
from hashlib import sha256

import msgspec
from msgspec import Raw, Struct

from agentforge.model.errors import LogTooNew
from agentforge.model.event import Cursor, Event
from agentforge.model.facts import FACTS, AnyFact

GENESIS = "0" * 32
MAX_EVENT_BYTES = 64 * 1024

_HASH_KEY = b',"hash":"'
_HASH_CHARS = 32
# What follows an event's own bytes: the key, the digest, a quote and the closing brace.
_SUFFIX_BYTES = len(_HASH_KEY) + _HASH_CHARS + 2


class Payload(Struct, frozen=True):
    """Data too large for a line: a file beside the log, named by its content."""

    sha256: str
    size: int


class _Line(Struct):
    seq: int
    type: str
    timestamp: datetime
    session: str
    cursor: Cursor | None
    data: Raw
    trace_id: str


class _PayloadData(Struct):
    payload: Payload


_encoder = msgspec.json.Encoder()
_line_decoder = msgspec.json.Decoder(_Line)
_fact_decoders = {name: msgspec.json.Decoder(kind) for name, kind in FACTS.items()}
_payload_decoder = msgspec.json.Decoder(_PayloadData)
_PAYLOAD_START = b'{"payload":{"sha256":'


def encode_fact(fact: AnyFact) -> bytes:
    return _encoder.encode(fact)


def encode(event: Event, data: bytes, previous: str) -> tuple[bytes, str]:
    """The event's line without its newline, and its hash. `data` is the encoded fact or a payload's name."""
    body = _encoder.encode(
        _Line(event.seq, event.fact.TYPE, event.at, event.session, event.cursor, Raw(data), event.trace_id)
    )
    digest = _digest(body, previous)
    return b'%s,"hash":"%s"}' % (body[:-1], digest.encode()), digest


def payload_data(payload: Payload) -> bytes:
    return _encoder.encode(_PayloadData(payload))


def hash_of(line: bytes) -> str:
    """The hash that a line claims for itself; empty if it has none."""
    start = len(line) - _SUFFIX_BYTES
    if start < 1 or line[start : start + len(_HASH_KEY)] != _HASH_KEY:
        return ""
    return line[start + len(_HASH_KEY) : -2].decode("ascii", "replace")


def is_intact(line: bytes, previous: str) -> bool:
    """Whether the line follows on the one whose hash is `previous`, with its bytes unchanged."""
    claimed = hash_of(line)
    return bool(claimed) and _digest(line[:-_SUFFIX_BYTES] + b"}", previous) == claimed


def decode(line: bytes, load: Callable[[Payload], bytes]) -> Event:
    """The event on a line; `load` fetches data that lies beside the log. Raises DamagedLine or LogTooNew."""
    try:
        raw = _line_decoder.decode(line)
        decoder = _fact_decoders.get(raw.type)
        if decoder is None:
            raise LogTooNew(
                f"event {raw.seq} has the unknown type {raw.type!r}",
                hint="the run was written by a newer version: use that one",
            )
        data = bytes(raw.data)
        if data.startswith(_PAYLOAD_START):
            data = load(_payload_decoder.decode(data).payload)
        fact = decoder.decode(data)
    except msgspec.DecodeError as error:
        raise DamagedLine(str(error)) from error
    return Event(raw.seq, raw.timestamp, raw.session, raw.trace_id, fact, raw.cursor)


class DamagedLine(ValueError):
    """A line that isn't an event, or whose data doesn't fit its type."""


def _digest(body: bytes, previous: str) -> str:
    return sha256(previous.encode() + body).hexdigest()[:_HASH_CHARS]
