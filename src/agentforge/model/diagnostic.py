"""One error or warning about a definition: position, message and hint."""

from typing import Literal

from msgspec import Struct

Severity = Literal["error", "warning"]


class SourcePlace(Struct, frozen=True):
    """A position in a source text; lines and columns count from 1."""

    file: str
    line: int
    col: int


class Diagnostic(Struct, frozen=True):
    code: str
    severity: Severity
    message: str
    place: SourcePlace
    hint: str = ""
    text: str = ""
    """The offending line, as written."""

    @property
    def is_error(self) -> bool:
        return self.severity == "error"
