"""Reads what a program prints: the output of pytest, and the lines of linters.

Also what all parsers of checks share: the failures that they find, and the limits of what they read.
"""

import re
from collections.abc import Callable, Iterator
from io import BytesIO

from msgspec import Struct

from agentforge.engine.checks.signature import MAX_MESSAGE_CHARS, first_line, one_line, signature
from agentforge.engine.normalise import without_escapes
from agentforge.model.check import CheckCounts, CheckFailure, CheckProblem, RanTest

MAX_LINE_BYTES = 4096
"""The rest of a line is ignored."""
MAX_OUTPUT_BYTES = 16 * 1024 * 1024
"""Of a longer output, only the end is read: there are the results."""
MAX_READ_FAILURES = 10_000
"""More are only counted."""

Hide = Callable[[str], str]
"""Replaces the secrets in a text. It is applied before anything is masked or cut: parts of a secret would not
be recognised."""


def output_lines(output: bytes) -> Iterator[str]:
    """One at a time: an output of short lines is not held twice. Without escape codes, line ends and empty
    lines. Of an overwritten line, such as a progress bar, the last text."""
    for line in BytesIO(output[-MAX_OUTPUT_BYTES:]):
        last = line.rstrip()
        if last:
            last = last.rpartition(b"\r")[2][:MAX_LINE_BYTES]
            yield without_escapes(last).decode("utf-8", "replace")


def last_line(output: bytes) -> str:
    """The last line that isn't empty."""
    tail = output[-2 * MAX_LINE_BYTES :]
    return next((line for line in reversed(list(output_lines(tail))) if line.strip()), "")


class CheckReading(Struct, frozen=True):
    counts: CheckCounts = CheckCounts()
    failures: tuple[CheckFailure, ...] = ()
    failure_count: int = 0
    problem: CheckProblem | None = None
    reason: str = ""
    tests: tuple[RanTest, ...] | None = None
    """All of them, if they are known by their ids."""


class FailureList:
    """Failures as they are found: the first of them, and how many there are."""

    def __init__(self, hide: Hide) -> None:
        self._hide = hide
        self.kept: list[CheckFailure] = []
        self.count = 0

    def add(
        self,
        message: str,
        *,
        id: str = "",
        file: str = "",
        line: int = 0,
        rule: str = "",
        place: str = "",
        is_error: bool = False,
    ) -> None:
        """`place`: what identifies the failure besides its message; the id by default, else file and rule."""
        self.count += 1
        if len(self.kept) < MAX_READ_FAILURES:
            id, file, rule = (one_line(self._hide(text)[:MAX_MESSAGE_CHARS]) for text in (id, file, rule))
            where, message = place or id or f"{file} {rule}", self._hide(message)
            self.kept.append(
                CheckFailure(signature(where, message), id, file, line, rule, first_line(message), is_error)
            )

    def reading(self, counts: CheckCounts, at_least: int = 0) -> CheckReading:
        return CheckReading(counts, tuple(self.kept), max(self.count, at_least))


# -- pytest on a terminal: its last line of counts, and the failures of its short summary. What tests print
# can look like both; pytest prints its own last.

_COUNTS = re.compile(
    r"(?:=+ )?(?P<counts>no tests ran|\d{1,9} [a-z][a-z ]*(?:, \d{1,9} [a-z][a-z ]*)*)"
    r" in \d+(?:\.\d+)?s(?: \([^()]*\))?(?: =+)?"
)
_SUMMARY = re.compile(r"=+ short test summary info =+")
_FAILURE = re.compile(r"(?P<kind>FAILED|ERROR|SUBFAILED\S*(?: \([^)]*\))?) (?P<what>\S.*)")
_COLLECTING = re.compile(r"_+ ERROR collecting (?P<file>.*\S) _+")
_SAID = re.compile(r"E   (?P<what>\S.*)")
_CONFTEST = re.compile(r"ImportError while loading conftest '(?P<file>[^']+)'")
_FIELDS = {
    "passed": "passed",
    "xpassed": "passed",
    "xfailed": "passed",
    "failed": "failed",
    "error": "errors",
    "errors": "errors",
    "skipped": "skipped",
}


def read_pytest(output: bytes, hide: Hide = str) -> CheckReading:
    lines = _Summary(hide)
    for line in output_lines(output):
        lines.add(line)
    return lines.reading()


