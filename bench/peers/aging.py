"""Ages a file system: creates and deletes many small files, fills it and scatters the free space."""

import ctypes
import os
import random
import shutil
import sys
from pathlib import Path
from time import monotonic

BATCHES = 20
FOLDERS_PER_BATCH = 20
FILES_PER_FOLDER = 100
SMALL = (100, 12_000)
SECONDS = 40.0
MAX_FILLERS = 60_000


def churn(folder: Path, batches: int) -> str:
    """Create small files in batches, each committed to the journal, and delete most of the earlier ones.
    Returns a description of what was done."""
    draw = random.Random(1)
    ends = monotonic() + SECONDS
    made = deleted = 0
    kept: list[Path] = []
    for batch in range(batches):
        for number in range(FOLDERS_PER_BATCH):
            inner = folder / f"batch-{batch:02d}" / f"{number:02d}" / "inner"
            inner.mkdir(parents=True)
            for name in range(FILES_PER_FOLDER):
                (inner / f"{name:03d}").write_bytes(b"x" * draw.randint(*SMALL))
            made += FILES_PER_FOLDER
            kept.append(inner)
        _commit(folder)
        draw.shuffle(kept)
        gone, kept = kept[: len(kept) // 2], kept[len(kept) // 2 :]
        for inner in gone:
            deleted += len(os.listdir(inner))
            shutil.rmtree(inner.parent)
        for inner in kept:
            for name in os.listdir(inner)[::3]:
                (inner / name).unlink()
                deleted += 1
        _commit(folder)
        if monotonic() > ends:
            break
    return f"{made:,} files created, {deleted:,} deleted"


def fill(folder: Path, to: float) -> str:
    """Fill the file system well above `to`, then delete files at random until `to` is reached."""
    draw = random.Random(2)
    ends = monotonic() + SECONDS
    paths: list[Path] = []
    above = to + (1 - to) * 0.75
    while used(folder) < above and len(paths) < MAX_FILLERS and monotonic() < ends:
        inner = folder / f"fill-{len(paths) // 200:03d}"
        inner.mkdir()
        for number in range(200):
            paths.append(inner / f"{number:03d}")
            _allocate(paths[-1], draw.choice((4, 16, 64, 256, 1024)) * 1024)
    draw.shuffle(paths)
    while used(folder) > to and paths:
        for path in paths[-20:]:
            path.unlink()
        del paths[-20:]
        _commit(folder)
    return f"filled to {used(folder):.0%}"


def used(folder: Path) -> float:
    """The part of the file system that is in use, as `df` counts it."""
    found = os.statvfs(folder)
    blocks = found.f_blocks - found.f_bfree
    return blocks / (blocks + found.f_bavail)


def _allocate(path: Path, size: int) -> None:
    """Reserve blocks without writing them: the allocator treats them alike, and the disk below stays idle."""
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.posix_fallocate(fd, 0, size)
    finally:
        os.close(fd)


def _commit(folder: Path) -> None:
    """Commit the journal of this file system only."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def flush(folder: Path) -> None:
    """Write out what the folder's file system still has in memory, so that no later run pays for it."""
    if sys.platform != "linux":
        os.sync()
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        ctypes.CDLL(None).syncfs(fd)
    finally:
        os.close(fd)
