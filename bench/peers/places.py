"""Where the workers run: a plain folder, a fresh ext4 file system, an aged one. All of it is temporary."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from bench.machine import file_system
from bench.peers import aging

PLAIN, FRESH, AGED = "plain", "fresh", "aged"
KINDS = (PLAIN, FRESH, AGED)
IMAGE_BYTES = 6 * 2**30
FREE_BYTES = 8 * 2**30
AGED_TO = 0.8
NEW_MOUNT_NAMESPACE = 0x00020000


class Place(Struct, frozen=True):
    kind: str
    folder: Path
    about: str
    """The file system, and what was done to it."""


class CannotMount(Exception):
    """A file system of our own can't be mounted; the message says why."""


@contextmanager
def prepared(
    parent: Path, kinds: Sequence[str], batches: int = aging.BATCHES
) -> Iterator[tuple[list[Place], list[str]]]:
    """The places, and what was skipped and why. An aged one has held earlier batches of files."""
    parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=parent, prefix="peers-")))
        places = [_plain(root)] if PLAIN in kinds else []
        images = [kind for kind in (FRESH, AGED) if kind in kinds]
        skipped: list[str] = []
        try:
            if images:
                _check_mounts_possible(root)
            while images:
                places.append(
                    _on_image(images[0], stack.enter_context(mounted_image(root, images[0])), batches)
                )
                del images[0]
        except CannotMount as why:
            skipped = [f"skipped: {kind} ext4 image: {why}" for kind in images]
            if AGED in images:
                places.append(_aged_folder(root, batches))
        yield places, skipped


def _plain(root: Path) -> Place:
    folder = root / PLAIN
    folder.mkdir()
    return Place(PLAIN, folder, f"{file_system(root)}, a temporary folder, {aging.used(root):.0%} used")


def _on_image(kind: str, point: Path, batches: int) -> Place:
    size = f"{IMAGE_BYTES / 2**30:g} GiB ext4 image"
    folder = point / "runs"
    if kind == FRESH:
        folder.mkdir()
        return Place(kind, folder, f"{size}, just made")
    done = aging.churn(point, batches)
    filled = aging.fill(point, AGED_TO)
    aging.flush(point)
    folder.mkdir()
    return Place(kind, folder, f"{size}: {done}, {filled}")


def _aged_folder(root: Path, batches: int) -> Place:
    """Without a file system of our own: the disk is churned, but never filled."""
    folder = root / "aged-folder"
    folder.mkdir()
    done = aging.churn(folder, batches)
    aging.flush(folder)
    return Place(AGED, folder, f"{file_system(root)}, a temporary folder: {done}")


def _check_mounts_possible(root: Path) -> None:
    """Also gives this process a mount namespace of its own: mounts end with it, even when it is killed."""
    if os.uname().sysname != "Linux":
        raise CannotMount("loop devices need Linux")
    if os.geteuid() != 0:
        raise CannotMount("only root may mount")
    if missing := [name for name in ("mkfs.ext4", "mount", "umount") if shutil.which(name) is None]:
        raise CannotMount(f"{', '.join(missing)} isn't installed")
    if (free := shutil.disk_usage(root).free) < FREE_BYTES:
        raise CannotMount(f"{free / 2**30:.1f} GiB are free, {FREE_BYTES / 2**30:g} are needed")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_MOUNT_NAMESPACE) != 0:
        raise CannotMount(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
    _run("mount", "--make-rprivate", "/")


@contextmanager
def mounted_image(root: Path, name: str) -> Iterator[Path]:
    """An ext4 file system in a sparse file. The file is unlinked once mounted, so none is left over."""
    image, point = root / f"{name}.img", root / name
    point.mkdir()
    try:
        with image.open("xb") as file:
            file.truncate(IMAGE_BYTES)
        # Otherwise the kernel initializes the tables in the background, during the measurement.
        _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image))
        _run("mount", "-o", "loop", str(image), str(point))
    finally:
        image.unlink(missing_ok=True)
    try:
        yield point
    finally:
        # Lazily if a process still uses it: the mount then ends with that process.
        if subprocess.run(["umount", point], capture_output=True, check=False).returncode != 0:
            subprocess.run(["umount", "--lazy", point], check=False)


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise CannotMount(f"{argv[0]}: {done.stderr.strip() or done.returncode}")
