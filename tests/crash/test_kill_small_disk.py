"""Disk full in the middle of a run, and a read-only run directory: a clear error, nothing lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sampling import one_in

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs a mount namespace"),
]

UNSHARE = ["unshare", "--user", "--map-root-user", "--mount"]
ROOT = Path(__file__).parents[2]


def on_a_small_disk(tmp_path: Path, *arguments: str) -> str:
    """What the engine said when it ran into it; the rest is judged inside the namespace."""
    try:
        probe = subprocess.run(
            [*UNSHARE, "mount", "-t", "tmpfs", "none", tmp_path], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("program: `unshare` is not available")
    if probe.returncode:
        pytest.skip(f"privileges: no mounts in a user namespace here: {probe.stderr.decode().strip()}")
    kind, *rest = arguments
    module = [sys.executable, "-m", "tests.crash.small_disk", kind, str(tmp_path), *rest]
    done = subprocess.run(
        [*UNSHARE, *module], cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("pages", one_in(2, ["0", "2", "4"]))
def test_disk_full_in_the_middle_of_a_run(tmp_path: Path, pages: str) -> None:
    """With each further page it fills at another file: the output, the result, the log."""
    assert on_a_small_disk(tmp_path, "full", pages).startswith("Error: ")


def test_disk_full_at_a_transition_leaves_the_run_where_it_was(tmp_path: Path) -> None:
    """With room again, the check's outcome counts; visits and verdicts are those of an uninterrupted run."""
    for number in range(10):
        folder = tmp_path / str(number)
        folder.mkdir()
        message = on_a_small_disk(folder, "checked", "3")
        # The state file, which is written once a second, may be the first that finds no room.
        if "state.json" not in message:
            break
    assert "can't write to the log" in message


def test_read_only_run_directory(tmp_path: Path) -> None:
    assert "Read-only file system" in on_a_small_disk(tmp_path, "readonly")
