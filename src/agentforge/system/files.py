"""The one module that reads and writes the files of runs: agents can write to the same folders.

- Paths are absolute and have no links in them: the project's own path is resolved once, when the engine
  starts. Every link that is found on the way is refused.
- Only regular files are opened, without waiting, and read up to a limit. Anything else is `UnusableFile`.
- No file is changed in place, except by `append`: new ones are created exclusively, others are replaced by
  renaming a draft. A folder that is in the way of a file is moved aside.

The user's own files in the workspace are accessed through `ConfinedFolder`. Every OSError becomes a
StorageFailed that names the path and the next step. Only `open_file`, `rename`, `link`, `make_directory`,
`sync` and `sync_directory` raise OSError: `Disk`, which the log uses, retries first.
"""

import errno
import fcntl
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from agentforge.model.errors import StorageFailed, UnusableFile
from agentforge.system.folders import (
    FOLDER,
    NotRegular,
    draft_name,
    drafted,
    open_folder,
    open_regular,
    open_regular_at,
    shortened,
    write_all,
)

# How it works. An agent works as the same user in the same folders, so each name here may be a link, a pipe,
# a device or a folder, and may change between a look and its use. Permissions can't prevent that; checking a
# path first and opening it then doesn't either. So each operation works on descriptors: a folder is opened
# without following any link (system/folders.py), and the file by its name in that folder, with O_NOFOLLOW,
# and without waiting, because a pipe without a writer would stop the engine for ever. What was opened is then
# looked at, by its descriptor.
#
# - Apart from `append`, a write never goes through an existing file: it may be a hard link to a file of the
#   user. A draft is created exclusively and renamed; the rename replaces the name only.
# - Readers see the old or the new content, also after a crash. Durability is a second question: only callers
#   that say so wait for the disk (`Disk`), as one sync costs more than all other work of an iteration
#   (decision 15).
# - A folder in the way is moved aside, not removed: it may be the user's, and shows what an agent did.

MAX_BYTES = 64 * 1024 * 1024
"""The largest file that is read at once, unless the caller sets another limit."""
LOCK_SECONDS = 3.0
"""How long `locked` waits: an agent can hold the lock for ever."""
PLACE_TRIES = 10
PRIVATE = 0o700
"""The mode of a run's folders: prompts and outputs are for their owner."""

_GET_GENERATION = 0x80087601
"""FS_IOC_GETVERSION of 64-bit Linux."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND

_IN_THE_WAY = "another file or folder has this path: move it, then resume the run"
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
    errno.ENXIO: _IN_THE_WAY,
    errno.EXDEV: "use a file inside the project instead",
    errno.EFBIG: _IN_THE_WAY,
    errno.EAGAIN: "end the process that holds it (`fuser FILE` names it)",
    errno.EMFILE: "raise the limit on open files (`ulimit -n`), then resume the run",
}


def storage_failed(what: str, error: OSError) -> StorageFailed:
    """The only translation of OSErrors; `what` is a path, or "can't DO SOMETHING"."""
    hint = _HINTS.get(error.errno or 0, "check the disk, then resume the run; no recorded event is lost")
    if error.errno == errno.ENOENT:
        hint = f"{_missing(error.filename)} is missing: restore it, or start over with --force"
    kind = UnusableFile if isinstance(error, NotRegular) else StorageFailed
    reason = error.strerror or str(error)
    # Reasons of our own continue the sentence: "FILE is not a regular file".
    return kind(f"{what}{'' if reason.startswith('is ') else ':'} {reason}", hint=hint)


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
    """Open a regular file; raises OSError."""
    descriptor = open_regular_at(path, flags, mode)
    if descriptor is not None:
        return descriptor
    with _Parent(path) as folder:
        return open_regular(os.path.basename(path), flags, mode, folder=folder)


class _Parent:
    """The open folder of a path; errors name the whole path."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> int:
        self._descriptor = open_folder(os.path.dirname(self._path))
        return self._descriptor

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        os.close(self._descriptor)
        if isinstance(error, OSError):
            error.filename = self._path


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
    fd = open_folder(path)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# -- folders


def make_dir(path: str, mode: int = PRIVATE) -> bool:
    """Create the folder if it is missing; returns whether it was created. Missing parents get the default
    mode."""
    with storage(path):
        try:
            return make_directory(path, mode)
        except FileNotFoundError:
            _make_parents(path)
            return make_directory(path, mode)


