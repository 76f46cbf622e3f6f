"""The texts that a compilation reads, and the diagnostics about them."""

import re
from collections.abc import Iterable
from hashlib import sha256
from posixpath import isabs, join, normpath

from msgspec import Struct
from msgspec.structs import replace

from agentforge.model.diagnostic import ARGUMENTS, ENVIRONMENT, Diagnostic, Severity, SourcePlace, by_place
from agentforge.model.secrets import REFERENCE, Redactor

LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


def absolute(root: str, path: str) -> str:
    return normpath(path if isabs(path) else join(root, path))


def relative(root: str, path: str) -> str:
    """Relative to the root if the path is inside it, else absolute; used in plans and messages."""
    root, path = normpath(root), normpath(path)
    return path.removeprefix(root.rstrip("/") + "/")


class SourceText(Struct, frozen=True):
    """A file's text; bytes that aren't UTF-8 are surrogates and are reported."""

    file: str
    """The file name in diagnostics: relative to the project if inside it."""
    text: str

    @property
    def sha256(self) -> str:
        return sha256(self.text.encode("utf-8", "surrogateescape")).hexdigest()

    @property
    def start(self) -> SourcePlace:
        return SourcePlace(self.file, 1, 1)


# Secrets: a reader that finds one in a file must report the line without showing it, and so must every reader
# that reports something else about this line, before or after. So the report is asked to hide a value, and
# redacts it in all diagnostics when they are read, not when they are added.


class Report:
    """All diagnostics of a compilation, over all files, so that it doesn't stop at the first error."""

    def __init__(self) -> None:
        self._found: dict[Diagnostic, None] = {}
        self._lines: dict[str, list[str]] = {}
        self._hidden: set[str] = set()

    def add_text(self, file: str, text: str) -> None:
        """Register a file's lines, so that diagnostics can show them."""
        self._lines[file] = LINE_BREAK.split(text)

    def line(self, at: SourcePlace) -> str:
        """The source line at a place."""
        lines = self._lines.get(at.file, [])
        return lines[at.line - 1] if at.line <= len(lines) else ""

    def error(self, code: str, at: SourcePlace, message: str, hint: str = "") -> None:
        self._add("error", code, at, message, hint)

    def warning(self, code: str, at: SourcePlace, message: str, hint: str = "") -> None:
        self._add("warning", code, at, message, hint)

    def refuse_reference(self, text: str, at: SourcePlace) -> None:
        """Only the engine writes references to secrets, in the place of values that it doesn't store."""
        if REFERENCE in text:
            message = f"`{REFERENCE}…}}` is how secrets are stored; a definition must not refer to secrets"
            hint = "keep the secret in an environment variable, and name that in `pass_env` or `environment`"
            self.error("secret-in-file", at, message, hint)

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
        found: Iterable[Diagnostic] = self._found
        if self._hidden:
            clean = Redactor(self._hidden).text
            found = [
                replace(one, message=clean(one.message), hint=clean(one.hint), text=clean(one.text))
                for one in found
            ]
        return tuple(by_place(found))

    @property
    def has_errors(self) -> bool:
        return any(found.is_error for found in self._found)

    def _outside(self, file: str, text: str) -> SourcePlace:
        lines = self._lines.setdefault(file, [])
        if text not in lines:
            lines.append(text)
        return SourcePlace(file, lines.index(text) + 1, 1)

    def _add(self, severity: Severity, code: str, at: SourcePlace, message: str, hint: str) -> None:
        # A dict keeps the order and drops duplicates, as from a stage that two nodes use.
        self._found[Diagnostic(code, severity, message, at, hint, self.line(at))] = None
