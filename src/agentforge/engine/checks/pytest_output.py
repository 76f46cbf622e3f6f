"""Reads the output of pytest on a terminal: its last line of counts, and the failures of its short summary.

What tests print can look like both; pytest prints its own last.
"""

import re

from agentforge.engine.checks.parser import CheckReading, FailureList, Hide, output_lines
from agentforge.model.check import CheckCounts

_COUNTS = re.compile(
    r"(?:=+ )?(?P<counts>no tests ran|\d{1,9} [a-z][a-z ]*(?:, \d{1,9} [a-z][a-z ]*)*)"
    r" in \d+(?:\.\d+)?s(?: \([^()]*\))?(?: =+)?"
)
_SUMMARY = re.compile(r"=+ short test summary info =+")
_FAILURE = re.compile(r"(?P<kind>FAILED|ERROR|SUBFAILED\S*(?: \([^)]*\))?) (?P<what>\S.*)")
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
        self._conftest = ""
        """The file of set-up that can't be imported: pytest then prints no counts."""

    def add(self, line: str) -> None:
        if _SUMMARY.fullmatch(line):
            self._listed, self._failures, self._failed, self._counts = True, FailureList(self._hide), 0, None
        elif counts := _COUNTS.fullmatch(line):
            self._counts = _counted(counts["counts"])
        elif self._listed and (found := _FAILURE.match(line)):
            id, message = _split(found["what"])
            self._failed += found["kind"] != "ERROR"
            self._failures.add(message, id=id, file=id.partition("::")[0])
        elif found := _CONFTEST.match(line):
            self._conftest = found["file"]
        elif self._conftest and line.startswith("E   ") and not self._failures.count:
            self._failures.add(line[4:], file=self._conftest)

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