def make_new_dir(path: str) -> None:
    """Create the folder, which must not exist, and its parents if they are missing."""
    if not make_dir(path):
        raise storage_failed(path, FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path))


def make_directory(path: str, mode: int = PRIVATE) -> bool:
    """Like `make_dir`, but the parent must exist; raises OSError."""
    name = os.path.basename(path)
    with _Parent(path) as folder:
        try:
            os.mkdir(name, mode, dir_fd=folder)
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise
            return False
        return True


def _make_parents(path: str) -> None:
    parent = os.path.dirname(path)
    try:
        make_directory(parent, 0o777)
    except FileNotFoundError:
        if os.path.dirname(parent) == parent:
            raise
        _make_parents(parent)
        make_directory(parent, 0o777)


def is_dir(path: str) -> bool:
    """Whether a folder is there."""
    try:
        os.close(open_folder(path))
    except OSError:
        return False
    return True


def folder_identity(path: str) -> tuple[int, int]:
    """Device and inode of a folder."""
    with storage(path):
        descriptor = open_folder(path)
        try:
            about = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        return about.st_dev, about.st_ino


def obstacle(path: str, *, below: str) -> str:
    """The first thing on the way down to the path that isn't a folder, also a link; empty: none."""
    step = below
    for name in os.path.relpath(path, below).split(os.sep):
        step = os.path.join(step, name)
        if os.path.lexists(step) and (os.path.islink(step) or not os.path.isdir(step)):
            return step
    return ""


def listing(path: str) -> list[str]:
    """The names in a folder, or [] if the folder is missing."""
    with storage(path):
        try:
            descriptor = open_folder(path)
        except FileNotFoundError:
            return []
        try:
            return os.listdir(descriptor)
        finally:
            os.close(descriptor)


def subfolders(path: str) -> list[str]:
    """The names of the folders in a folder, without links; [] if the folder is missing."""
    with storage(path):
        try:
            descriptor = open_folder(path)
        except FileNotFoundError:
            return []
        try:
            with os.scandir(descriptor) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        finally:
            os.close(descriptor)


def remove_drafts(path: str, of: str = "") -> None:
    """Remove the drafts that a crash left in a folder, all or those of one file; the caller owns them."""
    for name in listing(path):
        if (file := drafted(name)) is not None and file == (shortened(of) or file):
            remove(os.path.join(path, name))


# -- writing


def write(path: str, content: bytes) -> None:
    """Write a file without waiting for the disk; creates its folder if it is missing."""
    with storage(path):
        try:
            _write(path, content)
        except FileNotFoundError:
            _make_parents(path)
            _write(path, content)


def _write(path: str, content: bytes) -> None:
    try:
        _fill(open_file(path, _NEW), content)
    except FileExistsError:
        with _Parent(path) as folder:
            _replace(folder, os.path.basename(path), content)


def replace(path: str, content: bytes, *, durable: bool = False, mode: int = 0o666) -> None:
    """Replace a file atomically: a reader sees the old or the new content, never a part. `durable`: wait
    until the content is on the disk; the name may not be."""
    with storage(path), _Parent(path) as folder:
        _replace(folder, os.path.basename(path), content, durable=durable, mode=mode)


def _replace(folder: int, name: str, content: bytes, *, durable: bool = False, mode: int = 0o666) -> None:
    draft = draft_name(name)
    try:
        _fill(open_regular(draft, _NEW, mode, folder=folder), content, durable=durable)
        _rename(folder, draft, folder, name)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise


def _rename(folder: int, name: str, into: int, target: str) -> None:
    try:
        os.replace(name, target, src_dir_fd=folder, dst_dir_fd=into)
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST):
            raise
        # A folder in the place of a file, or the other way round.
        _aside(into, target)
        os.replace(name, target, src_dir_fd=folder, dst_dir_fd=into)


def place(path: str, content: bytes, prefix: str = "") -> bool:
    """Create a write-once file atomically and durably; False if it exists already. `prefix`: what another
    program begins the names of its drafts with, if it is to remove one that a crash leaves."""
    name = os.path.basename(path)
    with storage(path), _Parent(path) as folder:
        for _ in range(PLACE_TRIES - 1):
            # Engines that start in between remove the draft as a leftover.
            with suppress(FileNotFoundError):
                return _place(folder, name, content, prefix)
        return _place(folder, name, content, prefix)


