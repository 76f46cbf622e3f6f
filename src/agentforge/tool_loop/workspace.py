"""What the tools of a model may do with the files of its workspace: links don't lead out of it, and what
belongs to git or to the pipeline can't be written."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from agentforge.model.protected_names import folded
from agentforge.system.confined import ConfinedFolder, FolderEntry
from agentforge.system.folders import NotRegular, OutsideRoot


class ToolError(Exception):
    """An error of a tool; the message is shown to the model."""


class WorkspaceFolder:
    def __init__(self, root: str, protected: tuple[str, ...] = (), writable: tuple[str, ...] = ()) -> None:
        self._folder = ConfinedFolder(root)
        self.root = self._folder.root
        self._protected = tuple(folded(self._inside(path)) for path in protected)
        self._writable = tuple(folded(self._inside(path)) for path in writable)

    def close(self) -> None:
        self._folder.close()

    def read(self, path: str, limit: int) -> tuple[bytes, int]:
        """Up to `limit` bytes from the start of the file, and its size."""
        with tool_errors(path):
            return self._folder.read(path, limit)

    def write(self, path: str, content: bytes) -> str:
        """Write the file atomically, creating missing folders; returns the resolved path."""
        with tool_errors(path):
            return self._folder.write(path, content, lambda place: self._refuse_protected(place, path))

    def entries(self, path: str = ".") -> list[FolderEntry]:
        with tool_errors(path):
            return self._folder.entries(path)

    def is_folder(self, path: str) -> bool:
        with tool_errors(path):
            found = self._folder.stat(path)
        if found is None:
            raise ToolError(f"{path}: no such file or folder")
        return stat.S_ISDIR(found.st_mode)

    def _refuse_protected(self, resolved: str, path: str) -> None:
        place = folded(resolved)
        if ".git" in place.split("/"):
            raise ToolError(f"{path}: tools can't write git's own files")
        if below(place, self._protected) > below(place, self._writable):
            raise ToolError(f"{path}: belongs to the pipeline; call `complete` to submit your result")

    def _inside(self, path: str) -> str:
        """A path relative to the root, as the walk would name it; outside the workspace it starts with
        `..`."""
        folder, name = os.path.split(os.path.abspath(path))
        return os.path.relpath(os.path.join(os.path.realpath(folder), name), self.root)


@contextmanager
def tool_errors(path: str) -> Iterator[None]:
    """Translate OSErrors to ToolErrors."""
    try:
        yield
    except (NotRegular, OutsideRoot) as error:
        raise ToolError(f"{path}: {error.strerror}") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ToolError(f"{path}: a part of the path is not a folder") from error
        raise ToolError(f"{path}: {(error.strerror or str(error)).lower()}") from error


def below(path: str, folders: tuple[str, ...]) -> int:
    """The length of the deepest of the folders that contains the path, or 0."""
    return max(
        (len(folder) for folder in folders if path == folder or path.startswith(f"{folder}/")), default=0
    )
