"""The JSONL log on disk failures, and the order of its disk operations."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge.adapters.log.jsonl_log import JsonlLog, verify
from agentforge.adapters.log.writer import Buffering
from agentforge.model.errors import LogConflict, StorageFailed
from agentforge.testing.event_log_contract import large_event, lines_of, timer_event, timer_events

from .failing_disk import FailingDisk, no_space

_RETRIES = 4


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
def sleeps() -> list[float]:
    return []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


@pytest.fixture
def log(path: Path, disk: FailingDisk, sleeps: list[float]) -> JsonlLog:
    return JsonlLog(path, disk=disk, sleep=sleeps.append)


def test_group_commit_is_one_write_and_one_fsync(log: JsonlLog, disk: FailingDisk) -> None:
    with log.open() as writer:
        writer.sync()
        disk.calls.clear()
        for event in timer_events(20):
            writer.append(event)
        writer.sync()
        assert disk.calls == ["write", "sync"]
        writer.sync()
        assert disk.calls == ["write", "sync"]


def test_flush_writes_without_waiting_and_the_next_sync_waits(log: JsonlLog, disk: FailingDisk) -> None:
    with log.open() as writer:
        writer.append(timer_event(1))
        disk.calls.clear()
        writer.flush()
        assert disk.calls == ["write"]
        writer.sync()
        assert disk.calls == ["write", "sync"]


def test_first_sync_makes_writes_of_an_earlier_owner_durable(
    path: Path, log: JsonlLog, disk: FailingDisk
) -> None:
    path.write_bytes(lines_of(timer_events(2)))
    with log.open() as writer:
        disk.calls.clear()
        writer.sync()
        assert disk.calls == ["sync"]


def test_new_log_has_a_durable_name_before_anything_is_written(log: JsonlLog, disk: FailingDisk) -> None:
    with log.open() as writer:
        writer.append(timer_event(1))
        writer.sync()
    assert disk.calls.index("sync_directory") < disk.calls.index("write")


def test_payload_is_durable_before_the_line_that_names_it(log: JsonlLog, disk: FailingDisk) -> None:
    with log.open() as writer:
        disk.calls.clear()
        writer.append(large_event(1))
        writer.sync()
    folder = ["make_directory", "sync_directory"]
    payload = ["open", "write", "sync", "rename", "sync_directory"]
    above = ["sync_directory"]
    assert disk.calls == [*above, *folder, *payload, "write", "sync"]


def test_name_of_a_folder_of_payloads_is_synced_once_although_it_exists(
    path: Path, log: JsonlLog, disk: FailingDisk
) -> None:
    """An engine that was killed may have created it."""
    path.with_name("payloads").mkdir(parents=True)
    with log.open() as writer:
        disk.calls.clear()
        writer.append(large_event(1))
        writer.append(large_event(2))
    payload = ["open", "write", "sync", "rename", "sync_directory"]
    assert disk.calls[: 2 * len(payload) + 1] == ["sync_directory", *payload, *payload]


def test_name_of_a_log_is_synced_although_it_has_events(path: Path, log: JsonlLog, disk: FailingDisk) -> None:
    """An engine that restored it may have been killed before it synced the name."""
    path.write_bytes(lines_of(timer_events(2)))
    with log.open():
        assert disk.calls == ["sync_directory", "open", "sync_directory"]


@pytest.mark.parametrize("room", range(0, 400, 7))
def test_disk_full_in_the_middle_of_a_line_leaves_whole_lines_and_loses_nothing(
    path: Path, log: JsonlLog, disk: FailingDisk, sleeps: list[float], room: int
) -> None:
    writer = log.open()
    writer.append(timer_event(1))
    writer.sync()
    disk.room = room
    for event in timer_events(3, start=2):
        writer.append(event)
    with pytest.raises(StorageFailed, match=r"can't write to the log .*events\.jsonl") as failed:
        writer.sync()
    assert "space" in failed.value.hint
    assert ("bytes were written" in failed.value.message) == (room > 0)
    assert len(sleeps) == _RETRIES
    assert sleeps == sorted(sleeps)
    assert path.read_bytes() == lines_of(timer_events(1))
    assert writer.health.events_buffered == 3

    disk.room = None
    writer.close()
    assert path.read_bytes() == lines_of(timer_events(4))


def test_partial_write_is_cut_off(path: Path, log: JsonlLog, disk: FailingDisk, sleeps: list[float]) -> None:
    writer = log.open()
    writer.append(timer_event(1))
    writer.sync()
    writer.append(timer_event(2))
    disk.fail_halfway = OSError(errno.EIO, "Input/output error")
    with pytest.raises(StorageFailed, match="Input/output error"):
        writer.sync()
    assert len(sleeps) == _RETRIES
    assert path.read_bytes() == lines_of(timer_events(1))
    disk.fail_halfway = None
    writer.close()
    assert path.read_bytes() == lines_of(timer_events(2))


def test_disk_write_that_fails_for_a_moment_is_retried_with_backoff(
    path: Path, disk: FailingDisk, sleeps: list[float]
) -> None:
    def wait(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 2:
            disk.room = None

    with JsonlLog(path, disk=disk, sleep=wait).open() as writer:
        disk.room = 50
        writer.append(timer_event(1))
        writer.sync()
        assert path.read_bytes() == lines_of(timer_events(1))
    assert len(sleeps) == 2
    assert sleeps[0] < sleeps[1]


def test_full_disk_on_a_full_buffer_keeps_the_event(path: Path, disk: FailingDisk) -> None:
    writer = JsonlLog(path, Buffering(events=2), disk=disk, sleep=lambda _: None).open()
    disk.room = 10
    writer.append(timer_event(1))
    with pytest.raises(StorageFailed):
        writer.append(timer_event(2))
    disk.room = None
    writer.close()
    assert path.read_bytes() == lines_of(timer_events(2))


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_refusal_that_does_not_pass_is_not_retried(
    log: JsonlLog, disk: FailingDisk, sleeps: list[float], code: int
) -> None:
    writer = log.open()
    writer.append(timer_event(1))
    disk.fail["write"] = OSError(code, "refused")
    with pytest.raises(StorageFailed, match="refused") as failed:
        writer.flush()
    assert failed.value.hint
    assert sleeps == []
    disk.fail.clear()
    writer.close()


def test_failed_fsync_is_never_retried_and_breaks_the_writer(
    path: Path, log: JsonlLog, disk: FailingDisk
) -> None:
    writer = log.open()
    writer.append(timer_event(1))
    disk.fail["sync"] = OSError(errno.EIO, "Input/output error")
    with pytest.raises(StorageFailed, match="can't make the log durable"):
        writer.sync()
    disk.fail.clear()
    disk.calls.clear()
    later: list[Callable[[], object]] = [lambda: writer.append(timer_event(2)), writer.flush, writer.sync]
    for call in later:
        with pytest.raises(StorageFailed, match="can't make the log durable") as error:
            call()
        assert error.value.hint == "fix the disk, then resume the run"
    writer.close()
    assert disk.calls == []
    assert not log.is_held()
    assert path.read_bytes() == lines_of(timer_events(1))


def test_half_line_that_cannot_be_cut_off_breaks_the_writer_and_is_repaired_on_reopening(
    path: Path, log: JsonlLog, disk: FailingDisk
) -> None:
    writer = log.open()
    writer.append(timer_event(1))
    writer.sync()
    writer.append(timer_event(2))
    disk.room = 30
    disk.fail["truncate"] = OSError(errno.EIO, "Input/output error")
    with pytest.raises(StorageFailed, match="cut off"):
        writer.sync()
    with pytest.raises(StorageFailed):
        writer.append(timer_event(3))
    writer.close()
    with JsonlLog(path).open() as reopened:
        assert reopened.repaired is not None
        assert reopened.repaired.bytes == 30
        assert list(reopened.replay()) == timer_events(1)


def test_failing_close_still_gives_the_lease_back(log: JsonlLog, disk: FailingDisk) -> None:
    writer = log.open()
    writer.append(timer_event(1))
    disk.fail["write"] = no_space()
    with pytest.raises(StorageFailed):
        writer.close()
    assert not log.is_held()


def test_payload_on_a_full_disk_fails_and_the_log_continues(
    path: Path, log: JsonlLog, disk: FailingDisk
) -> None:
    with log.open() as writer:
        disk.fail["write"] = no_space()
        with pytest.raises(StorageFailed, match="payload"):
            writer.append(large_event(1))
        disk.fail.clear()
        writer.append(timer_event(1))
    assert list(path.with_name("payloads").iterdir()) == []
    assert verify(path).events == 1


@pytest.mark.parametrize("call", ["open", "make_directory", "sync_directory"])
def test_read_only_directory_is_a_clear_error_and_leaves_no_lease(
    tmp_path: Path, disk: FailingDisk, call: str
) -> None:
    log = JsonlLog(tmp_path / "run" / "events.jsonl", disk=disk)
    disk.fail[call] = OSError(errno.EROFS, "Read-only file system")
    with pytest.raises(StorageFailed, match=r"log .*events\.jsonl.*: Read-only file system") as failed:
        log.open()
    assert "read-only" in failed.value.hint
    assert not log.is_held()
    disk.fail.clear()
    log.open().close()


def test_torn_line_that_cannot_be_saved_is_not_cut_off(path: Path, log: JsonlLog, disk: FailingDisk) -> None:
    torn = lines_of(timer_events(2))[:-5]
    path.write_bytes(torn)
    disk.fail["write"] = no_space()
    with pytest.raises(StorageFailed, match="save the torn line"):
        log.open()
    assert path.read_bytes() == torn
    assert not log.is_held()
    disk.fail.clear()
    log.open().close()
    assert path.read_bytes() == lines_of(timer_events(1))


def test_torn_line_is_saved_durably_before_it_is_cut_off(
    path: Path, log: JsonlLog, disk: FailingDisk
) -> None:
    whole = lines_of(timer_events(2))
    path.write_bytes(whole[:-5])
    offset = len(lines_of(timer_events(1)))
    with log.open() as writer:
        names = ["sync_directory", "open", "sync_directory"]
        assert disk.calls == [*names, "open", "write", "sync", "sync_directory", "truncate", "sync"]
        assert writer.repaired is not None
        assert writer.repaired.kept == f"{path}.torn-{offset}"
    assert Path(f"{path}.torn-{offset}").read_bytes() == whole[offset:-5]


def test_length_conflict_is_detected_when_a_failed_write_is_retried(
    path: Path, log: JsonlLog, disk: FailingDisk
) -> None:
    writer = log.open()
    disk.fail["write"] = no_space()
    writer.append(timer_event(1))
    with pytest.raises(StorageFailed):
        writer.flush()
    path.write_bytes(b"stray\n")
    disk.fail.clear()
    with pytest.raises(LogConflict):
        writer.close()
    assert path.read_bytes() == b"stray\n"


def test_slow_flush_is_warned_about(path: Path, disk: FailingDisk) -> None:
    now, warnings = [0.0], list[str]()
    log = JsonlLog(path, Buffering(monotonic=lambda: now[0], on_warning=warnings.append), disk=disk)

    def stall() -> None:
        now[0] += 0.25

    with log.open() as writer:
        writer.append(timer_event(1))
        writer.flush()
        assert warnings == []
        disk.on_write = stall
        writer.append(timer_event(2))
        writer.flush()
        assert warnings == ["event log flush took 250 ms"]
        assert writer.health.slowest_flush_ms == pytest.approx(250)
        assert (writer.health.flushes, writer.health.events_flushed) == (2, 2)
        disk.on_write = lambda: None
