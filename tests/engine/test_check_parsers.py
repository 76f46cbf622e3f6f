"""The parsers read what a hostile program may have written: nothing is raised, and memory is bounded."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.test_check_outcome import RECORDED
from tests.sampling import heavy

from agentforge.engine.checks.failure_list import CheckReading
from agentforge.engine.checks.junit import read_junit
from agentforge.engine.checks.lint_lines import read_lines
from agentforge.engine.checks.outcome import read_check
from agentforge.engine.checks.pytest_output import read_pytest
from agentforge.model.check import MAX_KEPT_FAILURES, CheckEnd, CheckExpectation, CheckParser

PARSERS: dict[str, Callable[[bytes], CheckReading]] = {
    "junit": read_junit,
    "lines": read_lines,
    "pytest": read_pytest,
}
XML = [
    "<testsuite>",
    "</testsuite>",
    "<testcase name='t'>",
    "</testcase>",
    "<failure message='m'>",
    "</failure>",
]
XML += [
    "<error>",
    "</error>",
    "<skipped/>",
    "<system-out>",
    "</system-out>",
    "<![CDATA[",
    "]]>",
    "&#10;",
    "&x;",
    "x",
]
LINES = [
    "a.py",
    ":1",
    ":2",
    ": ",
    "(3,4)",
    " - ",
    "error",
    "warning",
    "note",
    "[E1]",
    "TS1:",
    " --> ",
    "\n",
    "\r",
    "x ",
]
PYTEST = [
    "=== ",
    " ===",
    "short test summary info",
    "FAILED ",
    "ERROR ",
    "SUBFAILED(i=1) ",
    "a.py::t[",
    "]",
    " - ",
]
PYTEST += [
    "1 failed",
    "2 passed",
    ", ",
    " in 1.0s",
    "no tests ran",
    "E   ",
    "\n",
    "\x1b[1m",
    "\x1b",
    "99999999999",
]
PYTEST += ["ImportError while loading conftest 'c.py'"]
PIECES = st.sampled_from([*XML, *LINES, *PYTEST]) | st.text(max_size=5)
OUTPUTS = st.binary() | st.lists(PIECES, max_size=60).map(
    lambda found: "".join(found).encode("utf-8", "replace")
)
"""Bytes, and texts of the parts that the parsers know."""


@given(
    st.sampled_from(["exit", "junit", "pytest", "lines"]),
    st.sampled_from(["pass", "fail"]),
    st.none() | st.integers(-1, 255),
    OUTPUTS,
    st.none() | OUTPUTS,
)
def test_any_output_is_an_outcome(
    parser: CheckParser, expect: CheckExpectation, code: int | None, output: bytes, report: bytes | None
) -> None:
    read = read_check(parser, expect, CheckEnd(code), output, report)
    outcome = read.outcome
    assert len(outcome.failures) <= MAX_KEPT_FAILURES
    assert outcome.failures == read.failures[:MAX_KEPT_FAILURES]
    assert (outcome.status == "error") == (outcome.problem is not None)
    assert (outcome.status == "pass") == (outcome.reason == "")
    assert outcome.status != "fail" or outcome.failure_count >= len(outcome.signatures) > 0
    if parser in ("junit", "pytest") and outcome.status == "pass":
        assert outcome.counts.executed
    if expect == "pass" and outcome.status == "pass":
        assert code == 0
        assert not outcome.counts.failed + outcome.counts.errors


@heavy
@given(st.sampled_from(sorted(PARSERS)), st.data())
def test_a_part_of_a_recorded_output_is_read(parser: str, data: st.DataObject) -> None:
    names = sorted(path.name for path in RECORDED.iterdir())
    content = (RECORDED / data.draw(st.sampled_from(names))).read_bytes()
    start, end = (data.draw(st.integers(0, len(content))) for _ in range(2))
    reading = PARSERS[parser](content[:start] + data.draw(st.binary(max_size=20)) + content[end:])
    assert len(reading.failures) <= reading.failure_count or reading.problem


def _xml(inner: bytes, size: int) -> bytes:
    return b"<testsuite>" + inner * (size // len(inner)) + b"</testsuite>"


SIZE = 256 * 1024
SUMMARY = b"=== short test summary info ===\n"
LARGE = {
    "one line": b"a" * SIZE,
    "empty lines": b"\n" * SIZE,
    "digits": b"1" * SIZE,
    "colons": b":1" * (SIZE // 2),
    "escapes": b"\x1b]" * (SIZE // 2),
    "returns": b"\r" * SIZE,
    "problems": b"a:1: b\n" * (SIZE // 7),
    "arrows": b"a\n --> b:1\n" * (SIZE // 11),
    "brackets": b"a(" * (SIZE // 2),
    "failures": SUMMARY + b"FAILED a\n" * (SIZE // 9),
    "separators": (SUMMARY + b"FAILED [" + b" - " * 1300 + b"\n") * (SIZE // 4000),
    "counts": (b"1 a" + b", 1 a" * 800 + b"\n") * (SIZE // 4000),
    "tests": _xml(b"<testcase><failure/></testcase>", SIZE),
    "text": _xml(b"x", SIZE),
    "failure text": b"<testsuite><testcase><failure>"
    + b"&#65;" * (SIZE // 5)
    + b"</failure></testcase></testsuite>",
    "attribute": b"<testsuite><testcase name='" + b"x" * SIZE + b"'><error/></testcase></testsuite>",
    "comments": _xml(b"<!---->", SIZE),
    "open elements": b"<testsuite>" * (SIZE // 11),
    "quotes": b"<testsuite a='" + b"<" * SIZE,
}


@pytest.mark.parametrize("parser", sorted(PARSERS))
@pytest.mark.parametrize("name", sorted(LARGE))
def test_memory_is_bounded_by_the_size_of_the_file(parser: str, name: str) -> None:
    """And by the kept failures, which are limited in number and size."""
    kept = 12 * 1024 * 1024
    tracemalloc.start()
    try:
        reading = PARSERS[parser](LARGE[name])
        assert tracemalloc.get_traced_memory()[1] < 4 * SIZE + kept
    finally:
        tracemalloc.stop()
    assert reading.failure_count <= SIZE
