"""The write-ahead file of the log: nothing that was synced is lost in a power failure."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from zlib import crc32

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentforge.adapters.log import write_ahead
from agentforge.adapters.log.jsonl_log import JsonlLog, verify
from agentforge.adapters.log.write_ahead import HEADER, WriteAhead, records
from agentforge.adapters.log.writer import Buffering
from agentforge.model.errors import StorageFailed
from agentforge.model.event import Event
from agentforge.system.disk import Disk
from agentforge.testing.event_log_contract import lines_of, timer_event, timer_events

from .failing_disk import FailingDisk, no_space
from .power_cut import PowerCut, VolatileDisk

SIZE = 4096


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """So that a few events fill it; it isn't compared with the log."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_ahead, "SIZE", SIZE)
        patch.setattr(write_ahead, "SYNCS_BEFORE", 2)
        patch.setattr(write_ahead, "COMPARED", 0)
        yield


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


@pytest.fixture
def wal(tmp_path: Path) -> Path:
    return tmp_path / "events.wal"


def synced(log: JsonlLog, events: list[Event]):
    """A writer that synced each of these events by itself."""
    writer = log.open()
    for event in events:
        writer.append(event)
        writer.sync()
    return writer


def killed(log: JsonlLog, events: list[Event]) -> None:
    """As by a process that was killed: the files stay as they are."""
    writer = synced(log, events)
    writer._store._ahead.close()
    writer._store._lease.close()


def reopened(path: Path, warnings: list[str] | None = None) -> list[Event]:
    with JsonlLog(
        path, Buffering(on_warning=[].append if warnings is None else warnings.append)
    ).open() as writer:
        assert not writer.damage
        return list(writer.replay())


def test_restored_log_is_synced_before_the_write_ahead_file_is_removed(
    path: Path, wal: Path, disk: FailingDisk
) -> None:
    killed(JsonlLog(path), timer_events(5))
    os.truncate(path, len(lines_of(timer_events(2))))
    disk.fail["sync"] = OSError(errno.EIO, "Input/output error")
    with pytest.raises(StorageFailed, match="can't restore the log"):
        JsonlLog(path, disk=disk).open()
    assert wal.exists()
    assert len(reopened(path)) == 5
    assert not wal.exists()


def test_frequent_syncs_wait_for_the_write_ahead_file_only(path: Path, disk: FailingDisk) -> None:
    writer = synced(JsonlLog(path, disk=disk), timer_events(2))
    disk.calls.clear()
    writer.append(timer_event(3))
    writer.sync()
    assert disk.calls == ["write", "write_at", "sync"]
    writer.close()
    assert disk.calls == ["write", "write_at", "sync", "sync"]


def test_short_run_has_no_write_ahead_file(path: Path, wal: Path) -> None:
    writer = synced(JsonlLog(path), timer_events(1))
    assert not wal.exists()
    writer.close()


LOG, FILE = "events.jsonl", "events.wal"


def synced_files(path: Path, disk: FailingDisk, *seconds: float) -> list[str]:
    """The file that is synced for each event, if those syncs take so long. The first sync of the write-ahead
    file, when it is created, isn't listed."""
    with JsonlLog(path, disk=disk).open() as writer:
        disk.synced.clear()
        for event, taken in zip(timer_events(len(seconds)), seconds, strict=True):
            disk.sync_seconds = {LOG: taken, FILE: taken}
            writer.append(event)
            writer.sync()
        assert disk.synced.pop(2) == FILE
        return list(disk.synced)


@pytest.fixture
def four_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_ahead, "COMPARED", 4)
    monkeypatch.setattr(write_ahead, "TURN", 2)


TURNS = [LOG, LOG, FILE, FILE, LOG, LOG, FILE, FILE, LOG, LOG]


@pytest.mark.usefixtures("four_compared")
def test_write_ahead_file_is_used_further_where_it_is_faster(path: Path, disk: FailingDisk) -> None:
    synced = synced_files(path, disk, 1, 1, 0.3, 0.3, 0.8, 0.8, 0.3, 0.3, 0.8, 0.8, 9, 9, 9)
    assert synced == [*TURNS, FILE, FILE, FILE]