def _place(folder: int, name: str, content: bytes, prefix: str) -> bool:
    draft = f"{prefix}{os.urandom(8).hex()}" if prefix else draft_name(name)
    try:
        _fill(open_regular(draft, _NEW, folder=folder), content, durable=True)
        os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)
    os.fsync(folder)
    return True


def create(path: str) -> bool:
    """Create an empty file; False if the path exists already."""
    with storage(path):
        try:
            os.close(open_file(path, _NEW))
        except FileExistsError:
            return False
        return True


def append(path: str, content: bytes) -> None:
    """Append to a file, in one write."""
    with storage(path):
        _fill(open_file(path, _APPEND), content)


def _fill(descriptor: int, content: bytes, *, durable: bool = False) -> None:
    try:
        write_all(descriptor, content)
        if durable:
            sync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Remove a file if it exists."""
    with storage(path), suppress(FileNotFoundError), _Parent(path) as folder:
        os.unlink(os.path.basename(path), dir_fd=folder)


def remove_tree(path: str, last: str = "") -> None:
    """Remove a folder with all that is in it; links are removed, not followed. `last`: the name of a file
    that stays until everything else is gone."""
    with storage(path), suppress(FileNotFoundError), _Parent(path) as parent:
        name = os.path.basename(path)
        folder = os.open(name, FOLDER, dir_fd=parent)
        try:
            while names := [found for found in os.listdir(folder) if found != last]:
                for found in names:
                    _remove_entry(folder, found)
            if last:
                with suppress(FileNotFoundError):
                    os.unlink(last, dir_fd=folder)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=parent)


def _remove_entry(folder: int, name: str) -> None:
    """Remove a file, or a folder after its own folders were moved up: this needs no recursion, however deep
    they are."""
    with suppress(FileNotFoundError):
        if not _is_folder(folder, name):
            os.unlink(name, dir_fd=folder)
            return
        inner = os.open(name, FOLDER, dir_fd=folder)
        try:
            for found in os.listdir(inner):
                if _is_folder(inner, found):
                    os.rename(found, os.urandom(16).hex(), src_dir_fd=inner, dst_dir_fd=folder)
                else:
                    os.unlink(found, dir_fd=inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)


def _is_folder(folder: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def remove_empty_dir(path: str) -> None:
    """Remove a folder if it exists and is empty."""
    with suppress(OSError, ValueError), _Parent(path) as folder:
        os.rmdir(os.path.basename(path), dir_fd=folder)


def move(path: str, target: str) -> None:
    """Move a file or folder within the same file system; a file at the target is replaced."""
    with storage(path):
        rename(path, target)


def rename(path: str, target: str) -> None:
    """Like `move`, but raises OSError."""
    with _Parent(path) as folder, _Parent(target) as into:
        _rename(folder, os.path.basename(path), into, os.path.basename(target))


def move_aside(path: str) -> str | None:
    """Rename whatever is at the path, a link itself included, and return its new path; None if there is
    nothing."""
    folder, name = os.path.split(path)
    with storage(path):
        try:
            with _Parent(path) as parent:
                return os.path.join(folder, _aside(parent, name))
        except FileNotFoundError:
            return None


def free_name(path: str) -> str:
    """The path, or if something is there, the path with the first number that makes it free."""
    free, number = path, 1
    while os.path.lexists(free):
        number += 1
        free = f"{path}-{number}"
    return free


def _aside(folder: int, name: str) -> str:
    aside = f"{shortened(name)}.{os.urandom(4).hex()}"
    os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
    return aside


def link(path: str, target: str) -> None:
    """Give a file another name, which must be free; raises OSError."""
    with _Parent(path) as folder, _Parent(target) as into:
        name, other = os.path.basename(path), os.path.basename(target)
        os.link(name, other, src_dir_fd=folder, dst_dir_fd=into, follow_symlinks=False)


@contextmanager
def locked(path: str, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Wait for and hold the lock on a lock file, which is created if missing and never removed. Raises
    StorageFailed if others hold it for longer than `seconds`."""
    with storage(path):
        descriptor = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        with storage(path):
            _lock(descriptor, seconds=seconds)
        yield
    finally:
        os.close(descriptor)


