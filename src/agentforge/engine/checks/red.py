"""The outcome of a check with `expect: red`: its tests fail because what they test is missing or wrong.

A test that passes shows nothing, and neither does one that can't run for a reason of its own. Then the check
fails, and names these tests.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from agentforge.engine.checks.outcome import ReadCheck, expected
from agentforge.engine.checks.output import output_lines
from agentforge.engine.checks.signature import signature
from agentforge.engine.checks.tests import counts_of, is_in_file
from agentforge.model.check import (
    MAX_KEPT_FAILURES,
    CheckCounts,
    CheckFailure,
    RanTest,
    TestStatus,
)

# Only the message of an error tells whether it is of the test or of the code. One that names what is missing
# is taken as of the code: a wrong name in an import looks the same as a name that is still to be written.
# What isn't known to be of the code is of the test, which can be corrected now, but not when it is frozen.

_NO_TESTS = frozenset({"no_tests", "no_report"})
"""Of an error: nothing ran, as after a mistake in the set-up of the tests."""
_MISSING = re.compile(
    r"\b(?:ModuleNotFoundError|ImportError|AttributeError|NameError|ERR_MODULE_NOT_FOUND)\b"
    r"|\bCannot find (?:module|package|name)\b|\bdoes not provide an export\b"
    r"|\bis not a (?:function|constructor)\b|\bundefined: |\bcannot find symbol\b|\bunresolved import\b"
)
_UNREADABLE = re.compile(r"(?:[\w.]+\.)?(?:SyntaxError|IndentationError|TabError)\b")
_NOT_DEFINED = re.compile(r"NameError: .* \((?P<file>[^()]+):\d+\)$")
_PASSED = "it passed, although it is expected to fail"


def judged_red(
    read: ReadCheck, tolerance: float, before: Mapping[str, TestStatus] | None = None, output: bytes = b""
) -> ReadCheck:
    """`tolerance`: how much of the executed tests may pass. `before`: the statuses before the first agent;
    what was there counts only if it passed then and doesn't now."""
    outcome = read.outcome
    if outcome.status == "error" and outcome.problem in _NO_TESTS:
        return _failed(read, outcome.counts, [_failure("", outcome.reason)], [outcome.reason])
    if outcome.status not in ("pass", "fail"):
        return read
    if read.tests is None and not outcome.counts.total:
        return expected(read, "fail")  # Only the exit status is known.
    if read.tests is None:
        tests, counts = tuple(map(_as_test, read.failures)), outcome.counts
    else:
        tests = tuple(test for test in read.tests if before is None or _is_news(test, before))
        counts = counts_of(tests)
    if read.tests is not None and not counts.executed:
        what = "no test was executed" if before is None else "no new test was executed"
        return _failed(read, counts, [_failure("", what)], [what])
    found, reasons = list[CheckFailure](), list[str]()
    syntax = _syntax_error(output) if any(map(_is_unexplained, tests)) else ""
    own = [(test, cause) for test in tests if (cause := _own_error(test, syntax))]
    if own:
        found += [_failure(test.id, cause, test.file) for test, cause in own]
        reasons.append(f"{_tests(len(own))} can't run: {own[0][0].id or 'it'}: {own[0][1]}")
    if counts.passed > tolerance * counts.executed:
        found += _of_status(tests, "passed", _PASSED, counts.passed)
        most = f"at most {tolerance:.0%} may" if tolerance else "none may"
        reasons.append(f"{counts.passed:,} of {_tests(counts.executed)} passed, but {most}")
    if counts.skipped:
        found += _of_status(tests, "skipped", "it was skipped", counts.skipped)
        reasons.append(f"{_tests(counts.skipped)} {'was' if counts.skipped == 1 else 'were'} skipped")
    if found:
        return _failed(read, outcome.counts, found, reasons)
    red = replace(outcome, status="pass", failures=(), failure_count=0, reason="")
    return ReadCheck(red, (), read.tests)


def _failed(
    read: ReadCheck, counts: CheckCounts, found: Sequence[CheckFailure], reasons: Sequence[str]
) -> ReadCheck:
    failed = replace(
        read.outcome,
        status="fail",
        counts=counts,
        failures=tuple(found[:MAX_KEPT_FAILURES]),
        failure_count=len(found),
        problem=None,
        reason="; ".join(reasons),
    )
    return ReadCheck(failed, tuple(found), read.tests)


def _is_news(test: RanTest, before: Mapping[str, TestStatus]) -> bool:
    if test.status in ("failed", "error"):
        return before.get(test.id) not in ("failed", "error")
    return test.id not in before


def _as_test(failure: CheckFailure) -> RanTest:
    return RanTest(
        failure.id or failure.file, "error" if failure.is_error else "failed", failure.message, failure.file
    )


def _is_unexplained(test: RanTest) -> bool:
    """Whether it stands for a file that node couldn't run: the report doesn't say why."""
    return test.status == "failed" and test.file == test.id != ""


def _own_error(test: RanTest, syntax: str) -> str:
    """Why the test can't run although the code might be there; empty if that isn't so."""
    if test.status not in ("failed", "error"):
        return ""
    told = syntax if syntax and _is_unexplained(test) else test.message
    undefined = _NOT_DEFINED.search(told)
    if _UNREADABLE.match(told) or (undefined and is_in_file(test, undefined["file"])):
        return told
    return "" if test.status == "failed" or _MISSING.search(told) else told or "it has an error"


def _syntax_error(output: bytes) -> str:
    lines = (line.strip() for line in output_lines(output))
    return next((line for line in lines if _UNREADABLE.match(line) and not _MISSING.search(line)), "")


def _of_status(
    tests: Sequence[RanTest], status: TestStatus, what: str, number: int
) -> Iterator[CheckFailure]:
    """One for each test of the status, else for all of them together."""
    named = [test for test in tests if test.status == status]
    for test in named:
        yield _failure(test.id, f"{what}: {test.message}" if test.message else what, test.file)
    if not named:
        yield _failure("", f"{what} ({_tests(number)})")


def _failure(id: str, message: str, file: str = "") -> CheckFailure:
    return CheckFailure(signature(id or "expect: red", message), id, file, message=message)


def _tests(number: int) -> str:
    return f"{number:,} test{'' if number == 1 else 's'}"
