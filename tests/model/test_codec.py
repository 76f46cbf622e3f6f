"""Lines of the log: every event comes back as it was, and no accident to a line goes unseen."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.model import codec
from agentforge.model.codec import Payload
from agentforge.model.cursor import Cursor
from agentforge.model.errors import LogTooNew
from agentforge.model.event import Event
from agentforge.model.facts import (
    FACTS,
    AnyFact,
    CancelRequested,
    DelayStarted,
    ErrorOccurred,
    SessionRecovered,
    TimerFired,
)
from agentforge.model.failure import FailureKind

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_times = st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC))
_facts: st.SearchStrategy[AnyFact] = st.one_of(
    st.builds(TimerFired, _texts),
    st.builds(DelayStarted, _times),
    st.builds(SessionRecovered, st.integers(0, 2**31), _texts),
    st.builds(CancelRequested, _texts, st.none() | _texts),
    st.builds(ErrorOccurred, st.sampled_from(FailureKind), _texts, _texts, st.integers(0, 9)),
)
_cursors = st.none() | st.builds(Cursor, _texts, st.integers(1, 9), st.integers(0, 10**6), st.none() | _texts)
_events = st.builds(Event, st.integers(1, 2**53), _times, _texts, _texts, _facts, _cursors)
_hashes = st.text("0123456789abcdef", min_size=32, max_size=32)


def _no_payload(payload: Payload) -> bytes:
    raise AssertionError(f"there is no payload: {payload}")


_FIRED = Event(7, datetime(2026, 1, 15, tzinfo=UTC), "auth", "trace", TimerFired("retry"), Cursor("0", 1, 2))


def test_line_holds_the_event_its_number_and_its_hash() -> None:
    line, digest = codec.encode(_FIRED, codec.GENESIS)
    assert codec.decode(line, _no_payload) == _FIRED
    assert codec.chain(line, codec.GENESIS) == codec.computed_hash(line, codec.GENESIS) == digest
    assert (codec.hash_of(line), codec.seq_of(line), codec.names_payload(line)) == (digest, 7, False)
    damaged = b"x" + line[1:-3] + b"x"
    assert (codec.hash_of(damaged), codec.seq_of(damaged), codec.chain(damaged, codec.GENESIS)) == (
        "",
        None,
        "",
    )


def test_line_with_a_payload_holds_its_digest() -> None:
    line, _ = codec.encode(_FIRED, codec.GENESIS, Payload("ab" * 32, 2))
    assert codec.names_payload(line)
    assert codec.decode(line, lambda payload: codec.encode_fact(_FIRED.fact)) == _FIRED


@given(_events, _hashes)
def test_event_round_trips_through_its_line(event: Event, previous: str) -> None:
    line, digest = codec.encode(event, previous)
    assert codec.decode(line, _no_payload) == event
    assert codec.chain(line, previous) == codec.hash_of(line) == digest
    assert codec.seq_of(line) == event.seq
    assert b"\n" not in line
    assert not codec.names_payload(line)


@given(_events, _hashes)
def test_event_round_trips_through_its_payload(event: Event, previous: str) -> None:
    data = codec.encode_fact(event.fact)
    line, digest = codec.encode(event, previous, Payload("ab" * 32, len(data)))
    loaded = list[Payload]()

    def load(payload: Payload) -> bytes:
        loaded.append(payload)
        return data

    assert codec.decode(line, load) == event
    assert loaded == [Payload("ab" * 32, len(data))]
    assert codec.names_payload(line)
    assert codec.chain(line, previous) == digest


@given(_events, _hashes, st.data())
def test_any_changed_byte_of_a_line_is_detected(event: Event, previous: str, data: st.DataObject) -> None:
    line, _ = codec.encode(event, previous)
    at = data.draw(st.integers(0, len(line) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[at]))
    assert codec.chain(line[:at] + bytes([other]) + line[at + 1 :], previous) == ""


@given(_events, _hashes, _hashes)
def test_line_that_follows_another_line_is_detected(event: Event, previous: str, other: str) -> None:
    line, _ = codec.encode(event, previous)
    assert bool(codec.chain(line, other)) == (previous == other)


def test_line_is_one_json_object_with_the_documented_keys() -> None:
    at = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
    event = Event(7, at, "auth", "4bf9", TimerFired(timer="retry"), Cursor("0", 1, 3, "claude"))
    line, digest = codec.encode(event, codec.GENESIS)
    assert json.loads(line) == {
        "seq": 7,
        "type": "timer_fired",
        "timestamp": "2026-01-15T12:00:00Z",
        "session": "auth",
        "cursor": {"node_path": "0", "node_run": 1, "iteration": 3, "provider": "claude"},
        "data": {"timer": "retry"},
        "trace_id": "4bf9",
        "hash": digest,
    }


def test_every_fact_has_a_decoder_of_its_type() -> None:
    for name in FACTS:
        with pytest.raises(codec.DamagedLine, match="trace_id"):
            codec.decode(
                b'{"seq":1,"type":"%b","timestamp":"2026-01-15T12:00:00Z","session":"s","cursor":null,"data":null}'
                % name.encode(),
                _no_payload,
            )


def test_unknown_type_is_too_new_and_not_damaged() -> None:
    line = b'{"seq":9,"type":"teleported","data":{"to":"mars"}}'
    with pytest.raises(LogTooNew, match="event 9 has the unknown type 'teleported'"):
        codec.decode(line, _no_payload)


@pytest.mark.parametrize(
    "line",
    [b"", b"{}", b"[]", b"null", b"\xff", b'{"seq":1', b'{"seq":"1","type":"timer_fired","data":{}}'],
)
def test_line_that_is_not_an_event_is_damaged(line: bytes) -> None:
    with pytest.raises(codec.DamagedLine):
        codec.decode(line, _no_payload)


def test_line_with_neither_data_nor_payload_is_damaged() -> None:
    event = Event(1, datetime(2026, 1, 15, tzinfo=UTC), "s", "t", TimerFired(timer="x"))
    line, _ = codec.encode(event, codec.GENESIS)
    with pytest.raises(codec.DamagedLine, match="neither data nor a payload"):
        codec.decode(line.replace(b'{"timer":"x"}', b"null"), _no_payload)


@given(st.binary(max_size=80))
def test_hash_and_seq_of_garbage_are_missing_and_never_an_error(line: bytes) -> None:
    assert codec.hash_of(line) == ""
    codec.seq_of(line)
    assert codec.chain(line, codec.GENESIS) == ""


@given(_events, _hashes)
def test_computed_hash_is_the_one_that_an_intact_line_claims(event: Event, previous: str) -> None:
    line, digest = codec.encode(event, previous)
    assert codec.computed_hash(line, previous) == digest
    assert codec.computed_hash(line.replace(digest.encode(), b"0" * 32), previous) == digest
