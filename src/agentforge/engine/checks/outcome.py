"""The outcome of a check, from what its program left.

- `timeout`: it was ended at its time limit.
- `error`: it says nothing about the work. It didn't start, a signal ended it, no test was executed, its
  report is missing, or its report or output can't be read or is incomplete.
- `fail`: a test failed, or the exit status isn't 0.
- `pass`: none of these.

For `lines`, the exit status alone decides: linters also print what they accept. `expect: fail` exchanges
`pass` and `fail`; an error stays an error. `expect: red` is judged later (`red`).
"""

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.checks.junit import read_junit, unreadable_report
from agentforge.engine.checks.output import (
    CheckReading,
    FailureList,
    Hide,
    last_line,
    read_lines,
    read_pytest,
)
from agentforge.model.check import (
    MAX_KEPT_FAILURES,
    CheckCounts,
    CheckEnd,
    CheckExpectation,
    CheckFailure,
    CheckOutcome,
    CheckParser,
    CheckProblem,
    RanTest,
)

# Whatever is not certainly about the work is an error, not a failure. A failure is sent back to an agent,
# which believes it: told that a test fails because its runner is missing or its output was cut, it would
# change code that is right, again and again. With an error the run stops, and a person looks. A run of no
# tests is one, too: to delete them would be the quickest way to pass.
#
# `expect: fail` is applied last. A program that couldn't run is not the failure that was expected.

_SHELL_CANNOT_RUN = frozenset({126, 127})
"""Exit statuses of a shell that can't execute the command, or doesn't find it."""
_SHELL_SAW_IT_KILLED = frozenset({137, 143})
"""Exit codes of a shell whose command was ended by SIGKILL or SIGTERM: by the system or a person."""
_NOTHING = CheckCounts()
_PASSED = "it passed, although it is expected to fail"


class ReadCheck(Struct, frozen=True):
    outcome: CheckOutcome
    failures: tuple[CheckFailure, ...] = ()
    """All that were read, also those that the outcome doesn't keep."""
    tests: tuple[RanTest, ...] | None = None
    """All tests that ran, if the report has them."""


class UnreadReport(Struct, frozen=True):
    """A report that exists and can't be read."""

    reason: str


def read_check(
    parser: CheckParser,
    expect: CheckExpectation,
    end: CheckEnd,
    output: bytes,
    report: bytes | UnreadReport | None = None,
    *,
    hide: Hide = str,
    project: str = "",
) -> ReadCheck:
    """`report`: the content of the check's report, None if it is missing; only `junit` reads it. `hide` is
    applied to the failures and the reason. `project`: its folder, which is left out of paths."""
    if end.timed_out:
        return ReadCheck(CheckOutcome("timeout", end.exit_code, reason="it reached its time limit"))
    code = end.exit_code
    if end.not_started:
        return _error(code, "not_started", hide(f"it could not be started: {end.not_started}"))
    if code is None or code in _SHELL_SAW_IT_KILLED:
        return _error(code, "terminated", "a signal ended it")
    if end.output_lost:
        return _error(code, "unreadable", hide(f"its output is incomplete: {end.output_lost}"))
    if code in _SHELL_CANNOT_RUN:
        return _error(code, "not_started", hide(f"it could not be started: {last_line(output)}"))
    reading = _reading(parser, code, output, report, hide, project=project)
    if reading.problem is not None:
        return _error(code, reading.problem, hide(reading.reason))
    if parser in ("junit", "pytest") and not reading.counts.executed:
        return _error(code, "no_tests", "no test was executed", reading.counts)
    read = replace(_judged(reading, code, output, hide), tests=reading.tests)
    return expected(read, expect)


def _reading(
    parser: CheckParser,
    code: int,
    output: bytes,
    report: bytes | UnreadReport | None,
    hide: Hide,
    *,
    project: str,
) -> CheckReading:
    match parser:
        case "exit":
            return CheckReading()
        case "pytest":
            return read_pytest(output, hide)
        case "lines":
            return read_lines(output, hide) if code else CheckReading()
        case "junit":  # exhaustive
            if report is None:
                return CheckReading(problem="no_report", reason="it left no report")
            if isinstance(report, UnreadReport):
                return unreadable_report(report.reason)
            return read_junit(report, hide, project)


def _error(code: int | None, problem: CheckProblem, reason: str, counts: CheckCounts = _NOTHING) -> ReadCheck:
    return ReadCheck(CheckOutcome("error", code, counts, problem=problem, reason=reason))


def unreadable(reason: str) -> ReadCheck:
    """Of a check whose outcome needs a file that can't be read."""
    return _error(None, "unreadable", reason)


def _judged(reading: CheckReading, code: int, output: bytes, hide: Hide) -> ReadCheck:
    counts = reading.counts
    if code == 0 and not reading.failure_count:
        return ReadCheck(CheckOutcome("pass", code, counts))
    if not reading.failure_count:
        found = FailureList(hide)
        found.add(last_line(output), place=f"exit status {code}")
        reading = found.reading(counts)
    failures = reading.failures
    errors = f"{counts.errors} error{'' if counts.errors == 1 else 's'}" if counts.errors else ""
    failed = f"{counts.failed} failed" if counts.failed else ""
    reason = ", ".join(filter(None, (failed, errors))) or f"exit status {code}"
    kept = failures[:MAX_KEPT_FAILURES]
    outcome = CheckOutcome("fail", code, counts, kept, reading.failure_count, reason=reason)
    return ReadCheck(outcome, failures)


def expected(read: ReadCheck, expect: CheckExpectation) -> ReadCheck:
    if expect != "fail":
        return read
    outcome = read.outcome
    if outcome.status == "fail":
        return replace(read, outcome=replace(outcome, status="pass", reason=""))
    failure = CheckFailure(f"expect: fail: {_PASSED}", message=_PASSED)
    failed = replace(outcome, status="fail", failures=(failure,), failure_count=1, reason=_PASSED)
    return ReadCheck(failed, (failure,), read.tests)
