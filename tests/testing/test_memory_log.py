"""The in-memory log keeps the port's contract in full."""

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from agentforge.model.errors import LogConflict
from agentforge.ports.event_log import EventLog
from agentforge.testing.event_log_contract import (
    EventLogContract,
    LogHarness,
    lines_of,
    timer_event,
    timer_events,
)
from agentforge.testing.memory_log import MemoryLog


class MemoryHarness:
    def __init__(self) -> None:
        self._log = MemoryLog()

    def log(
        self,
        *,
        buffer_events: int = 100,
        flush_seconds: float = 1.0,
        monotonic: Callable[[], float] | None = None,
    ) -> EventLog:
        if (buffer_events, flush_seconds, monotonic) != (100, 1.0, None):
            self._log = MemoryLog(
                self._log.data,
                buffer_events=buffer_events,
                flush_seconds=flush_seconds,
                monotonic=monotonic or time.monotonic,
            )
        return self._log

    @property
    def data(self) -> bytes:
        return self._log.data

    def put(self, data: bytes) -> None:
        self._log.data = data

    def payloads(self) -> dict[str, bytes]:
        return dict(self._log.payloads)

    def put_payload(self, name: str, data: bytes | None) -> None:
        if data is None:
            del self._log.payloads[name]
        else:
            self._log.payloads[name] = data


class TestMemoryLog(EventLogContract):
    @pytest.fixture
    def harness(self) -> LogHarness:
        return MemoryHarness()


def test_memory_log_starts_from_given_bytes() -> None:
    log = MemoryLog(lines_of(timer_events(2)))
    assert log.exists()
    assert list(log.reader().events()) == timer_events(2)


def test_memory_log_after_its_owner_died_holds_what_was_flushed() -> None:
    log = MemoryLog()
    writer = log.open()
    writer.append(timer_event(1))
    writer.flush()
    writer.append(timer_event(2))
    log.release()
    assert [event.seq for event in log.open().replay()] == [1]


@pytest.mark.parametrize("is_taken", [False, True])
def test_memory_log_takes_nothing_from_the_writer_of_an_owner_that_died(is_taken: bool) -> None:
    log = MemoryLog()
    late = log.open()
    log.release()
    if is_taken:
        log.open()
    with pytest.raises(LogConflict, match="the lease of the log was lost"):
        late.verify()
    late.append(timer_event(1))
    with pytest.raises(LogConflict):
        late.sync()
    with suppress(LogConflict):
        late.close()
    assert log.data == b""
    assert log.is_held() is is_taken


def test_memory_log_keeps_its_torn_tail() -> None:
    log = MemoryLog(lines_of(timer_events(1)) + b'{"seq"')
    repaired = log.open().repaired
    assert repaired is not None
    assert log.archived[repaired.kept] == b'{"seq"'
