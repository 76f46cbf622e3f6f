"""The contract of the event log port. Derive a test class, override `harness`, and run all of it.

class TestMyLog(EventLogContract):
    @pytest.fixture
    def harness(self, tmp_path):
        return MyHarness(tmp_path)
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

import pytest

from agentforge.model import codec
from agentforge.model.cursor import Cursor
from agentforge.model.errors import InvalidRequest, LogConflict, LogTooNew, RunActive
from agentforge.model.event import Event
from agentforge.model.facts import SessionRecovered, TimerFired
from agentforge.ports.event_log import EventLog, Head

EMPTY = Head(seq=0, hash=codec.GENESIS, length=0)
_NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


class LogHarness(Protocol):
    """One log, with access to its bytes, to inspect and damage them."""

    def log(
        self,
        *,
        buffer_events: int = 100,
        flush_seconds: float = 1.0,
        monotonic: Callable[[], float] | None = None,
    ) -> EventLog:
        """The log with these settings; every call gives the same log."""
        ...

    @property
    def data(self) -> bytes:
        """The bytes of its lines."""
        ...

    def put(self, data: bytes) -> None:
        """Replace its bytes, to simulate damage."""
        ...

    def payloads(self) -> dict[str, bytes]:
        """Its payloads, by sha256."""
        ...

    def put_payload(self, name: str, data: bytes | None) -> None:
        """Replace a payload, or remove it."""
        ...


def timer_event(seq: int, text: str = "retry") -> Event:
    """A small event whose text may be anything."""
    fact = TimerFired(timer=f"{text}-{seq}")
    return Event(seq, _NOON + timedelta(seconds=seq), "auth", "0af7651916cd43dd", fact, Cursor("0", 1, seq))


def timer_events(count: int, start: int = 1) -> list[Event]:
    return [timer_event(seq) for seq in range(start, start + count)]


def large_event(seq: int, size: int = codec.MAX_EVENT_BYTES) -> Event:
    """An event whose data doesn't fit on a line."""
    return Event(seq, _NOON, "auth", "0af7651916cd43dd", SessionRecovered(pid=seq, host="h" * size))


def lines_of(events: list[Event], start: Head = EMPTY) -> bytes:
    """The bytes of a log with these events."""
    lines, previous = [], start.hash
    for event in events:
        line, previous = codec.encode(event, previous)
        lines.append(line + b"\n")
    return b"".join(lines)


def fill(harness: LogHarness, events: list[Event]) -> Head:
    writer = harness.log().open()
    for event in events:
        writer.append(event)
    writer.close()
    return writer.head


