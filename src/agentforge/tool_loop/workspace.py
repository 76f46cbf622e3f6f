"""Access to the files of one folder only: paths are resolved one component at a time, from open folder to
open folder.

A path is never passed to the kernel as a whole, so no link can lead outside, even one created concurrently:
each name is opened relative to its parent, without following links; a link is read and its target is resolved
by the same rule, and `..` returns to a folder that is already open.
"""

import errno
import os
import secrets
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from msgspec import Struct

from agentforge.model.protected_names import folded

MAX_LINKS = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ToolError(Exception):
    """An error of a tool; the message is shown to the model."""


class Spot(Struct, frozen=True):
    """A name in an open folder; the file may or may not exist."""

    folder: int
    name: str
    """Empty: the workspace itself."""
    path: str
    """Relative to the workspace root, with all links resolved."""


class FolderEntry(Struct, frozen=True):
    name: str
    kind: str
    """file, folder, link or other."""
    size: int


class WorkspaceFolder:
    def __init__(self, root: str, protected: tuple[str, ...] = (), writable: tuple[str, ...] = ()) -> None:
        self.root = os.path.realpath(root)
        self._given = os.path.abspath(root)
        self._descriptor = os.open(self.root, _FOLDER)
        self._protected = tuple(folded(self._inside(path)) for path in protected)
        self._writable = tuple(folded(self._inside(path)) for path in writable)

    def close(self) -> None:
        os.close(self._descriptor)

    def read(self, path: str, limit: int) -> tuple[bytes, int]:
        """Up to `limit` bytes from the start of the file, and its size."""
        with self._at(path) as spot, self._opened(spot, path) as descriptor:
            size = os.fstat(descriptor).st_size
            content = b""
            while len(content) < limit:
                more = os.read(descriptor, limit - len(content))
                if not more:
                    break
                content += more
            return content, max(size, len(content))

    def write(self, path: str, content: bytes) -> str:
        """Write the file atomically, creating missing folders; returns the resolved path."""
        with self._at(path, make=True) as spot:
            self._refuse_protected(spot, path)
            mode = self._mode_of(spot, path)
            draft = f".{spot.name[:200]}.{secrets.token_hex(4)}.tmp"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(draft, flags, mode, dir_fd=spot.folder)
            try:
                with open(descriptor, "wb") as file:
                    file.write(content)
                os.replace(draft, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=spot.folder)
                raise
            return spot.path

    def entries(self, path: str = ".") -> list[FolderEntry]:
        with self._at(path) as spot, self._folder(spot) as descriptor:
            found = []
            with os.scandir(descriptor) as listing:
                for entry in listing:
                    about = entry.stat(follow_symlinks=False)
                    found.append(FolderEntry(entry.name, _kind(about.st_mode), about.st_size))
            return sorted(found, key=lambda entry: entry.name)

    def is_folder(self, path: str) -> bool:
        with self._at(path) as spot:
            if not spot.name:
                return True
            try:
                return stat.S_ISDIR(os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False).st_mode)
            except FileNotFoundError:
                raise ToolError(f"{path}: no such file or folder") from None

    @contextmanager
    def _at(self, path: str, *, make: bool = False) -> Iterator[Spot]:
        walk = _Walk(self._descriptor, self.root, path)
        try:
            with tool_errors(path):
                spot = walk.to(self._relative(path), make)
                yield spot
        finally:
            walk.close()

    @contextmanager
    def _opened(self, spot: Spot, path: str) -> Iterator[int]:
        if not spot.name:
            raise ToolError(f"{path}: is a folder")
        # Non-blocking: opening a named pipe would otherwise wait for a writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(spot.name, flags, dir_fd=spot.folder)
        try:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise ToolError(f"{path}: is {'a folder' if stat.S_ISDIR(mode) else 'not a regular file'}")
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _folder(self, spot: Spot) -> Iterator[int]:
        descriptor = os.open(spot.name or ".", _FOLDER, dir_fd=spot.folder)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _mode_of(self, spot: Spot, path: str) -> int:
        """The mode of the file to replace, so that a script stays executable."""
        if not spot.name:
            raise ToolError(f"{path}: is a folder")
        try:
            mode = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return 0o666
        if not stat.S_ISREG(mode):
            raise ToolError(f"{path}: is {'a folder' if stat.S_ISDIR(mode) else 'not a regular file'}")
        return stat.S_IMODE(mode)

    def _refuse_protected(self, spot: Spot, path: str) -> None:
        place = folded(spot.path)
        _refuse_git(place, path)
        if below(place, self._protected) > below(place, self._writable):
            raise ToolError(f"{path}: belongs to the pipeline; call `complete` to submit your result")

    def _relative(self, path: str) -> str:
        if "\0" in path:
            raise ToolError("a path can't contain a null character")
        if not os.path.isabs(path):
            return path
        for root in (self._given, self.root):
            if path == root or path.startswith(root.rstrip("/") + "/"):
                return path[len(root) :].lstrip("/")
        raise ToolError(f"{path}: outside the workspace; use a path relative to it")

    def _inside(self, path: str) -> str:
        """A path relative to the root, as the walk would name it; outside the workspace it starts with
        `..`."""
        folder, name = os.path.split(os.path.abspath(path))
        return os.path.relpath(os.path.join(os.path.realpath(folder), name), self.root)


class _Walk:
    """Resolves one path; `_stack` contains the open folders, the workspace first."""

    def __init__(self, root: int, root_path: str, shown: str) -> None:
        self._root_path = root_path
        self._shown = shown
        self._stack = [root]
        self._names: list[str] = []
        self._links = 0

    def to(self, relative: str, make: bool) -> Spot:
        left = deque(_steps(relative))
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
                return Spot(self._stack[-1], step, "/".join((*self._names, step)))
        return self._here()

    def close(self) -> None:
        while len(self._stack) > 1:
            os.close(self._stack.pop())

    def _here(self) -> Spot:
        """The path ended in an open folder: name it relative to its parent."""
        if not self._names:
            return Spot(self._stack[0], "", ".")
        return Spot(self._stack[-2], self._names[-1], "/".join(self._names))

    def _enter(self, name: str, make: bool) -> None:
        if make:
            _refuse_git(name, self._shown)
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self._stack[-1])
        self._stack.append(os.open(name, _FOLDER, dir_fd=self._stack[-1]))
        self._names.append(name)

    def _back(self) -> None:
        if not self._names:
            raise ToolError(f"{self._shown}: is outside the workspace")
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
            raise ToolError(f"{self._shown}: too many links")
        if not os.path.isabs(target):
            return _steps(target)
        if target != self._root_path and not target.startswith(self._root_path.rstrip("/") + "/"):
            raise ToolError(f"{self._shown}: is a link that leads outside the workspace")
        while self._names:
            self._back()
        return _steps(target[len(self._root_path) :])


@contextmanager
def tool_errors(path: str) -> Iterator[None]:
    """Translate OSErrors to ToolErrors."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ToolError(f"{path}: a part of the path is not a folder") from error
        raise ToolError(f"{path}: {(error.strerror or str(error)).lower()}") from error


def below(path: str, folders: tuple[str, ...]) -> int:
    """The length of the deepest of the folders that contains the path, or 0."""
    return max(
        (len(folder) for folder in folders if path == folder or path.startswith(f"{folder}/")), default=0
    )


def _refuse_git(place: str, shown: str) -> None:
    if ".git" in folded(place).split("/"):
        raise ToolError(f"{shown}: tools can't write git's own files")


def _steps(path: str) -> list[str]:
    return [step for step in path.split("/") if step not in ("", ".")]


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"
