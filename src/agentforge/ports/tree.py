"""The files that agents work on: how they change, and all of them at one moment, as a tree: an id by their
content, and the content to compare two of them."""

import re
from typing import Protocol

from msgspec import Struct

_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class Stamp(Struct, frozen=True, array_like=True, gc=False):
    """Enough metadata to detect that a file was written."""

    size: int
    modified_ns: int
    changed_ns: int
    inode: int
    executable: bool = False


class Workspace(Protocol):
    def stamps(self) -> dict[str, Stamp] | None:
        """Stamps by path relative to the workspace root, or None if there are too many files. Excludes files
        that version control ignores and the engine's own files."""
        ...

    def stamp(self, path: str) -> Stamp | None:
        """The stamp of one file, or None if it is missing."""
        ...

    def read(self, path: str, max_bytes: int) -> bytes | None:
        """The file's content, or None if it can't be read or is larger than `max_bytes`."""
        ...


class TakenTree(Struct, frozen=True):
    id: str
    """Of a git tree object. Equal ids mean equal files."""
    omitted: int = 0
    """How many files are not in the tree, because they are too large."""


class NoTree(Struct, frozen=True):
    """The tree couldn't be taken."""

    reason: str


class KeptTree(Struct, frozen=True):
    reference: str
    """Its name in the user's repository."""


class Trees(Protocol):
    def is_possible(self) -> bool:
        """Whether there is something to take a tree of; quick."""
        ...

    def take(self) -> TakenTree | NoTree:
        """The tree of the project's files: tracked and new ones, without those that version control ignores
        and the engine's own. What two taken trees need to be compared is kept with the run. Changes nothing
        else, and is limited in time and size."""
        ...

    def changed(self, before: str, after: str, limit: int) -> tuple[str, ...] | NoTree:
        """The paths that differ between two taken trees, at most `limit`; or why they can't be compared."""
        ...

    def keep(self, tree: str, name: str) -> KeptTree | NoTree:
        """Keep a taken tree in the user's repository, as the reference `refs/agentforge/NAME`. Only the
        reference and missing objects are added. Needs git."""
        ...


def is_tree_id(text: str) -> bool:
    """Whether the text, such as a field of a log, can be the id of a tree."""
    return _ID.fullmatch(text) is not None
