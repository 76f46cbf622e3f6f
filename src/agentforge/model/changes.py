"""What differs in the project after an attempt: files between two trees, and what git would obey."""

from typing import Literal

from msgspec import Struct

ChangeKind = Literal["added", "modified", "deleted", "renamed", "retyped"]


class FileChange(Struct, frozen=True):
    path: str
    kind: ChangeKind
    added: int | None = None
    """Lines; None for content that isn't text."""
    removed: int | None = None
    old_path: str | None = None
    """Of a renamed file."""


class Changes(Struct, frozen=True):
    files: tuple[FileChange, ...] = ()

    @property
    def added(self) -> int:
        return sum(file.added or 0 for file in self.files)

    @property
    def removed(self) -> int:
        return sum(file.removed or 0 for file in self.files)


LeftKind = Literal["repository", "submodule", "settings"]
MAX_LEFT = 50
"""How many are named for one attempt."""


class LeftInGit(Struct, frozen=True):
    path: str
    """Relative to the project."""
    kind: LeftKind
    """`repository`: a new one inside the project; `submodule`: a new entry of the index; `settings`: a file
    that decides which programs git starts, also an index."""
    reason: str = ""
    """Why it was renamed; empty: it starts no program, and stays."""
    moved_to: str = ""
    """Relative to the project."""

    @property
    def text(self) -> str:
        """`sub/.git, a new repository: it sets core.fsmonitor; renamed to sub/.git.disabled`"""
        what = {"repository": "a new repository", "submodule": "a new submodule in the index"}
        named = f"{self.path}, {what[self.kind]}" if self.kind in what else self.path
        if not self.reason:
            return named
        return f"{named}: {self.reason}; renamed to {self.moved_to}"
