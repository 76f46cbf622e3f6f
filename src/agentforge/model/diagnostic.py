"""Diagnostics of a definition: where, what and what to do, also as text with a caret; and suggestions for
misspelt names."""

import unicodedata
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

Severity = Literal["error", "warning"]

_MARGIN = "  | "
_MAX_WIDTH = 120
_KEEP_LEFT = 60
_MAX_LISTED = 12
_SIMILAR = 0.6
_MISSPELLED = 0.72
"""Words below it are different ones: `termination` resembles `description` but isn't a misspelling of it."""

ARGUMENTS = "<arguments>"
ENVIRONMENT = "<environment>"


class SourcePlace(Struct, frozen=True):
    """A position in a source text; lines and columns count from 1."""

    file: str
    """A path; or `<arguments>` or `<environment>`: values that come from no file."""
    line: int
    col: int

    @property
    def text(self) -> str:
        """As people read it. A value that comes from no file has no line."""
        return self.file.strip("<>") if self.file.startswith("<") else f"{self.file}:{self.line}:{self.col}"


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


def by_place(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    return sorted(diagnostics, key=lambda d: (d.place.file, d.place.line, d.place.col, d.code, d.message))


def render(diagnostics: Iterable[Diagnostic]) -> str:
    """All diagnostics as plain text, sorted by place, one blank line between them."""
    return "\n\n".join(render_one(diagnostic) for diagnostic in by_place(diagnostics))


def render_one(diagnostic: Diagnostic, *, marks_warnings: bool = True) -> str:
    place = diagnostic.place
    suffix = " (warning)" if marks_warnings and not diagnostic.is_error else ""
    lines = [f"{place.text}: {diagnostic.code}: {diagnostic.message}{suffix}"]
    if diagnostic.text.strip():
        lines += _excerpt(diagnostic.text, place.col)
    if diagnostic.hint:
        lines.append(f"  hint: {diagnostic.hint}")
    return "\n".join(_printable(line) for line in lines)


def _excerpt(text: str, col: int) -> list[str]:
    """The line and a caret under the column; a long line is cut to the part around it."""
    start = 0
    if len(text) > _MAX_WIDTH and col > _KEEP_LEFT:
        start = col - _KEEP_LEFT
    shown = text[start : start + _MAX_WIDTH]
    before = text[start : max(col - 1, 0)]
    return [_MARGIN + shown, _MARGIN + "".join(_blank(char) for char in before) + "^"]


def _blank(char: str) -> str:
    """White space as wide as the character is on a terminal."""
    if char == "\t":
        return "\t"
    if unicodedata.combining(char):
        return ""
    return "  " if unicodedata.east_asian_width(char) in "WF" else " "


def _printable(line: str) -> str:
    """Remove control characters: a definition must not control the terminal that shows it."""
    return "".join(char if char.isprintable() or char == "\t" else "\ufffd" for char in line)


def closest(name: str, known: Iterable[str], cutoff: float = _SIMILAR) -> str | None:
    lowered = {candidate.lower(): candidate for candidate in known}
    from difflib import get_close_matches

    # The comparison takes time with the square of the length, and a name in a file can have any.
    found = get_close_matches(name.lower()[:80], lowered, n=1, cutoff=cutoff)
    return lowered[found[0]] if found else None


USER_PREFIX = "x-"
"""Keys that begin with it are the user's own: never reported."""


def is_misspelled(name: str, known: Iterable[str]) -> bool:
    """Whether the name is so close to a known one that it must be a typo or an abbreviation."""
    return closest(name, known, _MISSPELLED) is not None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    found = closest(name, known)
    return f"did you mean `{found}`?" if found else ""


def available(what: str, known: Iterable[str]) -> str:
    """`stages: a, b, c`, truncated if the list is long."""
    names = listed(known)
    return f"{what}: {names}" if names else f"no {what} exist yet"


def listed(known: Iterable[str]) -> str:
    names = sorted(set(known))
    more = f", and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{', '.join(names[:_MAX_LISTED])}{more}"


def choice(name: str, what: str, known: Iterable[str]) -> str:
    """The hint for a name that wasn't found."""
    names = tuple(known)
    meant = did_you_mean(name, names)
    return f"{meant} {available(what, names)}" if meant else available(what, names)
