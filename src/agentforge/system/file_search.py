"""Finds files below a folder, by a pattern or all of them. Links are followed as long as they stay inside,
and the search is bounded: the folder may be a hostile repository."""

import re
import stat
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Literal

from agentforge.system.confined import ConfinedFolder, FolderListing
from agentforge.system.folders import steps_of

MAX_ENTRIES = 100_000
"""How many files and folders a search looks at."""
MAX_DEPTH = 64
"""Deeper folders are left out."""
_ANY_DEPTH = "**"
_WILDCARD = re.compile(r"[*?[]")


class TooManyEntries(Exception):
    """A search met more than MAX_ENTRIES files and folders."""


class FileSearch:
    """Paths are relative to the folder. Raises TooManyEntries; what can't be read is left out."""

    def __init__(self, folder: ConfinedFolder, max_entries: int = MAX_ENTRIES) -> None:
        self._folder = folder
        self._left = max_entries

    def names(self, path: str) -> list[str]:
        """The names in a folder, sorted."""
        return [name for name, _ in self._listing(path).kinds]

    def matches(self, pattern: str) -> Iterator[str]:
        """The files that a pattern matches as in a shell: `*` and `?` match no leading dot, `**` any number
        of folders."""
        if steps := tuple(steps_of(pattern)):
            yield from self._matches("", steps)

    def below(
        self,
        top: str = "",
        *,
        links: Literal["files", "listed", "skipped"] = "files",
        skip: Callable[[str], bool] = lambda _path: False,
    ) -> Iterator[str]:
        """All files below a folder. `links`: those that lead to files, all of them, or none; links to folders
        are not followed. `skip`: folders to leave out."""
        todo = [(top, 0)]
        while todo:
            path, depth = todo.pop()
            for name, kind in self._listing(path).kinds if depth < MAX_DEPTH else ():
                inside = _join(path, name)
                if kind == "folder" and not skip(inside):
                    todo.append((inside, depth + 1))
                elif kind == "file" or (kind == "link" and self._is_listed(inside, links)):
                    yield inside

    def _is_listed(self, link: str, links: str) -> bool:
        return links == "listed" or (links == "files" and self._leads_to(link, stat.S_ISREG))

    def _matches(self, at: str, steps: tuple[str, ...]) -> Iterator[str]:
        step, rest = steps[0], steps[1:]
        if step == _ANY_DEPTH:
            # `**/**` matches what `**` does, but would visit a folder once for each way to divide its path.
            while rest and rest[0] == _ANY_DEPTH:
                rest = rest[1:]
            for folder in self._folders(at):
                yield from self._matches(folder, rest or ("*",))
            return
        for name, kind in self._named(at, step):
            path = _join(at, name)
            if rest:
                if kind == "folder" or (kind == "link" and self._leads_to(path, stat.S_ISDIR)):
                    yield from self._matches(path, rest)
            elif kind == "file" or (kind == "link" and self._leads_to(path, stat.S_ISREG)):
                yield path

    def _named(self, at: str, step: str) -> Iterator[tuple[str, str]]:
        if not has_wildcard(step):
            yield step, "link"  # Looked at when it is resolved.
            return
        hidden = step.startswith(".")
        for name, kind in self._listing(at).kinds:
            if (hidden or not name.startswith(".")) and fnmatchcase(name, step):
                yield name, kind

    def _folders(self, top: str) -> Iterator[str]:
        """The folder and all those below it that aren't hidden. A link back to a folder on the way is not
        followed."""
        todo: list[tuple[str, tuple[tuple[int, int], ...]]] = [(top, ())]
        while todo:
            path, parents = todo.pop()
            listing = self._listing(path)
            if listing.identity in parents or len(parents) >= MAX_DEPTH:
                continue
            yield path
            for name, kind in reversed(listing.kinds):
                inside = _join(path, name)
                is_folder = kind == "folder" or (kind == "link" and self._leads_to(inside, stat.S_ISDIR))
                if is_folder and not name.startswith("."):
                    todo.append((inside, (*parents, listing.identity)))

    def _listing(self, path: str) -> FolderListing:
        try:
            listing = self._folder.listing(path or ".", self._left)
        except OSError:
            return FolderListing()
        self._left -= 1 + len(listing.kinds)
        if self._left < 0:
            raise TooManyEntries
        return listing

    def _leads_to(self, path: str, is_kind: Callable[[int], bool]) -> bool:
        try:
            about = self._folder.stat(path)
        except OSError:
            return False
        return about is not None and is_kind(about.st_mode)


def has_wildcard(path: str) -> bool:
    return _WILDCARD.search(path) is not None


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
