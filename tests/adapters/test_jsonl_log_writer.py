"""What the writer of a log does at its limits, and what it says."""

import logging
from pathlib import Path

import pytest

from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.adapters.log.writer import SLOW_FLUSH_SECONDS, Buffering, warn
from agentforge.model import codec
from agentforge.model.errors import InvalidRequest, LogConflict, LogCorrupt, LogTooNew
from agentforge.testing.event_log_contract import large_event, lines_of, timer_event, timer_events

from .failing_disk import FailingDisk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def payloads(path: Path) -> int:
    return len(list(path.parent.glob("payloads/*")))


def test_full_buffer_is_written_without_waiting_for_the_disk(path: Path) -> None:
    disk = FailingDisk()
    with JsonlLog(path, Buffering(events=2), disk=disk).open() as writer:
        disk.calls.clear()
        for event in timer_events(2):
            writer.append(event)
        assert disk.calls == ["write"]


@pytest.mark.parametrize(("over", "stored"), [(0, 0), (1, 1)])
def test_data_above_the_limit_is_stored_beside_the_log(
    path: Path, monkeypatch: pytest.MonkeyPatch, over: int, stored: int
) -> None:
    data = codec.encode_fact(large_event(1).fact)
    monkeypatch.setattr(codec, "MAX_EVENT_BYTES", len(data) - over)
    with JsonlLog(path).open() as writer:
        writer.append(large_event(1))
    assert payloads(path) == stored


def test_line_that_no_reader_accepts_is_refused_and_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = codec.encode(timer_event(1), codec.GENESIS)[0]
    monkeypatch.setattr(codec, "MAX_EVENT_BYTES", 1)
    monkeypatch.setattr(codec, "MAX_LINE_BYTES", 1)
    with JsonlLog(path).open() as writer:
        with pytest.raises(InvalidRequest, match="too long for the log"):
            writer.append(timer_event(1))
        assert writer.head.seq == 0
        monkeypatch.setattr(codec, "MAX_EVENT_BYTES", len(line) - 1)
        monkeypatch.setattr(codec, "MAX_LINE_BYTES", len(line))
        writer.append(timer_event(1))
    assert path.read_bytes() == lines_of([timer_event(1)])


@pytest.mark.parametrize(
    ("seconds", "warnings"),
    [(SLOW_FLUSH_SECONDS, []), (0.125, ["event log flush took 125 ms"])],
)
def test_only_a_flush_above_the_limit_is_slow(path: Path, seconds: float, warnings: list[str]) -> None:
    now, said, disk = [0.0], list[str](), FailingDisk()

    def stall() -> None:
        now[0] += seconds

    disk.on_write = stall
    with JsonlLog(path, Buffering(monotonic=lambda: now[0], on_warning=said.append), disk=disk).open() as log:
        log.append(timer_event(1))
        log.flush()
        assert said == warnings


def test_warning_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    warn("the disk is slow")
    assert caplog.record_tuples == [("agentforge.adapters.log.writer", logging.WARNING, "the disk is slow")]


def test_refusals_say_what_to_do(path: Path) -> None:
    writer = JsonlLog(path).open()
    with pytest.raises(LogConflict) as conflict:
        writer.append(timer_event(2))
    assert conflict.value.hint == "number events starting from the writer's head"
    writer.close()
    with pytest.raises(InvalidRequest, match="the log is closed") as closed:
        writer.append(timer_event(1))
    assert closed.value.hint == "open it again"


def test_payload_that_is_lost_after_the_log_was_opened_is_damage(path: Path) -> None:
    with JsonlLog(path).open() as writer:
        writer.append(large_event(1))
    with JsonlLog(path).open() as writer:
        for payload in path.parent.glob("payloads/*"):
            payload.unlink()
        with pytest.raises(LogCorrupt, match=r"line 1: its payload .* is missing") as lost:
            list(writer.replay())
    assert lost.value.hint == "run `agentforge log verify`"


def test_intact_line_that_cannot_be_read_is_of_another_version(path: Path) -> None:
    line, _ = codec.encode(timer_event(1), codec.GENESIS)
    body = line[: -codec.SUFFIX_BYTES].replace(b'"retry-1"', b"1")
    digest = codec.computed_hash(body + b" " * codec.SUFFIX_BYTES, codec.GENESIS)
    path.write_bytes(body + b',"hash":"' + digest.encode() + b'"}\n')
    with JsonlLog(path).open() as writer, pytest.raises(LogTooNew, match="intact") as unknown:
        list(writer.replay())
    assert unknown.value.hint == "the run was written by a newer version of AgentForge: use that version"
