"""The files of a git repository that decide what git executes: its hooks and settings."""

import os
from collections.abc import Iterator

from msgspec import Struct

from agentforge.model.errors import StorageFailed
from agentforge.system import files

GIT = ".git"
_LINK = "gitdir:"
_MAX_BYTES = 4096
_MAX_DEPTH = 8
"""Of submodules inside submodules, and of their names, which may contain slashes."""


class GitFiles(Struct, frozen=True):
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def __add__(self, other: "GitFiles") -> "GitFiles":
        return GitFiles(self.folders + other.folders, self.files + other.files)

    @property
    def all(self) -> tuple[str, ...]:
        return self.folders + self.files


def git_files(folder: str) -> GitFiles:
    """Those of the repository, worktree or submodule in the folder; without one, `.git` itself."""
    entry = os.path.join(folder, GIT)
    if os.path.isdir(entry):
        is_repository = os.path.lexists(os.path.join(entry, "HEAD"))
        return _of_repository(entry) if is_repository else GitFiles(folders=(entry,))
    if not os.path.lexists(entry):
        return GitFiles(folders=(entry,))
    own = _linked(entry, _LINK)
    if not own:
        return GitFiles(files=(entry,))
    common = _linked(os.path.join(own, "commondir")) or own
    links = tuple(os.path.join(own, name) for name in ("commondir", "config.worktree"))
    return GitFiles(files=(entry, *filter(os.path.lexists, links))) + _of_repository(common)


def redirections(folder: str) -> list[str]:
    """Files that make git take hooks and settings from another folder, where only worktrees have them."""
    entry = os.path.join(folder, GIT)
    if not os.path.isdir(entry):
        return []
    found = (os.path.join(place, "commondir") for place in (entry, *_submodules(entry)))
    return [path for path in found if os.path.lexists(path)]


def _of_repository(place: str) -> GitFiles:
    """`place`: the repository's own folder, such as `.git`."""
    worktrees = os.path.join(place, "worktrees")
    linked = (os.path.join(worktrees, name) for name in _names(worktrees))
    further = [
        os.path.join(place, "config.worktree"),
        *(os.path.join(tree, name) for tree in linked for name in ("commondir", "config.worktree")),
    ]
    repositories = (place, *_submodules(place))
    return GitFiles(
        tuple(os.path.join(repository, "hooks") for repository in repositories),
        (
            *(os.path.join(repository, "config") for repository in repositories),
            *filter(os.path.lexists, further),
        ),
    )


def _submodules(place: str, depth: int = 0) -> Iterator[str]:
    """The folders of the repositories of submodules."""
    modules = os.path.join(place, "modules") if depth == 0 else place
    for name in _names(modules) if depth < _MAX_DEPTH else ():
        folder = os.path.join(modules, name)
        if os.path.lexists(os.path.join(folder, "HEAD")):
            yield folder
            yield from _submodules(folder)
        elif os.path.isdir(folder) and not os.path.islink(folder):
            yield from _submodules(folder, depth + 1)


def _names(folder: str) -> list[str]:
    try:
        return sorted(files.listing(folder))
    except StorageFailed:
        return []


def _linked(path: str, prefix: str = "") -> str:
    """The folder that a file of git names, or "" if it names none."""
    try:
        text = files.read_text(path, _MAX_BYTES) or ""
    except StorageFailed:
        return ""
    if not text.startswith(prefix):
        return ""
    target = text.removeprefix(prefix).strip()
    return os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else ""
