"""Paths resolved one component at a time, from open folder to open folder.

The kernel's resolution of a whole path is never trusted, so no link leads to another place, even one that
is created concurrently. `open_folder` follows no link at all. A `Walk` follows links as long as they stay
below its root: each is read, its target is resolved by the same rule, and `..` returns to a folder that is
already open.
"""

import errno
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from agentforge.system import linux

# `os.path.realpath` and then `open` are two resolutions, and an agent can put a link between them. `openat2`
# does both in one call, but only on newer kernels of Linux, and some sandboxes refuse it; everywhere else, a
# path costs one call for each of its folders. Both give the same answers.

# As many as Linux follows: links in a circle end with an error, not with a hang.
MAX_LINKS = 40
MAX_NAME_BYTES = 200
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking: opening a named pipe would otherwise wait for the other end.
_REGULAR = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_FOUND = {
    errno.ELOOP: "is a link",
    errno.EMLINK: "is a link",
    errno.EISDIR: "is a folder",
    errno.ENXIO: "is not a regular file",
    errno.ENODEV: "is not a regular file",
    errno.EOPNOTSUPP: "is not a regular file",
    errno.EACCES: os.strerror(errno.EACCES),
}
_DRAFT = re.compile(r"\.(.+)\.([0-9a-f]{16})\.tmp", re.DOTALL)


class NotRegular(OSError):
    """Something else than a readable regular file is in its place: a folder, a link, a pipe, a file over the
    limit."""


class OutsideRoot(OSError):
    """The path, or a link on it, leads out of the folder that it must stay in."""


# -- no links


def open_folder(path: str) -> int:
    """Open a folder whose path has no link in it; the path is absolute, or relative to the current folder."""
    try:
        if linux.can_open_without_links(path):
            return linux.open_without_links(path or ".", FOLDER)
        descriptor = os.open(path or ".", FOLDER)
    except OSError as error:
        if error.errno == errno.ENOENT and linux.can_open_without_links(path):
            raise
        return _descend(path)  # Its error names the part of the path.
    if _is_at(descriptor, path):
        return descriptor
    os.close(descriptor)
    return _descend(path)


def _is_at(descriptor: int, path: str) -> bool:
    """Whether the kernel's own name of an open folder, which has no links, is the path: this makes the walk
    unnecessary."""
    if sys.platform != "linux":
        return False
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}") == path
    except OSError:
        return False


def _descend(path: str) -> int:
    descriptor, done = os.open("/" if path.startswith("/") else ".", FOLDER), ""
    for step in steps_of(path):
        done = f"{done}/{step}"
        try:
            inner = _inner_folder(step, descriptor)
        except OSError as error:
            error.filename = f"{done}/" if path.startswith("/") else f"{done[1:]}/"
            raise
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _inner_folder(name: str, folder: int) -> int:
    if name == "..":
        raise OSError(errno.EINVAL, "a path of the engine must not contain `..`")
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK) and is_link(name, folder):
            raise OSError(errno.ELOOP, "a folder of the path is a link, which is not followed") from error
        raise


def is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


# -- regular files


def open_regular(name: str, flags: int, mode: int = 0o666, *, folder: int | None = None) -> int:
    """Open a regular file by its name in an open folder; raises NotRegular for anything else, without
    waiting."""
    try:
        descriptor = os.open(name, flags | _REGULAR, mode, dir_fd=folder)
    except OSError as error:
        if what := _FOUND.get(error.errno or 0):
            raise NotRegular(error.errno, what, name) from error
        raise
    return _regular(descriptor, name)


def open_regular_at(path: str, flags: int, mode: int = 0o666) -> int | None:
    """Like `open_regular`, for a whole path without links; None if it takes a walk to open it, or to name
    what is wrong with it."""
    if not linux.can_open_without_links(path):
        return None
    try:
        descriptor = linux.open_without_links(path, flags | _REGULAR, mode)
        return descriptor if flags & os.O_EXCL else _regular(descriptor, path)
    except (FileNotFoundError, NotRegular):
        raise
    except OSError:
        return None