@pytest.mark.usefixtures("four_compared")
def test_write_ahead_file_is_removed_where_it_is_slower(path: Path, wal: Path, disk: FailingDisk) -> None:
    synced = synced_files(path, disk, 1, 1, 0.17, 0.17, 0.16, 0.16, 0.17, 0.17, 0.16, 0.16, 0, 0, 0)
    assert synced == [*TURNS, LOG, LOG, LOG]
    assert not wal.exists()
    assert reopened(path) == timer_events(13)


@pytest.mark.usefixtures("four_compared")
def test_single_slow_sync_of_the_file_decides_nothing(path: Path, disk: FailingDisk) -> None:
    assert synced_files(path, disk, 1, 1, 0.3, 9, 0.8, 0.8, 0.3, 0.3, 0.8, 0.8, 0)[-1] == FILE


@pytest.mark.usefixtures("four_compared")
@pytest.mark.parametrize(
    ("seconds", "log_seconds", "is_kept"),
    [
        ((1, 1, 1, 1), (2, 2, 2, 2), True),
        ((2, 2, 2, 2), (2, 2, 2, 2), True),
        ((3, 3, 3, 3), (2, 2, 2, 2), False),
        ((1, 1, 3, 3), (2, 2, 2, 2), False),
        ((2, 2, 2, 2), (1, 1, 3, 3), True),
        ((1, 1, 3, 3, 1), (2, 2, 2, 2), False),
        ((), (2, 2, 2, 2), False),
    ],
)
def test_medians_of_the_same_number_of_syncs_are_compared(
    path: Path, wal: Path, seconds: tuple[float, ...], log_seconds: tuple[float, ...], is_kept: bool
) -> None:
    ahead = WriteAhead(str(path), Disk())
    for _ in range(write_ahead.SYNCS_BEFORE):
        ahead.restart(0, b"", 0.0)
    for taken in seconds:
        ahead.note_time(taken)
    for taken in log_seconds:
        assert ahead.is_created
        ahead.restart(0, b"", taken)
    assert ahead.is_created == wal.exists() == is_kept
    ahead.close()


@pytest.mark.usefixtures("four_compared")
def test_write_ahead_file_that_is_too_small_for_every_sync_is_removed(path: Path, wal: Path) -> None:
    writer = synced(JsonlLog(path), timer_events(2))
    for start in range(3, 123, 30):
        assert wal.exists()
        for event in timer_events(30, start=start):
            writer.append(event)
        writer.sync()
    assert not wal.exists()
    writer.close()


def test_closed_log_has_no_write_ahead_file(path: Path, wal: Path) -> None:
    writer = synced(JsonlLog(path), timer_events(9))
    assert wal.stat().st_size == SIZE
    writer.close()
    assert not wal.exists()
    assert path.read_bytes() == lines_of(timer_events(9))


@pytest.mark.parametrize("over", range(-1, HEADER.size + 2))
def test_what_fits_is_read_again_and_what_does_not_is_refused(path: Path, over: int) -> None:
    """`over`: how many bytes the last record is too long."""
    ahead = WriteAhead(str(path), Disk())
    for _ in range(write_ahead.SYNCS_BEFORE):
        ahead.restart(0, b"", 0.0)
    first, last = b"x" * 1000, b"y" * (SIZE - 2 * HEADER.size - 1000 + over)
    assert ahead.sync(first)
    assert ahead.accepts(len(last)) is (over <= 0)
    written = first + last if over <= 0 and ahead.sync(last) else first
    ahead.close()
    assert WriteAhead(str(path), Disk()).left(lambda _: b"") == (0, written)


def test_log_is_synced_before_a_full_write_ahead_file_is_overwritten(path: Path) -> None:
    disk = VolatileDisk()
    writer = synced(JsonlLog(path, disk=disk), timer_events(2))
    for event in timer_events(60, start=3):
        writer.append(event)
        writer.sync()
        first = HEADER.unpack_from(path.with_name("events.wal").read_bytes())[0]
        assert len(disk.durable[str(path)]) >= first
    assert first > SIZE
    writer.close()


