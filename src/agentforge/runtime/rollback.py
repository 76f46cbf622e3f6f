"""Undoes what the attempts of a visit changed, and nothing else.

A path goes back to what it was before the first attempt that changed it, if it still has what the last such
attempt left. Anything else there is someone's work: then nothing is undone, and a person is asked.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from agentforge.model.errors import UnusableFile
from agentforge.ports.host import NoTree, TakenTree, TreeFile, Trees
from agentforge.runtime.frozen_files import OTHERS, content_in
from agentforge.runtime.working_files import WorkingFiles
from agentforge.views.attempt_trees import AttemptTrees

MAX_UNDONE = 10_000
_T = TypeVar("_T")


class Conflict(Exception):
    """Why a visit isn't undone."""

    def __init__(self, reason: str, paths: Iterable[str] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.paths = tuple(paths)


class _Change(Struct):
    """What the attempts did at a path."""

    tree: str
    """Before the first attempt that changed it."""
    original: TreeFile | None
    last: TreeFile | None
    is_foreign: bool = False
    """Whether something else changed it between two attempts."""


class Undo(Struct, frozen=True):
    path: str
    file: TreeFile | None
    """None: there was no file."""
    tree: str


def changes_of(pairs: Sequence[AttemptTrees], trees: Trees) -> dict[str, _Change]:
    """By path. Raises Conflict."""
    found: dict[str, _Change] = {}
    for before, after in pairs:
        if before is None or after is None:
            raise Conflict("the files before or after one of its attempts are not known")
        paths = _known(trees.changed(before, after, MAX_UNDONE + 1))
        if len(paths) > MAX_UNDONE:
            raise Conflict(f"an attempt changed more than {MAX_UNDONE:,} files")
        old, new = _known(trees.files(before, paths)), _known(trees.files(after, paths))
        for path in paths:
            change = found.setdefault(path, _Change(before, old.get(path), old.get(path)))
            change.is_foreign |= old.get(path) not in (change.last, change.original)
            change.last = new.get(path)
    return found


def undo_of(pairs: Sequence[AttemptTrees], now: TakenTree, trees: Trees) -> list[Undo]:
    """What is to be restored in the present files. Raises Conflict."""
    changes = changes_of(pairs, trees)
    here = _known(trees.files(now.id, changes))
    left = {path: one for path, one in changes.items() if here.get(path) != one.original}
    if unknown := [path for path in now.inexact if path in left or path not in changes]:
        raise Conflict("files are too large, or have a secret in them, so that they can't be kept", unknown)
    if foreign := [path for path, one in left.items() if one.is_foreign or here.get(path) != one.last]:
        raise Conflict("something else changed files", foreign)
    special = {path: file for path, one in left.items() for file in (one.original, one.last) if file}
    if others := [path for path, file in special.items() if file.mode in OTHERS]:
        raise Conflict("links and repositories can't be restored", others)
    return [Undo(path, one.original, one.tree) for path, one in left.items()]


def undo(found: Iterable[Undo], trees: Trees, workspace: WorkingFiles) -> None:
    """Raises UnusableFile and StorageFailed."""
    # What was added first: it may be in the place of a file's folder.
    for one in sorted(found, key=lambda one: (one.file is not None, -one.path.count("/"))):
        if one.file is None:
            workspace.remove(one.path)
        else:
            workspace.put(one.path, content_in(one.tree, one.path, trees), one.file.mode)


def check_contents(found: Iterable[Undo], trees: Trees) -> None:
    """Before any file is replaced. Raises UnusableFile."""
    for one in found:
        if one.file is not None:
            content_in(one.tree, one.path, trees)


def _known(found: _T | NoTree) -> _T:
    if isinstance(found, NoTree):
        raise UnusableFile(f"the visit can't be undone: {found.reason}")
    return found
