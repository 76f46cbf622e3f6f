"""Names of folders that belong to git, to agents' settings and to the engine, compared as file systems do
that ignore case."""

import unicodedata
from typing import Final

PROTECTED: Final = (".git", ".claude", ".agentforge")


def folded(path: str) -> str:
    """The path as a file system compares it that ignores case and invisible characters, as on macOS."""
    visible = "".join(letter for letter in path if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFKC", visible).casefold()


def protected_step(path: str) -> str | None:
    """The protected name in the path, at any depth."""
    return next((step for step in folded(path).split("/") if step in PROTECTED), None)
