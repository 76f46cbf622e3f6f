"""Any single accident to a log is found, costs no more than the lines it touches, and invents nothing."""

import itertools
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.adapters.log.reader import CHUNK_BYTES, Scan
from agentforge.model import codec
from agentforge.model.errors import LogConflict, LogCorrupt
from agentforge.testing.event_log_contract import lines_of, timer_events
from agentforge.testing.memory_log import MemoryLog

_EVENTS = timer_events(6)
_LOG = lines_of(_EVENTS)


@given(st.integers(0, len(_LOG) - 1), st.integers(1, 255))
def test_any_single_byte_flip_in_any_line_is_detected(at: int, flip: int) -> None:
    hurt = _LOG[:at] + bytes([_LOG[at] ^ flip]) + _LOG[at + 1 :]
    reader = MemoryLog(hurt).reader()
    seen = list(reader.events())
    assert reader.damage or reader.torn
    assert all(event in _EVENTS for event in seen)
    # Two where a newline was lost, or where one came to lie in the hash that the next line hangs on.
    assert len(seen) >= len(_EVENTS) - (2 if b"\n" in (_LOG[at : at + 1], hurt[at : at + 1]) else 1)


@given(st.integers(0, len(_LOG)), st.integers(0, len(_LOG)))
def test_any_cut_out_stretch_is_detected(one: int, other: int) -> None:
    start, end = sorted((one, other))
    left = _LOG[:start] + _LOG[end:]
    reader = MemoryLog(left).reader()
    seen = list(reader.events())
    assert all(event in _EVENTS for event in seen)
    # Whole lines missing at the end leave a log that is sound in itself; only the kept head knows of them.
    assert _LOG.startswith(left) or reader.damage or reader.torn


@given(st.binary(max_size=300), st.integers(0, 6))
def test_any_garbage_between_lines_costs_no_event(garbage: bytes, after: int) -> None:
    lines = _LOG.splitlines(keepends=True)
    reader = MemoryLog(b"".join([*lines[:after], garbage, b"\n", *lines[after:]])).reader()
    assert list(reader.events()) == _EVENTS
    assert len(reader.damage) == garbage.count(b"\n") + 1


@given(st.binary(max_size=200))
def test_any_bytes_can_be_opened_and_written_to(data: bytes) -> None:
    log = MemoryLog(data)
    with log.open() as writer:
        damage = len(writer.damage)
        writer.append(timer_events(1, start=writer.head.seq + 1)[0])
    reader = log.reader()
    assert len(list(reader.events())) == 1
    assert len(reader.damage) == damage


def test_reading_takes_constant_memory(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    garbage = b"x" * codec.MAX_LINE_BYTES * 20 + b"\n"
    path.write_bytes(lines_of(timer_events(20_000)) + garbage)
    log = JsonlLog(path)
    tracemalloc.start()
    try:
        count = sum(1 for _ in log.reader().events())
        with log.open() as writer:
            replayed = sum(1 for _ in writer.replay())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == replayed == 20_000
    assert peak < 6 * codec.MAX_LINE_BYTES


def test_line_of_any_length_is_not_read_to_its_end() -> None:
    endless = itertools.repeat(bytes(CHUNK_BYTES))
    with pytest.raises(LogCorrupt, match="which AgentForge never writes") as caught:
        list(Scan().lines(endless))
    assert "agentforge rm" in caught.value.hint


_LINES = _LOG.splitlines(keepends=True)
_CHANGED = _LINES[2].replace(b"timer", b"Timer", 1)
_CHANGED_HERE = "doesn't match its hash: it was changed, or the line before it was"


@pytest.mark.parametrize(
    ("lines", "seen", "reasons"),
    [
        (
            [*_LINES[:2], b"one\n", b"two\n", *_LINES[4:]],
            [1, 2, 6],
            ["not an event: it doesn't start with a seq"] * 2 + [f"event 5 {_CHANGED_HERE}"],
        ),
        (
            [*_LINES[:2], *_LINES[4:]],
            [1, 2, 6],
            ["event 5 where 3 was expected: 2 events are missing before it"],
        ),
        (
            [*_LINES[:2], b"one\n", *_LINES[4:]],
            [1, 2, 6],
            [
                "not an event: it doesn't start with a seq",
                "event 5 where 4 was expected: 1 event is missing before it",
            ],
        ),
        (
            [*_LINES[:2], _LINES[1], *_LINES[2:]],
            [1, 2, 3, 4, 5, 6],
            ["event 2 where 3 was expected: repeated or out of order"],
        ),
        (
            [*_LINES[:2], b"one\n", b"\n", b"two\n", *_LINES[2:]],
            [1, 2, 3, 4, 5, 6],
            [
                "not an event: it doesn't start with a seq",
                "an empty line",
                "not an event: it doesn't start with a seq",
            ],
        ),
        ([*_LINES[:2], _CHANGED, *_LINES[3:]], [1, 2, 4, 5, 6], [f"event 3 {_CHANGED_HERE}"]),
    ],
)
def test_damage_is_told_and_costs_only_its_lines(
    lines: list[bytes], seen: list[int], reasons: list[str]
) -> None:
    reader = MemoryLog(b"".join(lines)).reader()
    assert [event.seq for event in reader.events()] == seen
    assert [known.reason for known in reader.damage] == reasons


def test_log_that_was_cut_is_to_be_read_from_the_beginning() -> None:
    reader = MemoryLog(_LOG).reader()
    list(reader.events())
    with pytest.raises(LogConflict) as error:
        list(MemoryLog(b"".join(_LINES[:3])).reader().events(after=reader.head))
    assert error.value.hint == "read it from the beginning"


def test_line_that_was_repeated_too_early_and_another_cost_no_event() -> None:
    reader = MemoryLog(b"".join([*_LINES[:2], _LINES[3], b"one\n", *_LINES[2:]])).reader()
    assert reader.torn is None
    assert list(reader.events()) == _EVENTS
    assert [known.reason for known in reader.damage] == [
        "event 4 where 3 was expected: 1 event is missing before it",
        "not an event: it doesn't start with a seq",
    ]


def test_overlong_line_is_told_with_its_size() -> None:
    size = 3 * codec.MAX_LINE_BYTES + 5
    long = b"x" * size
    reader = MemoryLog(b"".join([*_LINES[:2], long, b"\n", *_LINES[2:]])).reader()
    assert list(reader.events()) == _EVENTS
    (known,) = reader.damage
    assert known.reason == f"a line of {size} bytes exceeds the maximum of {codec.MAX_LINE_BYTES}"
    reader = MemoryLog(_LOG + long).reader()
    assert list(reader.events()) == _EVENTS
    assert reader.torn is not None
    assert reader.torn.bytes == size
    scan = Scan()
    assert len(list(scan.lines([_LOG + long]))) == len(_EVENTS)
    # Only its end is known.
    assert (scan.rest, scan.torn_bytes) == (b"", size)
