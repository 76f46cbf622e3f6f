"""The files that a definition names. In the project, links must not lead out of it; a path elsewhere was
chosen by the user, so links on the way to it are followed."""

import errno
import os
import stat
from contextlib import suppress

from msgspec import Struct

from agentforge.system import files
from agentforge.system.confined import ConfinedFolder
from agentforge.system.file_search import FileSearch, has_wildcard
from agentforge.system.folders import NotRegular


def read_project_file(project: str, path: str, max_bytes: int, *, cut: bool = False) -> bytes | None:
    """The content, or None if the file is missing. Of a larger file, the first `max_bytes` are returned if
    `cut`. Raises StorageFailed."""
    inside = os.path.normpath(os.path.join(project, path))
    if not _is_below(inside, project):
        return files.read_named(inside, max_bytes, cut=cut)
    with files.storage(inside):
        try:
            with ConfinedFolder(project) as folder:
                content, size = folder.read(inside, max_bytes)
        except FileNotFoundError:
            return None
        if size > max_bytes and not cut:
            raise NotRegular(errno.EFBIG, f"{size} bytes exceed the limit of {max_bytes}")
        return content


def names_in(project: str, path: str) -> list[str]:
    """The names in a folder, sorted; empty if it can't be listed. Raises TooManyEntries."""
    try:
        place = _place(project, path)
        with ConfinedFolder(place.root) as folder:
            return FileSearch(folder).names(place.inside)
    except (OSError, ValueError):
        return []


def is_folder(project: str, path: str) -> bool:
    try:
        place = _place(project, path)
        with ConfinedFolder(place.root) as folder:
            about = folder.stat(place.inside)
    except (OSError, ValueError):
        return False
    return about is not None and stat.S_ISDIR(about.st_mode)


def expand(project: str, pattern: str, suffixes: tuple[str, ...]) -> list[str]:
    """The files that a pattern names: a file, those that a glob matches, or those below a folder that end
    with one of the suffixes; absolute, sorted. Raises TooManyEntries."""
    try:
        place = _place(project, pattern)
        if files.is_file(place.root):
            return [place.written]
        with ConfinedFolder(place.root) as folder:
            found = _found(folder, place.inside, suffixes)
    except (OSError, ValueError):
        return []
    return sorted({os.path.join(place.written, name) for name in found})


def _found(folder: ConfinedFolder, inside: str, suffixes: tuple[str, ...]) -> list[str]:
    search = FileSearch(folder)
    with suppress(OSError):
        about = folder.stat(inside)
        if about is not None and stat.S_ISREG(about.st_mode):
            return [inside]
        if about is not None and stat.S_ISDIR(about.st_mode):
            return [name for name in search.below("" if inside == "." else inside) if name.endswith(suffixes)]
    return list(search.matches(inside))


class _Place(Struct, frozen=True):
    root: str
    """The folder that links must stay in."""
    written: str
    """The same folder, as it was written."""
    inside: str
    """The rest of the path."""


def _place(project: str, written: str) -> _Place:
    """Of a path outside of the project, the root is the folder before the first wildcard."""
    path = os.path.normpath(os.path.join(project, written))
    if path == project or _is_below(path, project):
        return _Place(project, project, os.path.relpath(path, project))
    folder, inside = path, "."
    while has_wildcard(folder):
        folder, inside = os.path.dirname(folder), os.path.join(os.path.basename(folder), inside)
    return _Place(os.path.realpath(folder), folder, os.path.normpath(inside))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
