"""What a parser found."""

from collections.abc import Callable

from msgspec import Struct

from agentforge.engine.checks.signature import MAX_MESSAGE_CHARS, first_line, one_line, signature
from agentforge.model.check import CheckCounts, CheckFailure, CheckProblem

MAX_READ_FAILURES = 10_000
"""More are only counted."""

Hide = Callable[[str], str]
"""Replaces the secrets in a text. It is applied before anything is masked or cut: parts of a secret would not
be recognised."""


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