def lock_shared(path: str) -> int:
    """Open a lock file, which is created if missing, with a shared lock. Raises StorageFailed if another
    process has it alone for longer than LOCK_SECONDS."""
    with storage(path):
        descriptor = open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            _lock(descriptor, fcntl.LOCK_SH)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def lock_alone(descriptor: int) -> bool:
    """Turn a shared lock into an exclusive one; False if others share it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def overwrite(descriptor: int, content: bytes) -> None:
    """Replace the content of a locked file, which must stay the same file."""
    with storage("can't write a lock file"):
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        write_all(descriptor, content)


def _lock(descriptor: int, kind: int = fcntl.LOCK_EX, seconds: float | None = None) -> None:
    seconds = LOCK_SECONDS if seconds is None else seconds
    end = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= end:
                held = f"another process has held the lock for {seconds:g} seconds"
                raise OSError(errno.EAGAIN, held) from error
        time.sleep(0.01)


# -- reading


def is_file(path: str) -> bool:
    """Whether a regular file is there."""
    return about(path) is not None


def about(path: str) -> os.stat_result | None:
    """The metadata of a regular file; None if it is missing or something else."""
    try:
        with _Parent(path) as folder:
            found = os.stat(os.path.basename(path), dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def entry_identity(path: str) -> tuple[int, int, int] | None:
    """Tells a file, a folder or a link from everything else that was or will be at its path; None if there is
    nothing. Of two entries with one inode, only the generations of files and folders differ."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    number = generation(path, is_folder=stat.S_ISDIR(found.st_mode))
    return found.st_dev, found.st_ino, number


def generation(path: str, *, is_folder: bool = False) -> int:
    """A number that tells a file from an earlier one with the same inode; 0 if the file system has none."""
    if sys.platform != "linux":
        return 0
    try:
        descriptor = open_folder(path) if is_folder else open_file(path)
    except OSError:
        return 0
    try:
        return int.from_bytes(fcntl.ioctl(descriptor, _GET_GENERATION, bytes(8))[:4], sys.byteorder)
    except OSError:
        return 0
    finally:
        os.close(descriptor)


def read_text(path: str, max_bytes: int = MAX_BYTES) -> str | None:
    """The text, with invalid bytes replaced, or None if the file is missing."""
    content = read_bytes(path, max_bytes)
    return None if content is None else content.decode("utf-8", "replace")


def read_bytes(path: str, max_bytes: int = MAX_BYTES) -> bytes | None:
    """The file's content when it was opened, or None if the file is missing; raises UnusableFile if it has
    more than `max_bytes` bytes or isn't a regular file."""
    with storage(path):
        try:
            return _slurp(open_file(path), max_bytes)
        except FileNotFoundError:
            return None


def read_usable(path: str, max_bytes: int = MAX_BYTES) -> bytes | None:
    """Like `read_bytes`, but also None for anything else than a regular file of at most `max_bytes`."""
    try:
        return read_bytes(path, max_bytes)
    except UnusableFile:
        return None


def read_named(path: str, max_bytes: int = MAX_BYTES, *, cut: bool = False) -> bytes | None:
    """Like `read_bytes`, for a file that the user named: links on its path are followed. Of a larger file,
    the first `max_bytes` are returned if `cut`."""
    with storage(path):
        try:
            return _slurp(open_regular(os.path.realpath(path), os.O_RDONLY), max_bytes, cut=cut)
        except FileNotFoundError:
            return None


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


def _slurp(descriptor: int, max_bytes: int, *, cut: bool = False) -> bytes:
    try:
        size = os.fstat(descriptor).st_size
        if size > max_bytes and not cut:
            raise NotRegular(errno.EFBIG, f"{size} bytes exceed the limit of {max_bytes}")
        return _read(descriptor, min(size, max_bytes))
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int) -> bytes:
    content = os.read(descriptor, size)
    while len(content) < size and (more := os.read(descriptor, size - len(content))):
        content += more
    return content


# -- JSON


def pretty(value: Any) -> bytes:
    """Human-readable JSON: indented by two spaces, with a final newline."""
    return indented(msgspec.json.encode(value))


def indented(encoded: bytes) -> bytes:
    """JSON as `pretty` writes it."""
    return msgspec.json.format(encoded, indent=2) + b"\n"


def compact(value: Any) -> bytes:
    return msgspec.json.encode(value) + b"\n"
