"""The files that agents work on, and how they change."""

from typing import Protocol

from msgspec import Struct


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
