"""What the parsers of checks share: the lines that they read, and the failures that they find."""

from collections.abc import Callable, Iterator
from io import BytesIO

from msgspec import Struct

from agentforge.engine.checks.signature import MAX_MESSAGE_CHARS, first_line, one_line, signature
from agentforge.engine.normalise import without_escapes
from agentforge.model.check import CheckCounts, CheckFailure, CheckProblem

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


class FailureList:
    """Failures as they are found: the first of them, and how many there are."""

    def __init__(self, hide: Hide) -> None:
        self._hide = hide
        self.kept: list[CheckFailure] = []
        self.count = 0

    def add(
        self, message: str, *, id: str = "", file: str = "", line: int = 0, rule: str = "", place: str = ""
    ) -> None:
        """`place`: what identifies the failure besides its message; the id by default, else file and rule."""
        self.count += 1
        if len(self.kept) < MAX_READ_FAILURES:
            id, file, rule = (one_line(self._hide(text)[:MAX_MESSAGE_CHARS]) for text in (id, file, rule))
            where, message = place or id or f"{file} {rule}", self._hide(message)
            self.kept.append(
                CheckFailure(signature(where, message), id, file, line, rule, first_line(message))
            )

    def reading(self, counts: CheckCounts, at_least: int = 0) -> CheckReading:
        return CheckReading(counts, tuple(self.kept), max(self.count, at_least))
