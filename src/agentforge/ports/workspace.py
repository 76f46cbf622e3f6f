"""The files that agents work on: what is there, and what became of it."""

from typing import Protocol

from msgspec import Struct


class Stamp(Struct, frozen=True, array_like=True):
    """Enough to tell whether a file was written in between."""

    size: int
    modified_ns: int
    changed_ns: int
    inode: int
    executable: bool = False


class Workspace(Protocol):
    def stamps(self) -> dict[str, Stamp] | None:
        """Every file that counts, by its path from the workspace's root, or None where there are too many.
        What version control ignores doesn't count, nor does what belongs to the engine."""
        ...

    def stamp(self, path: str) -> Stamp | None:
        """Of one file, or None where there is none."""
        ...

    def read(self, path: str, most: int) -> bytes | None:
        """What a file holds, or None where it can't be read or holds more than that."""
        ...