@pytest.mark.parametrize("lost", [1, 200, 2000])
def test_lines_that_a_power_failure_took_are_restored_and_reported(path: Path, wal: Path, lost: int) -> None:
    killed(JsonlLog(path), timer_events(12))
    whole = path.read_bytes()
    os.truncate(path, len(whole) - lost)
    told: list[str] = []
    assert reopened(path, told) == timer_events(12)
    assert path.read_bytes() == whole
    assert not wal.exists()
    assert told == [
        f"restored the last {lost:,} bytes of the log {path}, which were missing, "
        "probably after a power failure"
    ]


def test_zeros_in_the_place_of_synced_lines_are_overwritten_and_saved(path: Path) -> None:
    killed(JsonlLog(path), timer_events(12))
    whole = path.read_bytes()
    path.write_bytes(whole[:-500] + bytes(500))
    assert reopened(path) == timer_events(12)
    (aside,) = path.parent.glob("events.jsonl.torn-*")
    assert aside.read_bytes().endswith(bytes(500))


def test_log_that_lacks_nothing_is_not_saved_as_torn(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentforge.adapters.log.displacement.CHUNK_BYTES", 100)
    killed(JsonlLog(path), timer_events(12))
    assert reopened(path) == timer_events(12)
    assert [found.name for found in path.parent.iterdir()] == ["events.jsonl"]


def test_lines_that_were_written_one_by_one_are_restored_together(path: Path) -> None:
    writer = synced(JsonlLog(path), timer_events(4))
    before = path.stat().st_size
    for event in timer_events(3, start=5):
        writer.append(event)
        writer.flush()
    writer.sync()
    writer._store._ahead.close()
    writer._store._lease.close()
    os.truncate(path, before)
    assert reopened(path) == timer_events(7)


def test_lines_after_those_in_the_write_ahead_file_are_kept(path: Path) -> None:
    killed(JsonlLog(path), timer_events(12))
    with path.open("ab") as file:
        file.write(lines_of(timer_events(13))[path.stat().st_size :])
    assert reopened(path) == timer_events(13)


def test_killed_engine_loses_nothing_and_the_next_one_continues(path: Path, wal: Path) -> None:
    for start in range(1, 60, 6):
        killed(JsonlLog(path), timer_events(6, start=start))
        assert wal.exists()
    assert reopened(path) == timer_events(60)
    assert verify(path).is_intact


def test_write_ahead_file_of_another_log_is_renamed(path: Path, wal: Path) -> None:
    killed(JsonlLog(path), timer_events(12))
    content = wal.read_bytes()
    path.write_bytes(lines_of([timer_event(seq, "other") for seq in range(1, 13)]))
    assert len(reopened(path)) == 12
    (aside,) = path.parent.glob("events.wal.*")
    assert aside.read_bytes() == content


def test_write_ahead_file_of_a_longer_log_is_renamed(path: Path) -> None:
    killed(JsonlLog(path), timer_events(12))
    path.write_bytes(lines_of(timer_events(1)))
    assert reopened(path) == timer_events(1)
    assert list(path.parent.glob("events.wal.*"))


@pytest.mark.parametrize("position", [1 << 20, (1 << 64) - 1])
def test_planted_record_beyond_the_end_of_the_log_is_not_written(
    path: Path, wal: Path, position: int
) -> None:
    path.write_bytes(lines_of(timer_events(2)))
    wal.write_bytes(HEADER.pack(position, 1, 0xE8B7BE43) + b"a" + bytes(99))
    assert reopened(path) == timer_events(2)
    assert not wal.exists()


@pytest.mark.parametrize("planted", ["link", "folder", "large", "pipe"])
def test_anything_else_in_its_place_is_renamed_and_not_followed(path: Path, wal: Path, planted: str) -> None:
    path.write_bytes(lines_of(timer_events(2)))
    target = path.with_name("target")
    target.write_bytes(b"precious")
    match planted:
        case "link":
            wal.symlink_to(target)
        case "folder":
            wal.mkdir()
        case "large":
            wal.write_bytes(b"x" * (SIZE + 1))
        case "pipe":
            os.mkfifo(wal)
    writer = synced(JsonlLog(path), timer_events(9, start=3))
    assert wal.stat().st_size == SIZE
    writer.close()
    assert target.read_bytes() == b"precious"
    assert len(list(path.parent.glob("events.wal.*"))) == 1


@pytest.mark.parametrize("planted", ["folder", "text", "zeros"])
def test_nothing_is_restored_from_anything_else(path: Path, wal: Path, planted: str) -> None:
    if planted == "folder":
        wal.mkdir()
    else:
        wal.write_bytes(b"XX" if planted == "text" else bytes(2))
    assert WriteAhead(str(path), Disk()).left(lambda _: b"") == (0, b"")
    assert not wal.exists()
    assert len(list(path.parent.glob("events.wal.*"))) == (planted != "zeros")


def record(position: int, data: bytes, after: bytes = b"", size: int | None = None) -> bytes:
    return HEADER.pack(position, len(data) if size is None else size, crc32(after + data)) + data


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (record(5, b"one") + record(8, b"two", b"one"), b"onetwo"),
        (record(5, b"one") + record(9, b"two", b"one"), b"one"),
        (record(5, b"one") + record(8, b"two"), b"one"),
        (record(5, b"one") + record(8, b"tw", b"one", size=3), b"one"),
        (record(5, b"one") + record(8, b"", b"one") + record(8, b"two", b"one"), b"one"),
    ],
    ids=["next", "another position", "another checksum", "torn", "empty"],
)
def test_records_end_with_the_first_that_does_not_continue_the_one_before(
    content: bytes, found: bytes
) -> None:
    assert records(content, lambda _: b"") == (5, found)


