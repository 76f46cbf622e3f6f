"""Puts single files of the project back as they were. Agents can have put anything in their place: no link is
followed."""

import os
import stat

from msgspec import Struct

from agentforge.model.errors import StorageFailed
from agentforge.model.frozen import EXECUTABLE
from agentforge.system import files

MAX_FILE_BYTES = 64 * 1024 * 1024
_SHARED = 0o777
"""The mode of a project's folders and of executable files, less the umask."""


class FileNow(Struct, frozen=True):
    """What is at a path."""

    content: bytes | None
    """None: nothing, or no regular file."""
    executable: bool = False
    is_there: bool = True
    """Whether anything but a folder is there."""


class WorkingFiles:
    """Paths are relative to the project."""

    def __init__(self, project: str) -> None:
        self._project = project

    def look(self, path: str) -> FileNow:
        place = self._place(path)
        try:
            content = files.read_bytes(place, MAX_FILE_BYTES)
        except StorageFailed:
            # A link, a pipe, a folder, a file that is too large; or a link or a file in place of its folder.
            return FileNow(None, is_there=_is_entry(place))
        if content is None:
            return FileNow(None, is_there=False)
        about = files.about(place)
        return FileNow(content, about is not None and about.st_mode & stat.S_IXUSR != 0)

    def put(self, path: str, content: bytes, mode: str) -> None:
        """Write the file, whatever is in its place or in that of its folders. A folder in its place is moved
        aside. Raises StorageFailed."""
        place = self._place(path)
        folder = os.path.dirname(place)
        while obstacle := files.obstacle(folder, below=self._project):
            files.remove(obstacle)
        files.make_dir(folder, _SHARED)
        files.replace(place, content, mode=_SHARED if mode == EXECUTABLE else 0o666)

    def remove(self, path: str) -> None:
        """Remove the file, and the folders that are empty then. Raises StorageFailed."""
        place = self._place(path)
        if files.obstacle(os.path.dirname(place), below=self._project):
            return  # Nothing is at this path then.
        files.remove(place)
        while (place := os.path.dirname(place)) != self._project and not files.listing(place):
            files.remove_empty_dir(place)

    def _place(self, path: str) -> str:
        return os.path.join(self._project, path)


def _is_entry(place: str) -> bool:
    """Whether anything but a folder is there."""
    try:
        return not stat.S_ISDIR(os.lstat(place).st_mode)
    except OSError:
        return False
