"""Diagnostics: collecting them over a compilation, rendering them with the line and a caret, and suggesting
corrections."""

import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches

from msgspec.structs import replace

from agentforge.model.diagnostic import Diagnostic, Severity, SourcePlace
from agentforge.model.secrets import Redactor

ARGUMENTS = "<arguments>"
ENVIRONMENT = "<environment>"

_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_MARGIN = "  | "
_MAX_WIDTH = 120
_KEEP_LEFT = 60
_MAX_LISTED = 12
_SIMILAR = 0.6
_MISSPELLED = 0.72
"""Words below it are different ones: `termination` resembles `description` but isn't a misspelling of it."""


class Report:
    """All diagnostics of a compilation, over all files, so that it doesn't stop at the first error."""

    def __init__(self) -> None:
        self._found: dict[Diagnostic, None] = {}
        self._lines: dict[str, list[str]] = {}
        self._hidden: set[str] = set()

    def add_text(self, file: str, text: str) -> None:
        """Register a file's lines, so that diagnostics can show them."""
        self._lines[file] = _LINE_BREAK.split(text)

    def line(self, at: SourcePlace) -> str:
        """The source line at a place."""
        lines = self._lines.get(at.file, [])
        return lines[at.line - 1] if at.line <= len(lines) else ""

    def error(self, code: str, at: SourcePlace, message: str, hint: str = "") -> None:
        self._add("error", code, at, message, hint)

    def warning(self, code: str, at: SourcePlace, message: str, hint: str = "") -> None:
        self._add("warning", code, at, message, hint)

    def hide(self, secret: str) -> None:
        """Redact a secret in all diagnostics, even if its line is shown."""
        self._hidden.add(secret)

    def argument(self, text: str) -> SourcePlace:
        """A place for a value given by the caller instead of a file."""
        return self._outside(ARGUMENTS, text)

    def variable(self, name: str, value: str) -> SourcePlace:
        """A place for the value of an environment variable."""
        return self._outside(ENVIRONMENT, f"{name}={value}")

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return tuple(by_place(map(self._without_secrets, self._found)))

    @property
    def has_errors(self) -> bool:
        return any(found.is_error for found in self._found)

    def _without_secrets(self, found: Diagnostic) -> Diagnostic:
        if not self._hidden:
            return found
        clean = Redactor(self._hidden).text
        return replace(found, message=clean(found.message), hint=clean(found.hint), text=clean(found.text))

    def _outside(self, file: str, text: str) -> SourcePlace:
        lines = self._lines.setdefault(file, [])
        if text not in lines:
            lines.append(text)
        return SourcePlace(file, lines.index(text) + 1, 1)

    def _add(self, severity: Severity, code: str, at: SourcePlace, message: str, hint: str) -> None:
        # A dict keeps the order and drops duplicates, as from a stage that two nodes use.
        self._found[Diagnostic(code, severity, message, at, hint, self.line(at))] = None


def by_place(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    return sorted(diagnostics, key=lambda d: (d.place.file, d.place.line, d.place.col, d.code, d.message))


def render(diagnostics: Iterable[Diagnostic]) -> str:
    """All diagnostics as plain text, sorted by place, one blank line between them."""
    return "\n\n".join(render_one(diagnostic) for diagnostic in by_place(diagnostics))


def render_one(diagnostic: Diagnostic) -> str:
    place = diagnostic.place
    suffix = "" if diagnostic.is_error else " (warning)"
    lines = [f"{place.file}:{place.line}:{place.col}: {diagnostic.code}: {diagnostic.message}{suffix}"]
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
    found = get_close_matches(name.lower()[:80], lowered, n=1, cutoff=cutoff)
    return lowered[found[0]] if found else None


def is_misspelled(name: str, known: Iterable[str]) -> bool:
    """Whether the name is so close to a known one that it must be a typo or an abbreviation."""
    return closest(name, known, _MISSPELLED) is not None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    found = closest(name, known)
    return f"did you mean `{found}`?" if found else ""


def available(what: str, known: Iterable[str]) -> str:
    """`stages: a, b, c`, truncated if the list is long."""
    names = sorted(set(known))
    if not names:
        return f"no {what} exist yet"
    more = f", and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{what}: {', '.join(names[:_MAX_LISTED])}{more}"


def choice(name: str, what: str, known: Iterable[str]) -> str:
    """The hint for a name that wasn't found."""
    names = tuple(known)
    meant = did_you_mean(name, names)
    return f"{meant} {available(what, names)}" if meant else available(what, names)
