"""Folders in memory, where nothing waits for a disk: runs sync every event."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
ROOM = 2**30
VARIABLE = "SCRATCH_FOLDER"
"""Names another place for them: a process that kills test runs removes what they leave."""


def memory() -> str | None:
    """Where to make such folders; None, for the default of `tempfile`, if there is little room or none, or
    programs can't be executed there."""
    if given := os.environ.get(VARIABLE):
        return given
    if not os.access(MEMORY, os.W_OK):
        return None
    state = os.statvfs(MEMORY)
    has_room = state.f_bavail * state.f_frsize >= ROOM
    return str(MEMORY) if has_room and not state.f_flag & os.ST_NOEXEC else None


@pytest.fixture(name="tmp_path")
def folder_in_memory() -> Iterator[Path]:
    """Not for tests of sandboxes: a sandbox has a /dev of its own, and so nothing of this folder."""
    with tempfile.TemporaryDirectory(
        prefix="agentforge-", dir=memory(), ignore_cleanup_errors=True
    ) as folder:
        path = Path(folder) / "test"  # Some tests use what is beside it.
        path.mkdir()
        yield path
