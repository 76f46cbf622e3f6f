"""Files of the project that the engine looks after: the tree of a visit, and files that are frozen."""

from typing import Literal

from msgspec import Struct

FilesAction = Literal["look", "freeze", "restore", "rollback"]
"""Take the tree of a visit; freeze files; restore those that are frozen; undo what a visit changed."""
START, END = "start", "end"
"""Of a visit: what a look, or the restoring at the end, is about."""
EXECUTABLE = "100755"
MAX_INEXACT = 1_000
MAX_FROZEN = 2_000
"""Files of a stage."""
MAX_RESTORATIONS = 3
"""When frozen files were restored this often, a person is asked."""
MAX_TOLD = 20
"""Restored paths that an agent is told."""
FROZEN_FILES, ROLLBACK = "frozen_files", "rollback"
"""Why a run asks about them."""


class FilesSeen(Struct, frozen=True, omit_defaults=True):
    """The files of the project at one moment."""

    tree: str | None = None
    problem: str = ""
    """Why there is no tree."""
    inexact: tuple[str, ...] = ()
    """Paths that the tree doesn't have as they are: too large, or with a secret in them."""

    @property
    def defect(self) -> str:
        """Why not all files could be restored from it; empty if they could."""
        if self.tree is None:
            return self.problem or "there is no tree"
        if not self.inexact:
            return ""
        why = "a tree can't have these files as they are (too large, or with a secret)"
        return f"{why}: {named(self.inexact)}"


class FrozenFile(Struct, frozen=True, omit_defaults=True):
    """A file that must stay as it is."""

    path: str
    sha256: str
    mode: str = "100644"
    """As git has it."""
    settings: str | None = None
    """Only the settings of pytest in it count: their SHA-256, empty without any. None: all of the content."""


class FrozenFiles(Struct, frozen=True, omit_defaults=True):
    """What a stage has frozen."""

    stage: str
    files: tuple[FrozenFile, ...]
    tree: str
    """It has their content."""


def named(paths: tuple[str, ...], most: int = 5) -> str:
    """The first of them, for people."""
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return f"{', '.join(paths[:most])}{more}"
