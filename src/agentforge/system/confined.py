"""Access to the files of one folder only, such as the user's files in a workspace: links are followed as
long as they stay inside."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from types import TracebackType

from msgspec import Struct

from agentforge.system.folders import (
    FOLDER,
    NotRegular,
    OutsideRoot,
    ResolvedPath,
    Walk,
    draft_name,
    drafted,
    open_regular,
    shortened,
    write_all,
)

# The root is opened once, and every path is walked from its descriptor. If an agent moves or replaces the
# folder meanwhile, calls still end in the one that was opened, while the same path could lead to another.
# Files are replaced by a draft beside them and a rename in the same open folder: no name is resolved
# twice, and a reader sees the old content or the new one.


class FolderEntry(Struct, frozen=True):
    name: str
    kind: str
    """file, folder, link or other."""
    size: int


class FolderListing(Struct, frozen=True):
    identity: tuple[int, int] = (0, 0)
    """Device and inode of the folder."""
    kinds: tuple[tuple[str, str], ...] = ()
    """Name and kind of its entries, sorted."""


class ConfinedFolder:
    """Paths are relative to the root, or absolute below it. All methods raise OSError."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._given = os.path.abspath(root)
        self._descriptor = os.open(self.root, FOLDER)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> "ConfinedFolder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, path: str, limit: int) -> tuple[bytes, int]:
        """Up to `limit` bytes from the start of the file, and its size."""
        with self.at(path) as resolved:
            descriptor = open_regular(_file_name(resolved), os.O_RDONLY, folder=resolved.folder)
            try:
                size = os.fstat(descriptor).st_size
                content = b""
                while len(content) < limit and (more := os.read(descriptor, limit - len(content))):
                    content += more
                # It may have grown since.
                return content, max(size, len(content))
            finally:
                os.close(descriptor)

    def write(
        self,
        path: str,
        content: bytes,
        check: Callable[[str], None] = lambda _path: None,
        owner: str = "",
        *,
        executable: bool = False,
    ) -> str:
        """Replace the file atomically, creating missing folders; returns the resolved path. `check` raises
        for a resolved path that must not be made. Drafts that a crash left to the same `owner` are
        removed. `executable`: make it so; a script that is replaced stays so anyway."""
        with self.at(path, make=check) as resolved:
            check(resolved.path)
            mode = _mode_of(resolved) | (0o111 if executable else 0)
            if owner:
                _remove_drafts(resolved, owner)
            draft = draft_name(resolved.name, owner)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            descriptor = open_regular(draft, flags, mode, folder=resolved.folder)
            try:
                try:
                    write_all(descriptor, content)
                finally:
                    os.close(descriptor)
                os.replace(draft, resolved.name, src_dir_fd=resolved.folder, dst_dir_fd=resolved.folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=resolved.folder)
                raise
            return resolved.path

    def entries(self, path: str = ".") -> list[FolderEntry]:
        with self.at(path) as resolved:
            descriptor = os.open(resolved.name or ".", FOLDER, dir_fd=resolved.folder)
            try:
                with os.scandir(descriptor) as listing:
                    found = [
                        FolderEntry(entry.name, _kind(entry), entry.stat(follow_symlinks=False).st_size)
                        for entry in listing
                    ]
            finally:
                os.close(descriptor)
            return sorted(found, key=lambda entry: entry.name)

    def listing(self, path: str, max_entries: int) -> FolderListing:
        """Like `entries`, but without sizes; at most `max_entries` and one more."""
        with self.at(path) as resolved:
            descriptor = os.open(resolved.name or ".", FOLDER, dir_fd=resolved.folder)
            try:
                about = os.fstat(descriptor)
                with os.scandir(descriptor) as found:
                    kinds = [(entry.name, _kind(entry)) for entry in islice(found, max_entries + 1)]
            finally:
                os.close(descriptor)
            return FolderListing((about.st_dev, about.st_ino), tuple(sorted(kinds)))

    def stat(self, path: str) -> os.stat_result | None:
        """About the file or folder that the path leads to, or None if nothing is there."""
        try:
            with self.at(path) as resolved:
                return os.stat(resolved.name or ".", dir_fd=resolved.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    @contextmanager
    def at(self, path: str, *, make: Callable[[str], None] | None = None) -> Iterator[ResolvedPath]:
        """`make`: create missing folders, after it was called with their resolved path."""
        walk = Walk(self._descriptor, self.root)
        try:
            yield walk.to(self._relative(path), make)
        finally:
            walk.close()

    def _relative(self, path: str) -> str:
        if "\0" in path:
            raise NotRegular(errno.EINVAL, "a path can't contain a null character")
        if not os.path.isabs(path):
            return path
        for root in (self._given, self.root):
            if path == root or path.startswith(root.rstrip("/") + "/"):
                return path[len(root) :].lstrip("/")
        raise OutsideRoot(errno.EXDEV, "is outside the workspace; use a path relative to it")


def _file_name(resolved: ResolvedPath) -> str:
    if not resolved.name:
        raise NotRegular(errno.EISDIR, "is a folder")
    return resolved.name


def _mode_of(resolved: ResolvedPath) -> int:
    """The mode of the file to replace, so that a script stays executable."""
    try:
        mode = os.stat(_file_name(resolved), dir_fd=resolved.folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0o666
    if stat.S_ISDIR(mode):
        raise NotRegular(errno.EISDIR, "is a folder")
    if not stat.S_ISREG(mode):
        raise NotRegular(errno.ENXIO, "is not a regular file")
    return stat.S_IMODE(mode)


def _remove_drafts(resolved: ResolvedPath, owner: str) -> None:
    for name in os.listdir(resolved.folder):
        if drafted(name, owner) == shortened(resolved.name):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=resolved.folder)


def _kind(entry: "os.DirEntry[str]") -> str:
    # Most file systems say it with the name, so that it costs no call for each entry.
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"
