"""What is durable when a log is closed, which log a reader continues with, who holds it, and where payloads
may lie."""

import fcntl
import os
from pathlib import Path

import pytest

from agentforge.adapters.log import lease
from agentforge.adapters.log.jsonl_file import MAX_PAYLOAD, PayloadStore, payload_of, snapshot_of
from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.model.codec import DamagedLine, Payload
from agentforge.model.errors import InvalidRequest, LogConflict
from agentforge.system.disk import Disk, WriteRetry
from agentforge.testing.event_log_contract import lines_of, timer_event, timer_events

from .failing_disk import FailingDisk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def test_lease_that_was_closed_is_forgotten_and_closes_no_other_file(path: Path) -> None:
    held = lease.LogLease(lambda: os.open(path, os.O_RDWR | os.O_CREAT))
    for _ in range(2):
        held.close()
        assert held.fd < 0
    assert held not in lease._open


def test_missing_log_has_no_bytes(path: Path) -> None:
    with snapshot_of(str(path), PayloadStore(str(path.parent), Disk(), WriteRetry())) as found:
        assert (found.length, list(found.chunks(0, 1))) == (0, [])


def test_closing_waits_for_the_disk(path: Path) -> None:
    disk = FailingDisk()
    writer = JsonlLog(path, disk=disk).open()
    writer.append(timer_event(1))
    disk.calls.clear()
    writer.close()
    assert disk.calls == ["write", "sync"]


def test_closing_waits_for_what_was_only_flushed(path: Path) -> None:
    disk = FailingDisk()
    writer = JsonlLog(path, disk=disk).open()
    writer.append(timer_event(1))
    writer.flush()
    disk.calls.clear()
    writer.close()
    assert disk.calls == ["sync"]


def test_a_log_that_is_shorter_and_ends_in_a_damaged_line_is_not_the_one_that_was_read(path: Path) -> None:
    path.write_bytes(lines_of(timer_events(3)))
    reader = JsonlLog(path).reader()
    assert len(list(reader.events())) == 3
    head = reader.head
    path.write_bytes(path.read_bytes()[:-20] + b"\n")
    with pytest.raises(LogConflict):
        list(reader.events(after=head))


def test_a_log_whose_last_line_continues_is_not_the_one_that_was_read(path: Path) -> None:
    path.write_bytes(lines_of(timer_events(3)))
    reader = JsonlLog(path).reader()
    assert len(list(reader.events())) == 3
    head = reader.head
    path.write_bytes(path.read_bytes()[:-1] + b" and more\n")
    with pytest.raises(LogConflict):
        list(reader.events(after=head))


def test_probes_at_the_same_time_are_not_owners(path: Path) -> None:
    path.touch()
    with path.open() as probe:
        fcntl.flock(probe, fcntl.LOCK_SH)
        assert not lease.is_held(str(path))
        fcntl.flock(probe, fcntl.LOCK_EX)
        assert lease.is_held(str(path))


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a" * 63, "A" * 64, ""])
def test_a_payload_is_looked_for_by_a_hash_only(tmp_path: Path, name: str) -> None:
    store = PayloadStore(str(tmp_path / "payloads"), Disk(), WriteRetry())
    (tmp_path / "outside.json").write_bytes(b"{}")
    with pytest.raises(DamagedLine, match="the name of its payload is invalid"):
        store.load(Payload(name, 2))
    assert store.load(store.save(b"{}")) == b"{}"
    with pytest.raises(DamagedLine, match="is missing"):
        store.load(payload_of(b"[]"))


@pytest.mark.parametrize("size", [-1, MAX_PAYLOAD + 1, 1 << 60])
def test_a_payload_of_an_invalid_size_is_not_read(tmp_path: Path, size: int) -> None:
    store = PayloadStore(str(tmp_path), Disk(), WriteRetry())
    os.mkfifo(tmp_path / f"{'0' * 64}.json")
    with pytest.raises(DamagedLine, match="the size of its payload is invalid"):
        store.load(Payload("0" * 64, size))


def test_no_more_is_read_of_a_payload_than_its_line_says(tmp_path: Path) -> None:
    store = PayloadStore(str(tmp_path), Disk(), WriteRetry())
    payload = store.save(b"{}")
    os.truncate(tmp_path / f"{payload.sha256}.json", MAX_PAYLOAD)
    with pytest.raises(DamagedLine, match="exceed the limit of 2"):
        store.load(payload)


def test_an_event_that_no_reader_would_accept_is_not_written(tmp_path: Path) -> None:
    store = PayloadStore(str(tmp_path), Disk(), WriteRetry())
    with pytest.raises(InvalidRequest, match="at most") as refused:
        store.save(bytes(MAX_PAYLOAD + 1))
    assert refused.value.hint == "make the prompts of the pipeline shorter, or split it"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [0, MAX_PAYLOAD])
def test_the_smallest_and_the_largest_payload_are_written_and_read(tmp_path: Path, size: int) -> None:
    store = PayloadStore(str(tmp_path), Disk(), WriteRetry())
    assert store.load(store.save(bytes(size))) == bytes(size)