def _regular(descriptor: int, name: str) -> int:
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise NotRegular(errno.EISDIR, "is a folder", name)
    raise NotRegular(errno.ENXIO, "is not a regular file", name)


def write_all(descriptor: int, content: bytes) -> None:
    # A file object makes three system calls more, which is noticeable with many small files.
    written = os.write(descriptor, content)
    while written < len(content):
        written += os.write(descriptor, content[written:])


def draft_name(name: str, owner: str = "") -> str:
    """An unpredictable name for the draft of a file; `drafted` recognises one that a crash left. `owner`
    (8 hex digits) tells drafts of several writers apart."""
    return f".{shortened(name)}.{owner or os.urandom(4).hex()}{os.urandom(4).hex()}.tmp"


def shortened(name: str) -> str:
    """The beginning of a name, to which something can be added: file systems limit its bytes."""
    return os.fsdecode(os.fsencode(name)[:MAX_NAME_BYTES])


def drafted(name: str, owner: str = "") -> str | None:
    """The file that a draft is of, or None if the name isn't a draft's or another owner's."""
    found = _DRAFT.fullmatch(name)
    return found[1] if found and found[2].startswith(owner) else None


# -- links that stay inside


class ResolvedPath(Struct, frozen=True):
    """A path without links: a name in an open folder. The file may or may not exist."""

    folder: int
    name: str
    """Empty: the root itself."""
    path: str
    """Relative to the root, with all links resolved."""


class Walk:
    """Resolves one path below a root; `_stack` contains the open folders, the root first."""

    def __init__(self, root: int, root_path: str) -> None:
        self._root_path = root_path
        self._stack = [root]
        self._names: list[str] = []
        self._links = 0

    def to(self, relative: str, make: Callable[[str], None] | None = None) -> ResolvedPath:
        """`make`: create missing folders, after it was called with their resolved path."""
        left = deque(steps_of(relative))
        while left:
            step = left.popleft()
            if step == "..":
                self._back()
                continue
            target = self._link(step)
            if target is not None:
                left.extendleft(reversed(self._target(target)))
            elif left:
                self._enter(step, make)
            else:
                return ResolvedPath(self._stack[-1], step, "/".join((*self._names, step)))
        return self._here()

    def close(self) -> None:
        while len(self._stack) > 1:
            os.close(self._stack.pop())

    def _here(self) -> ResolvedPath:
        """The path ended in an open folder: name it relative to its parent."""
        if not self._names:
            return ResolvedPath(self._stack[0], "", ".")
        return ResolvedPath(self._stack[-2], self._names[-1], "/".join(self._names))

    def _enter(self, name: str, make: Callable[[str], None] | None) -> None:
        try:
            inner = os.open(name, FOLDER, dir_fd=self._stack[-1])
        except FileNotFoundError:
            if make is None:
                raise
            make("/".join((*self._names, name)))
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self._stack[-1])
            inner = os.open(name, FOLDER, dir_fd=self._stack[-1])
        self._stack.append(inner)
        self._names.append(name)

    def _back(self) -> None:
        if not self._names:
            raise OutsideRoot(errno.EXDEV, "is outside the workspace")
        os.close(self._stack.pop())
        self._names.pop()

    def _link(self, name: str) -> str | None:
        try:
            return os.readlink(name, dir_fd=self._stack[-1])
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None
            raise

    def _target(self, target: str) -> list[str]:
        self._links += 1
        if self._links > MAX_LINKS:
            raise NotRegular(errno.ELOOP, "too many links")
        if not os.path.isabs(target):
            return steps_of(target)
        if target != self._root_path and not target.startswith(self._root_path.rstrip("/") + "/"):
            raise OutsideRoot(errno.EXDEV, "is a link that leads outside the workspace")
        while self._names:
            self._back()
        return steps_of(target[len(self._root_path) :])


def steps_of(path: str) -> list[str]:
    return [step for step in path.split("/") if step not in ("", ".")]
