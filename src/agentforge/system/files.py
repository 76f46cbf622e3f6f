"""The one module that reads and writes files below a project.

Every OSError becomes a StorageFailed that names the path and the next step. Only `open_file`, `sync` and
`sync_directory` raise OSError: `Disk`, which the log uses, retries first.
"""

import errno
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from agentforge.model.errors import StorageFailed

MAX_BYTES = 1 << 30
"""The largest file that is read at once, unless the caller sets another limit."""

_WRITE = os.O_WRONLY | os.O_CREAT
_NEW = _WRITE | os.O_TRUNC

_IN_THE_WAY = "another file or folder is in the way: move it away, then resume the run"
_NOT_PERMITTED = "check the permissions of the file and its folder, then resume the run"
_HINTS = {
    errno.ENOSPC: "free some space, then resume the run",
    errno.EDQUOT: "free some of your quota, then resume the run",
    errno.EROFS: "the file system is read-only: make it writable or move the project",
    errno.EACCES: _NOT_PERMITTED,
    errno.EPERM: _NOT_PERMITTED,
    errno.EEXIST: _IN_THE_WAY,
    errno.EISDIR: _IN_THE_WAY,
    errno.ENOTDIR: _IN_THE_WAY,
    errno.ELOOP: _IN_THE_WAY,
    errno.EMFILE: "raise the limit on open files (`ulimit -n`), then resume the run",
}


def storage_failed(what: str, error: OSError) -> StorageFailed:
    """The only translation of OSErrors; `what` is a path, or "can't DO SOMETHING"."""
    hint = _HINTS.get(error.errno or 0, "check the disk, then resume the run: nothing recorded is lost")
    if error.errno == errno.ENOENT:
        hint = f"{_missing(error.filename)} is missing: restore it, or start over with --force"
    return StorageFailed(f"{what}: {error.strerror or error}", hint=hint)


def _missing(path: object) -> str:
    """The topmost part of the path that doesn't exist."""
    if not isinstance(path, str):
        return "a file or folder"
    above = os.path.dirname(path)
    if not above or os.path.isdir(above):
        return path
    while (parent := os.path.dirname(above)) and not os.path.isdir(parent):
        above = parent
    return f"the folder {above}"


class storage:  # noqa: N801 - read as a verb: `with files.storage(path):`
    """Translate the OSErrors of a block."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, OSError):
            raise storage_failed(self._what, error) from error


# -- descriptors


def open_file(path: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Everything below a project is opened here."""
    return os.open(path, flags | os.O_CLOEXEC, mode)


def sync(fd: int) -> None:
    """Wait until the file's content and length are on the disk."""
    if sys.platform == "darwin":
        # There fsync only reaches the drive's cache.
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        # Skips only timestamps; the file's new length is written, since reading it back needs it.
        os.fdatasync(fd)


def sync_directory(path: str) -> None:
    """Wait until the names in a folder are on the disk."""
    fd = open_file(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# -- writing


def make_dir(path: str) -> bool:
    """Create the folder if it is missing; returns whether it was created."""
    with storage(path):
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
            return False
        except FileNotFoundError:
            os.makedirs(path, exist_ok=True)
        return True


def make_new_dir(path: str) -> None:
    """Create the folder, which must not exist, and its parents if they are missing."""
    with storage(path):
        try:
            os.mkdir(path)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.mkdir(path)


def make_private_dir(path: str) -> None:
    """Create the folder if it is missing; only its owner can read it."""
    with storage(path):
        os.makedirs(path, 0o700, exist_ok=True)
        if os.stat(path).st_mode & 0o077:
            os.chmod(path, 0o700)


def write(path: str, content: bytes) -> None:
    """Write a file without waiting for the disk; creates its folder if it is missing."""
    with storage(path):
        try:
            _fill(path, content, _NEW)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _fill(path, content, _NEW)


def write_private(path: str, content: bytes) -> None:
    """Write a file that only its owner can read: it contains an environment, which may contain secrets."""
    with storage(path):
        _fill(path, content, _NEW, 0o600)


def replace(path: str, content: bytes, *, draft: str = "") -> None:
    """Replace a file atomically: a reader sees the old or the new content, never a part.

    The draft always has the same name, so that one left over by a crash is overwritten. If processes other
    than the lease holder may write to the path, the caller must pass a unique draft name.
    """
    temporary = draft or f"{path}.tmp"
    with storage(path):
        try:
            _fill(temporary, content, _NEW)
            os.replace(temporary, path)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)
            raise


