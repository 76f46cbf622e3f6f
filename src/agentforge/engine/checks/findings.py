"""The outcome of a check without a command: a rule about the project that the engine itself applies.

The files come from agents. Reading them takes time in proportion to their size, and a bounded number of
failures is kept.
"""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice

from agentforge.engine.checks.criteria import Criteria
from agentforge.engine.checks.outcome import ReadCheck, UnreadReport, expected
from agentforge.engine.checks.output import CheckReading, FailureList, Hide
from agentforge.engine.checks.signature import one_line
from agentforge.model.check import (
    MAX_KEPT_FAILURES,
    CheckCounts,
    CheckExpectation,
    CheckOutcome,
    FileRule,
)

MAX_CHANGED = 10_000
"""Files that are compared with a scope."""
_SHOWN_CHARS = 80
_FENCES = ("```", "~~~")
_MAX_LEVEL = 6

# A file that is missing, too large, or a link out of the project is the work of an agent, who can mend it:
# that is a failure, not an error. A command that can't be run says nothing about the work.


def read_criteria(
    criteria: Criteria, contents: Iterable[bytes | UnreadReport | None], hide: Hide = str
) -> CheckReading:
    """`contents`: of the files of its rules, one at a time; None if there is no such file."""
    found = FailureList(hide)
    for problem in criteria.problems:
        found.add("", rule="criteria", place=hide(problem))
    for rule, content in zip(criteria.rules, contents, strict=True):
        _apply(rule, content, found, hide)
    return found.reading(CheckCounts())


def _apply(rule: FileRule, content: bytes | UnreadReport | None, found: FailureList, hide: Hide) -> None:
    if content is None:
        _add(found, rule, "exists", "it doesn't exist")
    elif isinstance(content, UnreadReport):
        _add(found, rule, "exists", f"it can't be read: {content.reason}")
    else:
        _compare(rule, content.decode("utf-8", "replace").replace("\r\n", "\n"), found, hide)


def _compare(rule: FileRule, text: str, found: FailureList, hide: Hide) -> None:
    for wanted in rule.contains:
        if wanted not in text:
            _add(found, rule, "contains", f"it doesn't contain {_shown(hide(wanted))}")
    for refused in rule.absent:
        for line in islice(_lines_with(text, refused), MAX_KEPT_FAILURES):
            _add(found, rule, "absent", f"it contains {_shown(hide(refused))}", line)
    headings = set(_headings(text)) if rule.heading else ()
    for wanted in rule.heading:
        if _title(wanted) not in headings:
            _add(found, rule, "heading", f"it has no heading {_shown(hide(wanted))}")


def _add(found: FailureList, rule: FileRule, kind: str, what: str, line: int = 0) -> None:
    # As its place, which keeps the numbers in a quoted text: they are what was asked for.
    found.add("", file=rule.path, line=line, rule=kind, place=f"{rule.path}: {what}")


def read_scope(scope: Sequence[str], changed: Sequence[str], hide: Hide = str) -> CheckReading:
    """`changed`: paths relative to the project; one more than `MAX_CHANGED` stands for all the others."""
    found, allowed = FailureList(hide), hide(", ".join(scope))
    patterns = [_steps(pattern) for pattern in scope]
    for path in changed[:MAX_CHANGED]:
        if not any(_matches(path.split("/"), pattern) for pattern in patterns):
            place = f"{hide(path)}: changed, but only {allowed} may change"
            found.add("", file=path, rule="scope", place=place)
    if len(changed) > MAX_CHANGED:
        found.add("", rule="scope", place=f"more than {MAX_CHANGED:,} files changed")
    return found.reading(CheckCounts())


def _steps(pattern: str) -> list[str]:
    """Of its path; one that ends with `/` is a folder, with all in it."""
    return [step for step in pattern.split("/") if step not in ("", ".")] + ["**"] * pattern.endswith("/")


def _matches(steps: Sequence[str], pattern: Sequence[str]) -> bool:
    """`**` stands for any number of folders. All positions in the pattern are followed at once, so that it
    takes time in proportion to both lengths."""
    reached = _through({0}, pattern)
    for step in steps:
        reached = _through(
            {
                at if pattern[at] == "**" else at + 1
                for at in reached
                if at < len(pattern) and (pattern[at] == "**" or fnmatchcase(step, pattern[at]))
            },
            pattern,
        )
    return len(pattern) in reached


def _through(reached: set[int], pattern: Sequence[str]) -> set[int]:
    """With the positions after each `**`, which may stand for no folder."""
    for at, part in enumerate(pattern):
        if at in reached and part == "**":
            reached.add(at + 1)
    return reached


def read_findings(reading: CheckReading, expect: CheckExpectation) -> ReadCheck:
    failures, number = reading.failures, reading.failure_count
    if reading.problem is not None:
        return ReadCheck(CheckOutcome("error", problem=reading.problem, reason=reading.reason))
    if not number:
        return expected(ReadCheck(CheckOutcome("pass")), expect)
    line = f" (line {failures[0].line})" if failures[0].line else ""
    more = f", and {number - 1} more" if number > 1 else ""
    reason = f"{failures[0].signature}{line}{more}"
    outcome = CheckOutcome("fail", failures=failures[:MAX_KEPT_FAILURES], failure_count=number, reason=reason)
    return expected(ReadCheck(outcome, failures), expect)


def _lines_with(text: str, wanted: str) -> Iterator[int]:
    """The numbers of the lines in which it begins."""
    line, counted, at = 1, 0, text.find(wanted)
    while at >= 0:
        line += text.count("\n", counted, at)
        yield line
        counted, at = at, text.find(wanted, at + len(wanted))


def _headings(text: str) -> Iterator[str]:
    """The titles of the ATX headings of Markdown, without those in blocks of code."""
    fence = ""
    for line in map(str.strip, text.split("\n")):
        if fence:
            fence = "" if line.startswith(fence) else fence
        elif line.startswith(_FENCES):
            fence = line[:3]
        elif line.startswith("#") and (title := _title(line)):
            yield title


def _title(line: str) -> str:
    """`Install` of `## Install`, or of `Install`; empty if it isn't a heading."""
    rest = line.strip().lstrip("#")
    level = len(line.strip()) - len(rest)
    is_title = not level or (level <= _MAX_LEVEL and rest[:1].isspace())
    return rest.strip().rstrip("#").strip() if is_title else ""


def _shown(text: str) -> str:
    line = one_line(text)
    return f"{line[:_SHOWN_CHARS]!r}{'...' if len(line) > _SHOWN_CHARS else ''}"
