"""The parsers read what a hostile program may have written: nothing is raised, and memory and
time are bounded."""

import time
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.test_check_outcome import RECORDED
from tests.sampling import heavy

from agentforge.engine.checks.junit import read_junit
from agentforge.engine.checks.outcome import read_check
from agentforge.engine.checks.output import CheckReading, read_lines, read_pytest
from agentforge.engine.checks.red import judged_red
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
    st.sampled_from(["pass", "fail", "red"]),
    st.none() | st.integers(-1, 255),
    OUTPUTS,
    st.none() | OUTPUTS,
)
def test_any_output_is_an_outcome(
    parser: CheckParser, expect: CheckExpectation, code: int | None, output: bytes, report: bytes | None
) -> None:
    read = read_check(parser, expect, CheckEnd(code), output, report)
    if expect == "red":
        read = judged_red(read, 0.3, output=output)
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


def _rows(row: bytes, size: int) -> bytes:
    return row * (size // len(row))


SUMMARY = b"=== short test summary info ===\n"


LARGE: dict[str, Callable[[int], bytes]] = {
    "one line": lambda size: b"a" * size,
    "empty lines": lambda size: b"\n" * size,
    "digits": lambda size: b"1" * size,
    "colons": lambda size: b":1" * (size // 2),
    "escapes": lambda size: b"\x1b]" * (size // 2),
    "returns": lambda size: b"\r" * size,
    "problems": lambda size: _rows(b"a:1: b\n", size),
    "arrows": lambda size: _rows(b"a\n --> b:1\n", size),
    "brackets": lambda size: b"a(" * (size // 2),
    "failures": lambda size: SUMMARY + _rows(b"FAILED a\n", size),
    "separators": lambda size: _rows(SUMMARY + b"FAILED [" + b" - " * 1300 + b"\n", size),
    "counts": lambda size: _rows(b"1 a" + b", 1 a" * 800 + b"\n", size),
    "tests": lambda size: _xml(b"<testcase><failure/></testcase>", size),
    "text": lambda size: _xml(b"x", size),
    "failure text": lambda size: (
        b"<testsuite><testcase><failure>" + b"&#65;" * (size // 5) + b"</failure></testcase></testsuite>"
    ),
    "attribute": lambda size: (
        b"<testsuite><testcase name='" + b"x" * size + b"'><error/></testcase></testsuite>"
    ),
    "comments": lambda size: _xml(b"<!---->", size),
    "open elements": lambda size: b"<testsuite>" * (size // 11),
    "quotes": lambda size: b"<testsuite a='" + b"<" * size,
}


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "blanks": lambda size: _rows(b"a.py:1: x" + b" " * 4000 + b"\n", size),
    "blanks after a severity": lambda size: _rows(b"a.py:1: error" + b" " * 4000 + b"\n", size),
    "rules that don't end": lambda size: _rows(b"a.py:1: x" + b" [a" * 1300 + b"\n", size),
    "places that don't end": lambda size: _rows(b"a" * 390 + b"(1" * 1500 + b"\n", size),
    "rulers": lambda size: _rows(b"=" * 4000 + b" short test summary info " + b"=" * 50 + b"\n", size),
    "counts that don't end": lambda size: _rows(b"1 a" + b" in" * 1300 + b"\n", size),
    "numbers": lambda size: SUMMARY + _rows(b"FAILED a - " + b"1." * 1900 + b"\n", size),
    "hashes": lambda size: SUMMARY + _rows(b"FAILED a - " + b"a1" * 1900 + b"\n", size),
    "temporary paths": lambda size: SUMMARY + _rows(b"FAILED a - " + b"/tmp" * 900 + b"\n", size),
    "dates": lambda size: SUMMARY + _rows(b"FAILED a - " + b"2026-01-01 " * 300 + b"\n", size),
    "parameters": lambda size: SUMMARY + _rows(b"FAILED a[" + b"] - [" * 700 + b"\n", size),
    "set-up that fails": lambda size: _rows(b"ImportError while loading conftest 'c\n", size),
    "progress": lambda size: b"a\r" * (size // 2),
    "invalid UTF-8": lambda size: _rows(b"\xff:1: \x80\n", size),
    "zeros": bytes,
    "attributes": lambda size: b"<testsuite " + b"".join(b"a%d='' " % n for n in range(size // 10)) + b"/>",
    "the same attribute": lambda size: b"<testsuite " + b"a='' " * (size // 5) + b"/>",
    "a long name": lambda size: b"<" + b"a" * size + b"/>",
    "prefixes": lambda size: _xml(b"<" + b"a:" * 1000 + b"a/>", size),
    "different names": lambda size: b"<testsuite>" + b"".join(b"<e%d/>" % n for n in range(size // 9)),
    "entities": lambda size: b"<!DOCTYPE a [" + b"<!ENTITY a 'b'>" * (size // 15) + b"]><testsuite/>",
    "instructions": lambda size: _xml(b"<?a b?>", size),
    "sections": lambda size: b"<testsuite><testcase><failure>" + b"<![CDATA[x]]>" * (size // 13),
    "references": lambda size: b"<testsuite a='" + b"&amp;" * (size // 5) + b"'/>",
    "UTF-16": lambda size: f"<testsuite>{'x' * (size // 2)}</testsuite>".encode("utf-16"),
    "an unknown encoding": lambda size: b"<?xml version='1.0' encoding='" + b"x" * size + b"'?><testsuite/>",
    "another encoding": lambda size: b"<?xml version='1.0' encoding='big5'?>" + _xml(b"\xa4\xa4", size),
    "results in results": lambda size: (
        b"<testsuite><testcase>" + b"<failure><error/></failure>" * (size // 27)
    ),
}
"""What a pattern or an XML parser may take long for."""


KEPT = 12 * 1024 * 1024
"""Of the failures, which are limited in number and size."""


def _memory_is_bounded(parser: str, content: bytes) -> None:
    tracemalloc.start()
    try:
        reading = PARSERS[parser](content)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(content) + KEPT
    finally:
        tracemalloc.stop()
    assert reading.failure_count <= len(content)


@pytest.mark.parametrize("parser", sorted(PARSERS))
@pytest.mark.parametrize("name", sorted(LARGE))
def test_memory_is_bounded_by_the_size_of_the_file(parser: str, name: str) -> None:
    """And by the kept failures."""
    _memory_is_bounded(parser, LARGE[name](256 * 1024))


@pytest.mark.soak
@pytest.mark.parametrize("parser", sorted(PARSERS))
@pytest.mark.parametrize("name", sorted(LARGE | HOSTILE))
def test_memory_and_time_of_a_large_file_are_bounded(parser: str, name: str) -> None:
    """Four times the size takes about four times as long: not sixteen times."""
    built, size, taken = (LARGE | HOSTILE)[name], 512 * 1024, []
    _memory_is_bounded(parser, built(4 * size))
    for content in (built(size), built(4 * size)):
        began = time.process_time()
        PARSERS[parser](content)
        taken.append(time.process_time() - began)
    assert taken[1] < 10 * taken[0] + 0.5, taken
