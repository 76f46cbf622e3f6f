"""Names of folders that belong to git, to agents' settings and to the engine, compared as tolerantly as any
file system compares names."""

import re
import unicodedata
from typing import Final

PROTECTED: Final = (".git", ".claude", ".agentforge")

_IGNORABLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
"""Invisible characters that are no format characters: Unicode says that they may be ignored, too."""


def folded(path: str) -> str:
    """The path without what some file system ignores: case, the form of a character and invisible characters
    (macOS, ext4), dots and spaces at the end of a name and all after a colon (Windows)."""
    visible = "".join(letter for letter in path if unicodedata.category(letter) != "Cf")
    plain = unicodedata.normalize("NFD", _IGNORABLE.sub("", visible)).casefold()
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKD", plain).casefold())
    return "/".join(step.partition(":")[0].rstrip(". ") or step for step in plain.split("/"))


def protected_step(path: str) -> str | None:
    """The protected name in the path, at any depth."""
    return next((step for step in folded(path).split("/") if step in PROTECTED), None)
