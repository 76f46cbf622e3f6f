"""Files that become durable whole: short writes are continued, drafts of failed ones removed."""

import errno
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from agentforge.system.disk import Disk


class SlowDisk(Disk):
    """Writes three bytes at a time, and fails when it is told to."""

    def __init__(self, *, room: int = 1000) -> None:
        self.room = room
        self.calls: list[str] = []

    def write(self, fd: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= 3
        self.calls.append("write")
        return super().write(fd, data[:3])

    def sync(self, fd: int) -> None:
        self.calls.append("sync")
        super().sync(fd)

    def rename(self, old: str, new: str) -> None:
        self.calls.append("rename")
        super().rename(old, new)

    def make_directory(self, path: str, mode: int) -> bool:
        made = super().make_directory(path, mode)
        self.calls.append(f"make {Path(path).name}")
        return made

    def sync_directory(self, path: str) -> None:
        self.calls.append(f"sync {Path(path).name}")
        super().sync_directory(path)


def test_a_file_is_written_whole_however_little_is_taken_at_once(tmp_path: Path) -> None:
    disk = SlowDisk()
    disk.replace(str(tmp_path / "file"), b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"0123456789"
    assert disk.calls == [*["write"] * 4, "sync", "rename", f"sync {tmp_path.name}"]


OVERWRITE = """
import os, sys
from agentforge.system.disk import Disk
fd = os.open(sys.argv[1], os.O_RDWR)
try:
    Disk().write_at(fd, b"0123456789", 0)
except OSError as error:
    sys.exit(error.strerror)
"""


def test_overwriting_as_much_as_fits_is_an_error(tmp_path: Path) -> None:
    """The system writes a part, without an error, and refuses the rest."""
    (tmp_path / "file").write_bytes(b"old")
    child = subprocess.run(
        [sys.executable, "-B", "-c", OVERWRITE, tmp_path / "file"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6, 6)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (tmp_path / "file").read_bytes() == b"012345"
    assert child.stderr == "File too large\n"


def test_a_draft_that_could_not_be_written_is_removed_and_the_old_file_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(OSError, match="No space"):
        SlowDisk(room=6).replace(str(tmp_path / "file"), b"0123456789")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_new_folders_have_durable_names_from_the_top_down(tmp_path: Path) -> None:
    disk = SlowDisk()
    disk.make_directories(str(tmp_path / "a" / "b"))
    above = tmp_path.parent.name
    assert disk.calls == [f"sync {above}", "make a", f"sync {tmp_path.name}", "make b", "sync a"]


def test_name_of_a_folder_that_exists_is_synced(tmp_path: Path) -> None:
    """Its creator may have died before it did that."""
    (tmp_path / "a").mkdir()
    disk = SlowDisk()
    disk.make_directories(str(tmp_path / "a"))
    assert disk.calls == [f"sync {tmp_path.name}"]


def test_folder_in_a_parent_that_cannot_be_read_is_used(tmp_path: Path) -> None:
    class LockedDisk(SlowDisk):
        def sync_directory(self, path: str) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "a").mkdir()
    LockedDisk().make_directories(str(tmp_path / "a"))
    with pytest.raises(PermissionError):
        LockedDisk().make_directories(str(tmp_path / "a" / "b"))
