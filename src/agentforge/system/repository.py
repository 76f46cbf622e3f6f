"""The files of a git repository that decide what git executes: its hooks and settings."""

import os
from collections.abc import Iterator

from msgspec import Struct

from agentforge.model.errors import StorageFailed
from agentforge.system import files

GIT = ".git"
_LINK = b"gitdir: "
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
    # Git would obey what an agent creates there.
    if not os.path.lexists(entry):
        return GitFiles(folders=(entry,))
    own = linked_folder(folder)
    if not own:
        return GitFiles(files=(entry,))
    common = common_folder(own) or own
    links = filter(os.path.lexists, (os.path.join(own, "commondir"),))
    return GitFiles(files=(entry, *links, *_own_settings(common, (own,)))) + _of_repository(common)


def linked_folder(folder: str) -> str:
    """The repository to which the file `.git` of a worktree or a submodule leads, or ""."""
    return _linked(os.path.join(folder, GIT), _LINK)


def is_direct(folder: str) -> bool:
    """Whether the file `.git` in the folder, and `commondir` where it leads, say where as git writes it. What
    `name/..` leads to changes when the name becomes a link."""
    target = _named(os.path.join(folder, GIT), _LINK)
    common = _named(os.path.join(linked_folder(folder), "commondir"))
    return all(path == os.path.normpath(path) for path in (target, common) if path)


def common_folder(place: str) -> str:
    """The repository that a worktree shares with others, or ""."""
    return _linked(os.path.join(place, "commondir"))


def bare_files(place: str) -> GitFiles:
    """Those of a bare repository that exist."""
    found = _of_repository(place)
    return GitFiles(
        tuple(filter(os.path.lexists, found.folders)), tuple(filter(os.path.lexists, found.files))
    )


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
    linked = [os.path.join(worktrees, name) for name in _names(worktrees)]
    redirected = (os.path.join(tree, "commondir") for tree in linked)
    submodules = tuple(_submodules(place))
    return GitFiles(
        tuple(os.path.join(repository, "hooks") for repository in (place, *submodules)),
        (
            *(os.path.join(repository, "config") for repository in (place, *submodules)),
            *filter(os.path.lexists, redirected),
            *_own_settings(place, (place, *linked)),
            *(path for inner in submodules for path in _own_settings(inner, (inner,))),
        ),
    )


def _own_settings(place: str, trees: tuple[str, ...]) -> Iterator[str]:
    """The settings of single work trees: those that exist, and if the repository uses such settings, all of
    them. The name of the extension can't be written in another way, nor in an included file."""
    is_used = b"worktreeconfig" in _content(os.path.join(place, "config")).lower()
    for path in (os.path.join(tree, "config.worktree") for tree in trees):
        if is_used or os.path.lexists(path):
            yield path


def _content(path: str) -> bytes:
    try:
        return files.read_bytes(path) or b""
    except StorageFailed:
        return b""


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


def _linked(path: str, prefix: bytes = b"") -> str:
    """The folder that a file of git names, or "" if it names none."""
    if not (target := _named(path, prefix)):
        return ""
    named = os.path.join(os.path.dirname(path), target)
    plain, real = os.path.normpath(named), os.path.realpath(named)
    return plain if os.path.realpath(plain) == real else real


def _named(path: str, prefix: bytes = b"") -> str:
    """As git reads it: it strips only ends of lines."""
    try:
        content = files.read_bytes(path, _MAX_BYTES) or b""
    except StorageFailed:
        return ""
    if not content.startswith(prefix) or b"\0" in content:
        return ""
    return os.fsdecode(content.removeprefix(prefix).rstrip(b"\r\n"))