class _Summary:
    def __init__(self, hide: Hide) -> None:
        self._hide = hide
        self._counts: CheckCounts | None = None
        self._listed = False
        self._failures = FailureList(hide)
        self._failed = 0
        self._collecting = ""
        self._said: dict[str, str] = {}
        """By file that can't be collected: what pytest says of it. Its summary has this only sometimes."""
        self._conftest = ""
        """The file of set-up that can't be imported: pytest then prints no counts."""

    def add(self, line: str) -> None:
        if _SUMMARY.fullmatch(line):
            self._listed, self._failures, self._failed, self._counts = True, FailureList(self._hide), 0, None
        elif counts := _COUNTS.fullmatch(line):
            self._counts = _counted(counts["counts"])
        elif self._listed and (found := _FAILURE.match(line)):
            id, message = _split(found["what"])
            message = message or self._said.get(id, "")
            is_error = found["kind"] == "ERROR"
            self._failed += not is_error
            self._failures.add(message, id=id, file=id.partition("::")[0], is_error=is_error)
        elif found := _COLLECTING.fullmatch(line):
            self._collecting = found["file"] if len(self._said) < MAX_READ_FAILURES else ""
        elif self._collecting and (found := _SAID.match(line)):
            self._said[self._collecting] = found["what"]
        elif found := _CONFTEST.match(line):
            self._conftest = found["file"]
        elif self._conftest and line.startswith("E   ") and not self._failures.count:
            self._failures.add(line[4:], file=self._conftest, is_error=True)

    def reading(self) -> CheckReading:
        counts = self._counts
        if counts is None and self._failures.count:
            counts = CheckCounts(failed=self._failed, errors=self._failures.count - self._failed)
        if counts is None:
            return CheckReading(
                problem="unreadable",
                reason="the output has no summary of pytest: run it without -qq, or use `parse: junit`",
            )
        if counts.failed + counts.errors and not self._failures.count:
            self._failures.add(f"{counts.failed} failed, {counts.errors} errors", place="pytest")
        return self._failures.reading(counts, at_least=counts.failed + counts.errors)


def _counted(text: str) -> CheckCounts:
    found = {"passed": 0, "failed": 0, "errors": 0, "skipped": 0}
    for part in text.split(", "):
        number, _, word = part.partition(" ")
        if word in _FIELDS:
            found[_FIELDS[word]] += int(number)
    return CheckCounts(**found)


def _split(what: str) -> tuple[str, str]:
    """The id and the message. The parameters of a test, in brackets, may contain the separator."""
    id, _, message = what.partition(" - ")
    if id.count("[") > id.count("]"):
        id, closed, message = what.partition("] - ")
        return id + closed[:1], message
    return id, message


# -- linters, compilers and type checkers: the lines that name a file and a line
#
#     path:12:5: E501 line too long            ruff, flake8, shellcheck -f gcc
#     path:12: error: wrong type  [arg-type]   mypy
#     path:12:5: error: unused [-Wunused]      gcc, clang, go vet
#     path(12,5): error TS2322: wrong type     tsc, MSBuild
#     path:12:5 - error TS2322: wrong type     tsc --pretty
#     error[E0425]: not found                  rustc, ruff: the place is on a line of its own
#       --> path:12:5
#
# Notes are not failures, and warnings only if there is no error.

_FILE = r"(?=[^:]*[A-Za-z_])(?P<file>(?:[A-Za-z]:[\\/])?[^\s:][^:]{0,400}?)"
_COLONS = re.compile(rf"{_FILE}:(?P<line>\d{{1,9}})(?::\d{{1,9}})?(?::| -) (?P<text>\S.*)")
_BRACKETS = re.compile(rf"{_FILE}\((?P<line>\d{{1,9}})(?:,\d{{1,9}}){{0,3}}\) ?: (?P<text>\S.*)")
_ARROW = re.compile(r"\s*--> (?P<file>[^\s:][^:]{0,400}):(?P<line>\d{1,9})(?::\d{1,9})?")
_SEVERITY = re.compile(
    r"(?P<severity>(?:fatal )?error|warning|note|info(?:rmation)?|hint|help|remark|style)\b", re.IGNORECASE
)
_RULE_FIRST = re.compile(r"\[?(?P<rule>[A-Z][A-Z0-9]{0,9}-?\d{1,6})\]?(?: \[\*\])?:? (?P<text>.*)")
_RULE_LAST = re.compile(r"(?P<text>.*\S)\s+\[(?P<rule>[A-Za-z@-][\w@/.,=-]{0,60})\]")
_NOTES = frozenset({"note", "info", "information", "hint", "help", "remark", "style"})


def read_lines(output: bytes, hide: Hide = str) -> CheckReading:
    """The counts have no passes: linters don't name what is right."""
    errors, warnings = FailureList(hide), FailureList(hide)
    before = ""
    for line in output_lines(output):
        if found := _COLONS.match(line) or _BRACKETS.match(line):
            _add(found["text"], found["file"], found["line"], errors, warnings)
        elif before and (found := _ARROW.fullmatch(line)):
            _add(before, found["file"], found["line"], errors, warnings)
        before = line
    failures = errors if errors.count else warnings
    return failures.reading(CheckCounts(failed=failures.count))


def _add(text: str, file: str, line: str, errors: FailureList, warnings: FailureList) -> None:
    severity, text = _severity(text)
    if severity in _NOTES:
        return
    found = _RULE_FIRST.match(text) or _RULE_LAST.fullmatch(text)
    rule, message = (found["rule"], found["text"]) if found else ("", text)
    target = warnings if severity == "warning" else errors
    target.add(message, file=file, line=int(line), rule=rule)


def _severity(text: str) -> tuple[str, str]:
    found = _SEVERITY.match(text)
    if found is None:
        return "", text
    rest = text[found.end() :]
    # A word of the message is followed by another one.
    if rest[:1] not in (":", "[") and not _RULE_FIRST.match(rest.lstrip()):
        return "", text
    return found["severity"].lower(), rest.removeprefix(":").lstrip()
