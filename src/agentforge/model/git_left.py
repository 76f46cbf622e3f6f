"""What a confined agent left in a project that git would obey."""

from typing import Literal

from msgspec import Struct

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