class EventLogContract:
    @pytest.fixture
    def harness(self) -> LogHarness:
        raise NotImplementedError("override the `harness` fixture")

    # Reading and writing

    def test_log_that_was_never_written_is_empty(self, harness: LogHarness) -> None:
        log, reader = harness.log(), harness.log().reader()
        assert not log.exists()
        assert not log.is_held()
        assert list(reader.events()) == []
        assert (reader.head, reader.torn, list(reader.damage)) == (EMPTY, None, [])

    def test_synced_events_are_read_back_in_order(self, harness: LogHarness) -> None:
        events = timer_events(5)
        writer = harness.log().open()
        for event in events:
            writer.append(event)
        writer.sync()
        reader = harness.log().reader()
        assert list(reader.events()) == events
        assert reader.head == writer.head
        assert harness.data == lines_of(events)
        writer.close()

    def test_buffered_events_show_once_they_are_flushed(self, harness: LogHarness) -> None:
        writer = harness.log().open()
        writer.append(timer_event(1))
        assert list(harness.log().reader().events()) == []
        assert writer.head.seq == 1
        writer.flush()
        assert list(harness.log().reader().events()) == [timer_event(1)]
        writer.close()

    def test_full_buffer_is_flushed_at_once_and_nothing_is_dropped(self, harness: LogHarness) -> None:
        writer = harness.log(buffer_events=3).open()
        for event in timer_events(7):
            writer.append(event)
        assert list(harness.log().reader().events()) == timer_events(6)
        assert (writer.health.events_buffered, writer.health.events_flushed) == (1, 6)
        writer.close()
        assert list(harness.log().reader().events()) == timer_events(7)

    def test_event_buffer_is_flushed_when_the_interval_has_elapsed(self, harness: LogHarness) -> None:
        now = [100.0]
        writer = harness.log(flush_seconds=2.0, monotonic=lambda: now[0]).open()
        assert writer.flush_if_due() is None
        writer.append(timer_event(1))
        now[0] += 1.5
        writer.append(timer_event(2))
        assert writer.flush_if_due() == pytest.approx(0.5)
        assert harness.data == b""
        now[0] += 0.5
        assert writer.flush_if_due() is None
        assert harness.data == lines_of(timer_events(2))
        writer.close()

    def test_event_out_of_sequence_is_refused(self, harness: LogHarness) -> None:
        writer = harness.log().open()
        with pytest.raises(LogConflict, match="event 2 can't follow event 0"):
            writer.append(timer_event(2))
        writer.append(timer_event(1))
        writer.close()
        assert list(harness.log().reader().events()) == [timer_event(1)]

    def test_reopened_log_continues_its_chain(self, harness: LogHarness) -> None:
        head = fill(harness, timer_events(3))
        writer = harness.log().open()
        assert writer.head == head
        assert list(writer.replay()) == timer_events(3)
        writer.append(timer_event(4))
        assert list(writer.replay()) == timer_events(3)
        writer.close()
        assert harness.data == lines_of(timer_events(4))

    def test_closing_syncs_and_a_closed_writer_refuses(self, harness: LogHarness) -> None:
        writer = harness.log().open()
        writer.append(timer_event(1))
        writer.close()
        writer.close()
        assert list(harness.log().reader().events()) == [timer_event(1)]
        with pytest.raises(InvalidRequest, match="closed"):
            writer.append(timer_event(2))

    # The lease

    def test_second_writer_is_refused_while_the_first_holds_the_lease(self, harness: LogHarness) -> None:
        writer = harness.log().open()
        assert harness.log().is_held()
        with pytest.raises(RunActive, match="held"):
            harness.log().open()
        writer.append(timer_event(1))
        writer.close()
        assert not harness.log().is_held()
        harness.log().open().close()

    def test_write_by_another_writer_is_a_conflict(self, harness: LogHarness) -> None:
        fill(harness, timer_events(2))
        writer = harness.log().open()
        writer.append(timer_event(3))
        harness.put(harness.data + b"{}\n")
        with pytest.raises(LogConflict, match="wrote to"):
            writer.flush()
        with pytest.raises(LogConflict):
            writer.close()
        assert not harness.log().is_held()

    # Reading from a head

    def test_events_after_a_head(self, harness: LogHarness) -> None:
        head = fill(harness, timer_events(3))
        reader = harness.log().reader()
        assert list(reader.events(after=head)) == []
        writer = harness.log().open()
        writer.append(timer_event(4))
        writer.sync()
        assert list(reader.events(after=head)) == [timer_event(4)]
        assert reader.head == writer.head
        assert list(reader.events(after=EMPTY)) == timer_events(4)
        writer.close()

    def test_head_is_that_of_the_last_event_read(self, harness: LogHarness) -> None:
        fill(harness, timer_events(3))
        reader = harness.log().reader()
        events = reader.events()
        next(events)
        assert reader.head.seq == 1
        assert list(reader.events(after=reader.head)) == timer_events(2, start=2)

    @pytest.mark.parametrize("change", ["cut", "other line", "gone"])
    def test_log_that_lost_a_head_is_a_conflict(self, harness: LogHarness, change: str) -> None:
        head = fill(harness, timer_events(3))
        other = lines_of([*timer_events(2), timer_event(3, "rETRY")])
        harness.put({"cut": harness.data[:-1], "other line": other, "gone": b""}[change])
        with pytest.raises(LogConflict, match="no longer holds event 3"):
            list(harness.log().reader().events(after=head))

    # Torn tails

    def test_torn_at_every_byte_of_the_last_two_lines(self, harness: LogHarness) -> None:
        events = timer_events(4)
        whole = lines_of(events)
        for cut in range(len(lines_of(events[:2])), len(whole) + 1):
            harness.put(whole[:cut])
            writer = harness.log().open()
            kept = [
                event for count, event in enumerate(events, 1) if len(lines_of(events[:count])) - 1 <= cut
            ]
            assert list(writer.replay()) == kept
            assert list(writer.damage) == []
            torn = cut - len(lines_of(kept))
            assert (writer.repaired.bytes if writer.repaired else 0) == max(torn, 0)
            writer.append(timer_event(len(kept) + 1, "next"))
            writer.close()
            reader = harness.log().reader()
            assert list(reader.events()) == [*kept, timer_event(len(kept) + 1, "next")]
            assert (list(reader.damage), reader.torn) == ([], None)

    def test_event_that_only_lost_its_newline_is_kept(self, harness: LogHarness) -> None:
        harness.put(lines_of(timer_events(2))[:-1])
        writer = harness.log().open()
        assert writer.repaired is None
        assert list(writer.replay()) == timer_events(2)
        writer.close()
        assert harness.data == lines_of(timer_events(2))

    def test_reader_reports_a_torn_line_and_leaves_it(self, harness: LogHarness) -> None:
        harness.put(lines_of(timer_events(2)) + b'{"seq":3,"ty')
        before = harness.data
        reader = harness.log().reader()
        assert list(reader.events()) == timer_events(2)
        assert reader.torn is not None
        assert (reader.torn.bytes, reader.torn.kept) == (12, "")
        assert harness.data == before

    def test_zeros_left_by_a_power_cut_are_a_torn_line(self, harness: LogHarness) -> None:
        harness.put(lines_of(timer_events(2)) + bytes(4096))
        writer = harness.log().open()
        assert writer.repaired is not None
        assert (writer.repaired.bytes, bool(writer.repaired.kept)) == (4096, True)
        writer.close()
        assert harness.data == lines_of(timer_events(2))

    # Damage

    def _read(self, harness: LogHarness) -> tuple[list[int], list[tuple[int, str]]]:
        reader = harness.log().reader()
        seqs = [event.seq for event in reader.events()]
        writer = harness.log().open()
        assert [event.seq for event in writer.replay()] == seqs
        assert list(writer.damage) == list(reader.damage)
        writer.close()
        return seqs, [(damage.line, damage.reason) for damage in reader.damage]

    @pytest.mark.parametrize(
        ("garbage", "reason"),
        [
            (b"", "an empty line"),
            (b"\xff\xfe garbage", "not an event"),
            (b"{}", "not an event"),
            (b'{"seq":3,"type":"timer_fired"}', "event 3 doesn't end in a hash"),
            (b"x" * (codec.MAX_LINE_BYTES * 2), "exceeds the maximum"),
        ],
        ids=["empty", "garbage", "object", "no hash", "huge"],
    )
    def test_line_that_is_not_an_event_is_skipped_and_reported(
        self, harness: LogHarness, garbage: bytes, reason: str
    ) -> None:
        lines = lines_of(timer_events(4)).splitlines(keepends=True)
        harness.put(b"".join([*lines[:2], garbage + b"\n", *lines[2:]]))
        seqs, damage = self._read(harness)
        assert seqs == [1, 2, 3, 4]
        assert [line for line, _ in damage] == [3]
        assert reason in damage[0][1]

    def test_edited_line_in_the_middle_is_skipped_and_reported(self, harness: LogHarness) -> None:
        harness.put(lines_of(timer_events(5)).replace(b"retry-3", b"retry-9"))
        seqs, damage = self._read(harness)
        assert seqs == [1, 2, 4, 5]
        assert [line for line, _ in damage] == [3]
        assert "event 3 doesn't match its hash" in damage[0][1]

    def test_lost_lines_are_reported_where_they_are_missing(self, harness: LogHarness) -> None:
        lines = lines_of(timer_events(6)).splitlines(keepends=True)
        harness.put(b"".join([*lines[:1], *lines[3:]]))
        seqs, damage = self._read(harness)
        assert seqs == [1, 5, 6]
        assert damage == [(2, "event 4 where 2 was expected: 2 events are missing before it")]

    def test_duplicate_line_counts_once(self, harness: LogHarness) -> None:
        lines = lines_of(timer_events(3)).splitlines(keepends=True)
        harness.put(b"".join([*lines[:2], lines[1], lines[2]]))
        seqs, damage = self._read(harness)
        assert seqs == [1, 2, 3]
        assert damage == [(3, "event 2 where 3 was expected: repeated or out of order")]

    def test_swapped_lines_are_found(self, harness: LogHarness) -> None:
        lines = lines_of(timer_events(5)).splitlines(keepends=True)
        harness.put(b"".join([lines[0], lines[2], lines[1], *lines[3:]]))
        seqs, damage = self._read(harness)
        assert seqs == [1, 2, 5]
        assert damage == [
            (2, "event 3 where 2 was expected: 1 event is missing before it"),
            (4, "event 4 where 3 was expected: 1 event is missing before it"),
        ]

    def test_damaged_last_line_is_not_torn_and_the_chain_continues_after_it(
        self, harness: LogHarness
    ) -> None:
        harness.put(lines_of(timer_events(3)).replace(b"retry-3", b"retry-9"))
        writer = harness.log().open()
        assert [damage.line for damage in writer.damage] == [3]
        assert writer.repaired is None
        assert writer.head.seq == 3
        writer.append(timer_event(4))
        writer.close()
        assert self._read(harness)[0] == [1, 2, 4]
        assert len(self._read(harness)[1]) == 1

    def test_number_of_an_unreadable_last_line_is_not_reused(self, harness: LogHarness) -> None:
        harness.put(lines_of(timer_events(2)) + b"garbage\n")
        writer = harness.log().open()
        assert writer.head.seq == 3
        writer.append(timer_event(4))
        writer.close()
        assert self._read(harness) == ([1, 2, 4], [(3, "not an event: it doesn't start with a seq")])

    def test_unknown_type_is_reported_by_the_reader_and_stops_the_replay(self, harness: LogHarness) -> None:
        line, _ = codec.encode(timer_event(1), codec.GENESIS)
        body = line[: -codec.SUFFIX_BYTES].replace(b"timer_fired", b"teleported!")
        digest = codec.computed_hash(body + b" " * codec.SUFFIX_BYTES, codec.GENESIS)
        harness.put(body + b',"hash":"' + digest.encode() + b'"}\n')
        reader = harness.log().reader()
        assert list(reader.events()) == []
        assert [damage.reason for damage in reader.damage] == ["event 1 has the unknown type 'teleported!'"]
        writer = harness.log().open()
        with pytest.raises(LogTooNew, match="unknown type"):
            list(writer.replay())
        writer.close()

    # Payloads

    def test_large_event_is_stored_beside_the_log(self, harness: LogHarness) -> None:
        events = [timer_event(1), large_event(2), timer_event(3)]
        fill(harness, events)
        assert len(harness.data) < codec.MAX_EVENT_BYTES
        assert list(harness.payloads().values()) == [codec.encode_fact(events[1].fact)]
        assert list(harness.log().reader().events()) == events
        writer = harness.log().open()
        assert list(writer.replay()) == events
        writer.close()

    @pytest.mark.parametrize("loss", ["missing", "changed", "shorter"])
    def test_lost_or_changed_payload_is_damage_of_its_line(self, harness: LogHarness, loss: str) -> None:
        fill(harness, [timer_event(1), large_event(2), timer_event(3)])
        ((name, data),) = harness.payloads().items()
        harness.put_payload(name, {"missing": None, "changed": data[:-3] + b'x"}', "shorter": b""}[loss])
        seqs, damage = self._read(harness)
        assert seqs == [1, 3]
        assert [line for line, _ in damage] == [2]
        assert "payload" in damage[0][1]

    # Size

    def test_large_log_of_10000_events_is_persisted_without_loss(self, harness: LogHarness) -> None:
        events = timer_events(10_000)
        head = fill(harness, events)
        reader = harness.log().reader()
        assert list(reader.events()) == events
        assert reader.head == head