def place(path: str, content: bytes) -> bool:
    """Create a write-once file atomically and durably; False if it exists already."""
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{os.getpid()}")
    with storage(path):
        try:
            _fill(draft, content, _NEW, durable=True)
            os.link(draft, path)
        except FileExistsError:
            return False
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)
        sync_directory(folder)
        return True


def create(path: str) -> bool:
    """Create an empty file; False if the path exists already."""
    with storage(path):
        try:
            os.close(open_file(path, _WRITE | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def append(path: str, content: bytes) -> None:
    """Append to a file, in one write."""
    with storage(path):
        _fill(path, content, _WRITE | os.O_APPEND)


def _fill(path: str, content: bytes, flags: int, mode: int = 0o666, *, durable: bool = False) -> None:
    # Three system calls; a file object makes six, which is noticeable with many small files.
    descriptor = open_file(path, flags, mode)
    try:
        written = os.write(descriptor, content)
        while written < len(content):
            written += os.write(descriptor, content[written:])
        if durable:
            sync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Remove a file if it exists."""
    with storage(path), suppress(FileNotFoundError):
        os.unlink(path)


def move(path: str, target: str) -> None:
    """Move a file or folder within the same file system; a file at the target is replaced."""
    with storage(path):
        os.replace(path, target)


def move_aside(path: str) -> str | None:
    """Rename whatever is at the path, a link itself included, and return its new path; None if there is
    nothing."""
    aside = f"{path}.{os.urandom(4).hex()}"
    with storage(path):
        try:
            os.rename(path, aside)
        except FileNotFoundError:
            return None
    return aside


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Wait for and hold the lock on a lock file, which is created if missing and never removed."""
    with storage(path):
        descriptor = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        with storage(path):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# -- reading


def read_text(path: str, max_bytes: int = MAX_BYTES) -> str | None:
    """The text, with invalid bytes replaced, or None if the file is missing."""
    content = read_bytes(path, max_bytes)
    return None if content is None else content.decode("utf-8", "replace")


def read_bytes(path: str, max_bytes: int = MAX_BYTES, *, links: bool = True) -> bytes | None:
    """The file's content when it was opened, or None if the file is missing; raises StorageFailed if it has
    more than `max_bytes` bytes, or if it is a link and `links` is False."""
    with storage(path):
        try:
            return _slurp(path, max_bytes, 0 if links else os.O_NOFOLLOW)
        except FileNotFoundError:
            return None


def read_existing(path: str, max_bytes: int = MAX_BYTES) -> bytes:
    """Like `read_bytes`, but raises StorageFailed if the file is missing."""
    with storage(path):
        return _slurp(path, max_bytes)


def read_part(path: str, begin: int, max_bytes: int) -> tuple[bytes, int]:
    """At most `max_bytes` bytes and their offset; a negative `begin` counts from the end. A file that can't
    be read counts as empty."""
    try:
        descriptor = open_file(path)
    except OSError:
        return b"", 0
    try:
        size = os.fstat(descriptor).st_size
        begin = os.lseek(descriptor, max(0, size + begin) if begin < 0 else begin, os.SEEK_SET)
        return _read(descriptor, min(max_bytes, max(0, size - begin))), begin
    except OSError:
        return b"", 0
    finally:
        os.close(descriptor)


def _slurp(path: str, max_bytes: int, flags: int = 0) -> bytes:
    descriptor = open_file(path, os.O_RDONLY | flags)
    try:
        size = os.fstat(descriptor).st_size
        if size > max_bytes:
            raise OSError(errno.EFBIG, f"{size} bytes exceed the limit of {max_bytes}")
        return _read(descriptor, size)
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int) -> bytes:
    content = os.read(descriptor, size)
    while len(content) < size and (more := os.read(descriptor, size - len(content))):
        content += more
    return content


def listing(path: str) -> list[str]:
    """The names in a folder, or [] if the folder is missing."""
    with storage(path):
        try:
            return os.listdir(path)
        except FileNotFoundError:
            return []


# -- JSON


def pretty(value: Any) -> bytes:
    """Human-readable JSON: indented by two spaces, with a final newline."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def compact(value: Any) -> bytes:
    return msgspec.json.encode(value) + b"\n"
