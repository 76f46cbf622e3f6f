"""Finds processes by a mark in their environment, so that a test can find what it left running."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

MARK = "AGENTFORGE_TEST_MARK"

_PROC = Path("/proc")


def processes_marked(mark: str) -> list[int]:
    """The PIDs of processes with the mark, without zombies."""
    if (_PROC / "self" / "environ").exists():
        return [
            int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit() and _carries(entry, mark)
        ]
    listing = subprocess.run(
        ["ps", "-A", "-E", "-o", "pid=,command="], capture_output=True, text=True, check=True
    )
    return [int(line.split()[0]) for line in listing.stdout.splitlines() if f"{MARK}={mark}" in line]


def end_marked(mark: str, seconds: float = 5.0) -> list[int]:
    """Kill the processes with the mark that are still alive after a grace period. Returns their PIDs."""
    until = time.monotonic() + seconds
    while (left := processes_marked(mark)) and time.monotonic() < until:
        time.sleep(0.02)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return left


def _carries(entry: Path, mark: str) -> bool:
    try:
        # The environment of a zombie is empty.
        return f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