@pytest.mark.parametrize("size", [0, 100, SIZE])
def test_file_that_was_created_and_never_used_is_replaced(path: Path, wal: Path, size: int) -> None:
    wal.write_bytes(bytes(size))
    writer = synced(JsonlLog(path), timer_events(9))
    assert HEADER.unpack_from(wal.read_bytes())[0] > 0
    writer.close()
    assert [found.name for found in path.parent.iterdir()] == ["events.jsonl"]


def test_file_that_appears_in_its_place_is_left_alone(path: Path, wal: Path) -> None:
    with JsonlLog(path).open() as writer:
        wal.write_bytes(b"planted")
        for event in timer_events(9):
            writer.append(event)
            writer.sync()
    assert wal.read_bytes() == b"planted"
    assert path.read_bytes() == lines_of(timer_events(9))


@pytest.mark.parametrize("replaced", [False, True])
def test_log_is_synced_itself_once_the_file_is_gone(
    path: Path, wal: Path, disk: FailingDisk, replaced: bool
) -> None:
    writer = synced(JsonlLog(path, disk=disk), timer_events(5))
    wal.unlink()
    if replaced:
        wal.write_bytes(bytes(SIZE))
    disk.calls.clear()
    for event in timer_events(2, start=6):
        writer.append(event)
        writer.sync()
    assert disk.calls == ["write", "sync"] * 2
    writer.close()


@pytest.mark.parametrize("call", ["write_at", "sync", "sync_directory"])
def test_log_is_synced_itself_if_the_file_cannot_be_created(
    path: Path, wal: Path, disk: FailingDisk, call: str
) -> None:
    writer = synced(JsonlLog(path, disk=disk), timer_events(1))
    disk.fail_for["events.wal"] = call
    for event in timer_events(5, start=2):
        writer.append(event)
        writer.sync()
    assert not wal.exists()
    writer.close()
    assert reopened(path) == timer_events(6)


@pytest.mark.parametrize("call", ["write_at", "sync"])
def test_log_is_synced_itself_after_an_error_of_the_file(path: Path, disk: FailingDisk, call: str) -> None:
    writer = synced(JsonlLog(path, disk=disk), timer_events(5))
    disk.fail_for["events.wal"] = call
    disk.calls.clear()
    writer.append(timer_event(6))
    writer.sync()
    assert disk.calls[-1] == "sync"
    disk.fail_for.clear()
    writer.close()
    assert reopened(path) == timer_events(6)


