"""Only failures count that were not there before the first agent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.engine.checks.outcome import ReadCheck, read_check
from agentforge.engine.checks.output import MAX_READ_FAILURES
from agentforge.engine.checks.regressions import baseline_of, only_new
from agentforge.model.check import MAX_KEPT_FAILURES, Baseline, CheckEnd, CheckParser


def lint(*lines: str) -> ReadCheck:
    return read_check("lines", "pass", CheckEnd(1 if lines else 0), "\n".join(lines).encode())


def suite(*failed: str) -> ReadCheck:
    lines = ["=== short test summary info ===", *(f"FAILED {id} - it {id} failed" for id in failed)]
    text = "\n".join([*lines, f"=== {len(failed)} failed, 3 passed in 0.1s ==="])
    return read_check("pytest", "pass", CheckEnd(1), text.encode())


OLD = lint("a.py:1:1: E501 line too long", "a.py:7:1: E501 line too long", "b.py:2: it is odd")


@pytest.mark.parametrize(
    ("now", "status", "reason", "before"),
    [
        (lint(), "pass", "", 0),
        (OLD, "pass", "", 3),
        (lint("a.py:90:1: E501 another text"), "pass", "", 1),
        (lint("a.py:1:1: E502 x"), "fail", "1 failed", 0),
        (
            lint("c.py:1:1: E501 line too long", "b.py:9: it is odd"),
            "fail",
            "1 new failure (1 failed before too)",
            1,
        ),
        (
            lint("b.py:2: it is even", "b.py:1: 2", "b.py:8: it is odd"),
            "fail",
            "2 new failures (1 failed before too)",
            1,
        ),
        (lint("something else"), "fail", "exit status 1", 0),
    ],
)
def test_outcome_counts_new_failures_by_file_and_rule(
    now: ReadCheck, status: str, reason: str, before: int
) -> None:
    read = only_new(now, baseline_of(OLD))
    assert (read.outcome.status, read.outcome.reason, read.outcome.before) == (status, reason, before)
    assert read.outcome.failure_count == len(read.failures) == len(read.outcome.failures)


def test_tests_are_the_same_by_their_ids() -> None:
    before = baseline_of(suite("test_a.py::test_x", "test_a.py::test_y[1]"))
    read = only_new(suite("test_a.py::test_y[1]", "test_a.py::test_y[2]"), before)
    assert read.outcome.reason == "1 new failure (1 failed before too)"
    assert [failure.id for failure in read.failures] == ["test_a.py::test_y[2]"]
    assert only_new(suite("test_a.py::test_x"), before).outcome.counts.failed == 1


@pytest.mark.parametrize(
    ("parse", "end", "output", "unusable"),
    [
        ("exit", CheckEnd(0), b"", ""),
        ("exit", CheckEnd(3), b"a.py:1: bad", "it fails: exit status 3"),
        ("lines", CheckEnd(2), b"it crashed", "it fails: exit status 2"),
        ("lines", CheckEnd(1), b"a.py:1: bad", ""),
        ("pytest", CheckEnd(1), b"2 failed in 0.1s", "it fails: 2 failed"),
        ("pytest", CheckEnd(5), b"no tests ran in 0.1s", ""),
        ("exit", CheckEnd(127), b"ruff: not found", "it could not be started: ruff: not found"),
        ("exit", CheckEnd(timed_out=True), b"", "it reached its time limit"),
        (
            "lines",
            CheckEnd(1),
            b"".join(b"a.py:%d: E1 bad\n" % number for number in range(MAX_READ_FAILURES + 1)),
            "it has 10,001 failures",
        ),
    ],
)
def test_check_is_not_used_if_nothing_can_be_compared_with_it(
    parse: CheckParser, end: CheckEnd, output: bytes, unusable: str
) -> None:
    assert baseline_of(read_check(parse, "pass", end, output)).unusable == unusable


def test_errors_and_timeouts_are_no_failures_that_were_there_before() -> None:
    for now in (CheckEnd(127), CheckEnd(timed_out=True)):
        read = read_check("lines", "pass", now, b"")
        assert only_new(read, baseline_of(OLD)) == read


def test_thousands_of_failures_are_kept_and_compared() -> None:
    lines = [f"f{number}.py:1: E{number % 10} bad" for number in range(MAX_READ_FAILURES)]
    before = baseline_of(lint(*lines))
    assert len(before.keys) == MAX_READ_FAILURES
    assert only_new(lint(*lines), before).outcome.status == "pass"
    many = [f"g{number}.py:1: E1 bad" for number in range(MAX_KEPT_FAILURES + 1)]
    read = only_new(lint(*lines[:9], *many), before)
    assert read.outcome.reason == f"{len(many)} new failures (9 failed before too)"
    assert (len(read.failures), len(read.outcome.failures)) == (len(many), MAX_KEPT_FAILURES)
    unread = only_new(lint(*lines, "g.py:1: E1 bad"), before)
    assert unread.outcome.reason == "1 new failure (10,000 failed before too)"


PLACES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("123"), st.integers(1, 9)), max_size=9)


@given(PLACES, PLACES)
def test_new_are_those_whose_file_and_rule_did_not_fail(before: list, now: list) -> None:
    def ran(places: list) -> ReadCheck:
        return lint(*(f"{file}.py:{line}:1: E{rule} bad" for file, rule, line in places))

    read = only_new(ran(now), baseline_of(ran(before)))
    known = {(file, rule) for file, rule, _ in before}
    new = [(f"{file}.py", f"E{rule}", line) for file, rule, line in now if (file, rule) not in known]
    assert [(each.file, each.rule, each.line) for each in read.failures] == new
    assert read.outcome.status == ("fail" if new else "pass")
    assert read.outcome.before == len(now) - len(new)
    assert baseline_of(ran(before)) == baseline_of(ran(before[::-1])) != Baseline(unusable="x")
