"""How a file differs between two trees."""

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