def test_file_is_kept_if_the_log_cannot_be_synced(path: Path, wal: Path, disk: FailingDisk) -> None:
    writer = synced(JsonlLog(path, disk=disk), timer_events(5))
    disk.fail_for["events.jsonl"] = "sync"
    with pytest.raises(StorageFailed, match="can't make the log durable"):
        writer.close()
    assert wal.exists()
    os.truncate(path, path.stat().st_size // 2)
    assert reopened(path) == timer_events(5)


def test_file_is_kept_after_a_failed_sync_of_the_log(path: Path, wal: Path, disk: FailingDisk) -> None:
    """A second sync would report a success."""
    writer = synced(JsonlLog(path, disk=disk), timer_events(5))
    disk.fail_for["events.jsonl"] = "sync"
    for event in timer_events(30, start=6):
        writer.append(event)
    with pytest.raises(StorageFailed, match="can't make the log durable"):
        writer.sync()
    disk.fail_for.clear()
    writer.close()
    assert wal.exists()


def test_file_that_cannot_be_read_is_an_error_and_is_kept(path: Path, wal: Path, monkeypatch) -> None:
    killed(JsonlLog(path), timer_events(5))

    def failing(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("agentforge.system.files._read", failing)
        with pytest.raises(StorageFailed, match="Input/output error"):
            JsonlLog(path).open()
    assert wal.exists()
    assert not JsonlLog(path).is_held()


def test_full_disk_while_it_is_restored_keeps_the_file(path: Path, wal: Path, disk: FailingDisk) -> None:
    killed(JsonlLog(path), timer_events(12))
    os.truncate(path, path.stat().st_size - 900)
    disk.fail["write_at"] = no_space()
    with pytest.raises(StorageFailed, match="can't restore the log"):
        JsonlLog(path, disk=disk).open()
    assert wal.exists()
    assert reopened(path) == timer_events(12)


@given(data=st.binary(max_size=200))
@example(data=bytes(100))
def test_any_content_is_read_without_an_error(data: bytes) -> None:
    assert records(data, lambda _: b"")[1] in (b"", data[HEADER.size :])


@given(
    batches=st.lists(st.integers(1, 8), min_size=1, max_size=25),
    cuts=st.lists(st.integers(0, 120), min_size=1, max_size=3),
    seed=st.integers(0, 1 << 32),
    compared=st.integers(0, 3),
    call_seconds=st.sampled_from([0.0, 1.0]),
)
@example(batches=[1] * 25, cuts=[40, 30, 20], seed=1, compared=0, call_seconds=0.0)
@example(batches=[1] * 25, cuts=[22, 23, 24], seed=1, compared=3, call_seconds=1.0)
def test_no_synced_event_is_lost_wherever_the_power_is_cut(
    batches: list[int], cuts: list[int], seed: int, compared: int, call_seconds: float
) -> None:
    """Again and again, also while the log is being restored, and while a write-ahead file is given up because
    it takes two calls where the log takes one."""
    chance = Random(seed)
    with TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_ahead, "COMPARED", compared)
        patch.setattr(write_ahead, "TURN", 1)
        kept: list[Event] = []
        files: dict[str, bytes] = {}
        for number, cut in enumerate([*cuts, None]):
            folder = Path(root, str(number))
            folder.mkdir()
            for name, content in files.items():
                (folder / name).write_bytes(content)
            disk = VolatileDisk(cut, call_seconds)
            disk.durable = {str(folder / name): content for name, content in files.items()}
            disk.names = set(disk.durable)
            before = kept
            kept, found = _continued(folder / "events.jsonl", disk, batches, before)
            assert found[: len(before)] == before
            files = disk.survivors(folder, chance)
        assert verify(folder / "events.jsonl").is_intact
        assert not (folder / "events.wal").exists()


def _continued(
    path: Path, disk: VolatileDisk, batches: list[int], kept: list[Event]
) -> tuple[list[Event], list[Event]]:
    """Open the log and append batches until the power is cut; returns what was synced by then, and what was
    found at first."""
    found = kept
    log = JsonlLog(path, Buffering(on_warning=lambda _: None), disk=disk, sleep=lambda _: None)
    writer = None
    try:
        writer = log.open()
        kept = found = list(writer.replay())
        assert not writer.damage
        assert found == timer_events(len(found))
        for size in batches:
            new = timer_events(size, start=len(kept) + 1)
            for event in new:
                writer.append(event)
            writer.sync()
            kept = kept + new
        writer.close()
    except PowerCut:
        if writer is not None:
            writer._store._ahead.close()
            writer._store._lease.close()
    return kept, found
