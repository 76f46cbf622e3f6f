"""The floors: the same bytes written, read or programs started, without the engine."""

import os
import subprocess
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from time import perf_counter, process_time

import msgspec

from agentforge.system.disk import Disk

APPEND = "(a) one synced append"
FILES = "(b) one synced append + the iteration's files, plainly"
DECODE = "(c) decoding the same log"
VERIFY = "(c) + a sha256 of each line"
PYTHON = "(d) python -c pass"


class PlainLog:
    """Appends and syncs with the same system call as the engine."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self._disk = Disk()

    def append(self, data: bytes) -> float:
        began = perf_counter()
        os.write(self._fd, data)
        self._disk.sync(self._fd)
        return perf_counter() - began

    def close(self) -> None:
        os.close(self._fd)


class PlainIterations:
    """Writes the output of an iteration: its events with one sync, its folder, its files."""

    def __init__(self, root: Path) -> None:
        self._root = root / "iterations"
        self._root.mkdir(parents=True)
        self._log = PlainLog(root / "events.jsonl")
        self._number = 0

    def write(self, events: bytes, files: Mapping[str, bytes], agents_own: Mapping[str, bytes]) -> float:
        """Returns the seconds; the agent's own files are also written, but not counted."""
        self._number += 1
        folder = f"{self._root}/{self._number:03d}"
        began = perf_counter()
        os.mkdir(folder)
        _write_all(folder, files)
        took = perf_counter() - began
        _write_all(folder, agents_own)
        # Last, as in the engine: this sync also makes the names of the new files durable.
        return took + self._log.append(events)

    def close(self) -> None:
        self._log.close()


def _write_all(folder: str, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        with open(f"{folder}/{name}", "wb") as file:
            file.write(content)


def decode_log(path: Path) -> float:
    """CPU seconds for reading a log and decoding each of its lines, without a type. CPU time, because waiting
    for a free core doesn't count."""
    began = process_time()
    decode = msgspec.json.decode
    with path.open("rb") as file:
        for line in file:
            decode(line)
    return process_time() - began


def hash_log(path: Path) -> float:
    """CPU seconds for hashing each line of a log: the minimum for verifying its chain."""
    lines = path.read_bytes().splitlines()
    began = process_time()
    for line in lines:
        sha256(line).hexdigest()
    return process_time() - began


def start_python() -> float:
    return run([sys.executable, "-c", "pass"])


def run(argv: list[str], cwd: Path | None = None) -> float:
    """Seconds from the start of a program to its end."""
    began = perf_counter()
    done = subprocess.run(argv, cwd=cwd, capture_output=True, check=False)
    took = perf_counter() - began
    if done.returncode != 0:
        raise SystemExit(f"{argv} exited with status {done.returncode}: {done.stderr.decode()[-2000:]}")
    return took
