"""A log whose path changes under its writer: moved, removed, replaced, changed in place."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge.adapters.log.displacement import CONTINUE
from agentforge.adapters.log.jsonl_log import JsonlLog, verify
from agentforge.adapters.log.writer import Writer
from agentforge.model.errors import LogConflict
from agentforge.system.disk import Disk
from agentforge.testing.event_log_contract import lines_of, timer_event, timer_events

from .failing_disk import FailingDisk, no_space

WRITTEN = lines_of(timer_events(3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "s" / "events.jsonl"


def log(path: Path, disk: Disk | None = None, sleep: Callable[[float], None] = lambda _: None) -> JsonlLog:
    return JsonlLog(path, disk=disk, sleep=sleep)


def opened(path: Path, **options: object) -> Writer:
    """A writer that has written three events."""
    writer = log(path, **options).open()  # type: ignore[arg-type]
    for event in timer_events(3):
        writer.append(event)
    writer.sync()
    return writer


def refused(writer: Writer) -> LogConflict:
    """The error of the next write; every later one repeats it."""
    writer.append(timer_event(4))
    with pytest.raises(LogConflict) as first:
        writer.sync()
    with pytest.raises(LogConflict, match=re.escape(first.value.message)):
        writer.append(timer_event(5))
    return first.value


def replace_by(path: Path, content: bytes) -> None:
    draft = path.with_name("draft")
    draft.write_bytes(content)
    draft.replace(path)


def test_name_of_a_restored_log_is_synced(path: Path) -> None:
    disk = FailingDisk()
    with opened(path, disk=disk) as writer:
        path.unlink()
        disk.calls.clear()
        refused(writer)
    assert disk.calls[-1] == "sync_directory"


def test_removed_log_is_restored_without_what_was_not_written(path: Path) -> None:
    writer = opened(path)
    path.unlink()
    error = refused(writer)
    assert "was removed while the run was in progress" in error.message
    assert (error.hint, error.restored) == (CONTINUE, True)
    assert path.read_bytes() == WRITTEN
    assert os.listdir(path.parent) == ["events.jsonl"]
    writer.close()
    assert verify(path).is_intact


def test_removed_folder_is_created_again(path: Path) -> None:
    writer = opened(path)
    shutil.rmtree(path.parent.parent)
    refused(writer)
    writer.close()
    assert path.read_bytes() == WRITTEN


def test_lease_of_a_restored_log_is_held_until_its_writer_is_closed(path: Path) -> None:
    writer = opened(path)
    path.unlink()
    refused(writer)
    assert log(path).is_held()
    writer.close()
    assert not log(path).is_held()
    with log(path).open() as next_writer:
        assert next_writer.head.seq == 3


def test_log_that_is_back_in_time_is_written_as_before(path: Path) -> None:
    waits = []

    def move_back(seconds: float) -> None:
        waits.append(seconds)
        path.with_name("aside").rename(path)

    with opened(path, sleep=move_back) as writer:
        path.rename(path.with_name("aside"))
        writer.append(timer_event(4))
    assert len(waits) == 1
    assert path.read_bytes() == lines_of(timer_events(4))


def test_folder_that_is_back_in_time_is_written_to_as_before(path: Path) -> None:
    """Meanwhile, a file was in its place."""
    away = path.parent.with_name("away")
    steps = iter((lambda: None, path.parent.unlink, lambda: away.rename(path.parent)))

    with opened(path, sleep=lambda _: next(steps)()) as writer:
        path.parent.rename(away)
        path.parent.write_bytes(b"")
        writer.append(timer_event(4))
        writer.sync()
    assert path.read_bytes() == lines_of(timer_events(4))


def test_moved_log_is_neither_written_nor_restored(path: Path) -> None:
    writer = opened(path)
    aside = path.parent.rename(path.parent.with_name("aside"))
    error = refused(writer)
    assert f"was moved to {aside}/events.jsonl" in error.message
    assert "move it back" in error.hint
    writer.close()
    assert not path.exists()
    assert (aside / "events.jsonl").read_bytes() == WRITTEN


def test_hard_link_elsewhere_does_not_prevent_the_restoration(path: Path, tmp_path: Path) -> None:
    writer = opened(path)
    os.link(path, tmp_path / "backup")
    path.unlink()
    refused(writer)
    assert path.read_bytes() == WRITTEN


@pytest.mark.parametrize("kept", [len(WRITTEN), len(WRITTEN) - 7, 0], ids=["whole", "part", "empty"])
def test_copy_in_the_place_of_the_log_gets_what_it_lacks(path: Path, kept: int) -> None:
    writer = opened(path)
    replace_by(path, WRITTEN[:kept])
    copy = path.stat().st_ino
    error = refused(writer)
    assert "was replaced by a copy" in error.message
    assert (error.hint, error.restored) == (CONTINUE, True)
    assert log(path).is_held()
    writer.close()
    assert not log(path).is_held()
    assert (path.read_bytes(), path.stat().st_ino) == (WRITTEN, copy)


def test_what_a_copy_gets_is_synced(path: Path) -> None:
    disk = FailingDisk()
    writer = opened(path, disk=disk)
    replace_by(path, WRITTEN[:-7])
    disk.calls.clear()
    refused(writer)
    assert disk.calls[-2:] == ["write", "sync"]
    writer.close()


@pytest.mark.parametrize("other", [b"something else\n", lines_of([timer_event(1, "x")]), WRITTEN + b"more\n"])
def test_another_file_is_never_changed_and_the_log_is_saved_beside_it(path: Path, other: bytes) -> None:
    writer = opened(path)
    replace_by(path, other)
    error = refused(writer)
    writer.close()
    assert "was replaced by another file" in error.message
    assert "keep one as events.jsonl, then run `agentforge recover`" in error.hint
    assert not error.restored
    assert path.read_bytes() == other
    saved = path.with_name(f"events.jsonl.replaced-{len(WRITTEN)}")
    assert str(saved) in error.message
    assert saved.read_bytes() == WRITTEN


def test_name_that_is_taken_is_not_overwritten_and_the_log_is_saved_under_another(path: Path) -> None:
    writer = opened(path)
    taken = path.with_name(f"events.jsonl.replaced-{len(WRITTEN)}")
    taken.write_bytes(b"planted\n")
    replace_by(path, b"something else\n")
    error = refused(writer)
    writer.close()
    assert f"saved to {taken}-2" in error.message
    assert (taken.read_bytes(), Path(f"{taken}-2").read_bytes()) == (b"planted\n", WRITTEN)


def test_copy_that_another_engine_has_taken_is_not_changed(path: Path) -> None:
    writer = opened(path)
    replace_by(path, WRITTEN[:-7])
    with path.open("rb") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        refused(writer)
        writer.close()
    assert path.read_bytes() == WRITTEN[:-7]


def _make_folder(path: Path) -> None:
    path.mkdir()


def _make_link(path: Path) -> None:
    target = path.with_name("target")
    target.write_bytes(WRITTEN[:-7])
    path.symlink_to(target)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", [_make_folder, _make_link, os.mkfifo])
def test_what_is_not_a_file_stays_where_it_is(path: Path, make: Callable[[Path], None]) -> None:
    writer = opened(path)
    path.unlink()
    make(path)
    kind = os.lstat(path).st_mode
    assert "was replaced by another file" in refused(writer).message
    writer.close()
    assert os.lstat(path).st_mode == kind
    assert not path.is_symlink() or path.read_bytes() == WRITTEN[:-7]


def test_failed_restoration_is_reported_with_its_reason(path: Path) -> None:
    disk = FailingDisk()
    writer = opened(path, disk=disk)
    path.unlink()
    disk.fail["write"] = no_space()
    error = refused(writer)
    assert "can't be restored" in error.message
    assert "No space left" in error.message
    assert "restore the run's folder, then run `agentforge recover`" in error.hint
    assert not error.restored
    assert os.listdir(path.parent) == []
    writer.close()


def test_log_that_ends_otherwise_than_it_was_written_is_not_continued(path: Path) -> None:
    writer = opened(path)
    with path.open("r+b") as other:
        other.seek(-10, os.SEEK_END)
        other.write(b"0123456789")
    writer.append(timer_event(4))
    with pytest.raises(LogConflict, match="another process wrote to the log") as error:
        writer.sync()
    assert error.value.hint == "run `agentforge log verify`, then resume the run"


def test_closing_reports_a_log_that_is_gone(path: Path) -> None:
    writer = opened(path)
    path.unlink()
    with pytest.raises(LogConflict, match="was removed while the run was in progress"):
        writer.close()
    assert path.read_bytes() == WRITTEN
    assert not log(path).is_held()


@pytest.mark.crash
def test_killed_restoration_leaves_no_log_or_the_whole_log(path: Path) -> None:
    """Whichever call it dies at: what is at the path is never a part of the log."""
    found = []
    for calls in range(20):
        shutil.rmtree(path.parent.parent, ignore_errors=True)
        line = [sys.executable, str(Path(__file__).with_name("log_process.py")), "restore", str(path)]
        done = subprocess.run(
            line, env={**os.environ, "DIE_AFTER": str(calls)}, capture_output=True, timeout=60, check=False
        )
        found.append(path.read_bytes() if path.exists() else b"")
        if done.returncode == 0:
            assert done.stdout == b"restored\n"
            break
        assert done.returncode == -signal.SIGKILL
        with log(path).open() as writer:
            assert writer.repaired is None
            assert writer.head.seq in (0, 3)
    assert set(found) == {b"", WRITTEN}
    assert found[-1] == WRITTEN
    assert len(found) > 4
