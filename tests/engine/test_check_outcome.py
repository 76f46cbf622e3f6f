"""What the programs of checks leave, as recorded from real ones (`check_outputs/`), becomes one outcome."""

from pathlib import Path

import pytest

from agentforge.engine.checks.junit import MAX_DEPTH, MAX_NAMES, MAX_REPORT_BYTES, MAX_TAG_BYTES, read_junit
from agentforge.engine.checks.outcome import ReadCheck, UnreadReport, read_check
from agentforge.engine.checks.output import MAX_LINE_BYTES, MAX_READ_FAILURES, last_line
from agentforge.engine.checks.signature import MAX_MESSAGE_CHARS, first_line
from agentforge.model.check import (
    MAX_KEPT_FAILURES,
    CheckCounts,
    CheckEnd,
    CheckExpectation,
    CheckOutcome,
    CheckParser,
)
from agentforge.model.secrets import Redactor

RECORDED = Path(__file__).parent / "check_outputs"
MIXED = CheckCounts(passed=3, failed=5, errors=1, skipped=1)
TESTS = ("test_number", "test_param[a - b]", "test_param[c[0]]", "test_setup")
GROUPED = ("test_inner", "test_object")


def of_pytest(name: str, code: int) -> ReadCheck:
    return read_check("pytest", "pass", CheckEnd(code), (RECORDED / f"{name}.txt").read_bytes())


def of_junit(report: str | bytes, code: int = 1) -> CheckOutcome:
    content = report.encode() if isinstance(report, str) else report
    return read_check("junit", "pass", CheckEnd(code), b"", content).outcome


def of_lines(output: str, code: int = 1) -> ReadCheck:
    return read_check("lines", "pass", CheckEnd(code), output.encode())


def recorded(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


# -- pytest


@pytest.mark.parametrize("name", ["mixed", "quiet", "all", "verbose", "colour", "xdist", "ci"])
def test_a_run_of_pytest_with_all_kinds_of_results(name: str) -> None:
    read = of_pytest(name, 1)
    assert (read.outcome.status, read.outcome.counts) == ("fail", MIXED)
    assert (read.outcome.reason, read.outcome.failure_count) == ("5 failed, 1 error", 6)
    assert read.outcome.counts.total == 10
    single = {f"tests/test_mixed.py::{test}" for test in TESTS}
    grouped = {f"tests/test_mixed.py::TestGroup::{test}" for test in GROUPED}
    assert {failure.id for failure in read.failures} == single | grouped
    assert {failure.file for failure in read.failures} == {"tests/test_mixed.py"}


@pytest.mark.parametrize("names", [("mixed", "quiet", "all", "verbose", "xdist"), ("colour", "ci")])
def test_two_runs_have_the_same_signatures(names: tuple[str, ...]) -> None:
    """Messages contain addresses, times, temporary paths and random ids; those of the first runs are cut."""
    assert len({frozenset(of_pytest(name, 1).outcome.signatures) for name in names}) == 1


def test_whole_messages_of_pytest_are_masked() -> None:
    inner, number, thing = "TestGroup::test_inner", "test_number", "TestGroup::test_object"
    place = "tests/test_mixed.py::"
    assert set(of_pytest("ci", 1).outcome.signatures) == {
        f"{place}{number}: AssertionError: at <address> after <time>",
        f"{place}test_param[a - b]: AssertionError: <uuid> in <tmp>",
        f"{place}test_param[c[0]]: AssertionError: <uuid> in <tmp>",
        f"{place}{inner}: ValueError: first line",
        f"{place}{thing}: assert <test_mixed.Thing object at <address>> is None",
        f"{place}test_setup: RuntimeError: no database at <n>",
    }


@pytest.mark.parametrize("name", ["passed", "passed_quiet"])
def test_passed_tests(name: str) -> None:
    assert of_pytest(name, 0).outcome == CheckOutcome("pass", 0, CheckCounts(passed=2))


@pytest.mark.parametrize(
    ("name", "code"),
    [("none", 5), ("none_quiet", 5), ("deselected", 5), ("skipped", 0), ("missing", 4), ("none", 0)],
)
def test_zero_executed_tests_are_an_error(name: str, code: int) -> None:
    outcome = of_pytest(name, code).outcome
    assert (outcome.status, outcome.problem, outcome.reason) == ("error", "no_tests", "no test was executed")


def test_tests_that_cant_be_collected_are_failures() -> None:
    outcome = of_pytest("collection", 2).outcome
    assert (outcome.status, outcome.counts) == ("fail", CheckCounts(errors=2))
    assert (outcome.signatures, outcome.reason) == (
        (
            "broken/test_broken.py: ModuleNotFoundError: No module named 'missing_module_x'",
            "broken/test_syntax.py: SyntaxError: invalid syntax",
        ),
        "2 errors",
    )


def test_a_conftest_that_cant_be_imported_is_a_failure() -> None:
    outcome = of_pytest("conftest", 4).outcome
    assert (outcome.status, outcome.counts) == ("fail", CheckCounts(errors=1))
    assert outcome.failures[0].file == "/project/conf/conftest.py"
    assert outcome.failures[0].message == "ModuleNotFoundError: No module named 'missing_module_x'"


def test_failures_without_a_line_of_counts_are_counted() -> None:
    outcome = of_pytest("very_quiet", 1).outcome
    assert (outcome.status, outcome.counts) == ("fail", CheckCounts(failed=5, errors=1))


def test_counts_without_a_list_of_failures() -> None:
    outcome = of_pytest("no_summary", 1).outcome
    assert (outcome.status, outcome.counts, outcome.failure_count) == ("fail", MIXED, 6)
    assert outcome.signatures == ("pytest: <n> failed, <n> errors",)
    only = read_check("pytest", "pass", CheckEnd(1), b"2 failed, 1 passed in 0.10s\n").outcome
    assert (only.failure_count, only.signatures) == (2, outcome.signatures)


def test_output_that_isnt_of_pytest_is_an_error() -> None:
    assert of_pytest("usage", 4).outcome.problem == "unreadable"
    assert read_check("pytest", "pass", CheckEnd(0), b"...... [100%]\n").outcome.problem == "unreadable"


def test_passed_tests_with_an_exit_code_are_a_failure() -> None:
    output = b"FAIL Required test coverage of 90% not reached\n3 passed in 61.00s (0:01:01)\n"
    outcome = read_check("pytest", "pass", CheckEnd(1), output).outcome
    assert (outcome.status, outcome.counts.passed, outcome.reason) == ("fail", 3, "exit status 1")
    assert outcome.signatures == ("exit status 1: <n> passed in <time> (<time>)",)


def test_subtests() -> None:
    output = b"""=== short test summary info ===
SUBFAILED(i=1) t.py::T::test_many - AssertionError: 1 == 1
SUBFAILED[m] (i=1) t.py::test_s - assert 1 != 1
3 failed, 3 passed, 1 rerun, 4 subtests passed in 0.71s
"""
    read = read_check("pytest", "pass", CheckEnd(1), output)
    assert read.outcome.counts == CheckCounts(passed=3, failed=3)
    assert [failure.id for failure in read.failures] == ["t.py::T::test_many", "t.py::test_s"]


def test_summary_of_a_run_inside_a_test_is_not_that_of_the_check() -> None:
    inner = b"""=== short test summary info ===
FAILED inner.py::test_one - assert 1 == 2
ERROR inner.py::test_two
1 failed, 1 error in 0.01s
"""
    outer = b"""=== short test summary info ===
FAILED t.py::test_inner - assert 3 == 4
1 failed, 2 passed in 0.71s
"""
    read = read_check("pytest", "pass", CheckEnd(1), inner + outer)
    assert read.outcome.counts == CheckCounts(passed=2, failed=1)
    assert read.outcome.failure_count == 1
    assert [failure.id for failure in read.failures] == ["t.py::test_inner"]
    cut = read_check("pytest", "pass", CheckEnd(1), inner + outer[: outer.index(b"1 failed")])
    assert cut.outcome.counts == CheckCounts(failed=1)


# -- JUnit


@pytest.mark.parametrize("name", ["mixed.xml", "xunit1.xml"])
def test_a_junit_report_of_pytest(name: str) -> None:
    outcome = of_junit(recorded(name))
    assert (outcome.status, outcome.counts, outcome.failure_count) == ("fail", MIXED, 6)
    ids = {f"tests.test_mixed::{test}" for test in TESTS}
    assert {failure.id for failure in outcome.failures} == ids | {
        f"tests.test_mixed.TestGroup::{test}" for test in GROUPED
    }


def test_two_reports_have_the_same_signatures() -> None:
    assert of_junit(recorded("mixed.xml")).signatures == of_junit(recorded("xunit1.xml")).signatures


@pytest.mark.parametrize(
    ("name", "status", "counts"),
    [
        ("passed.xml", "pass", CheckCounts(passed=2)),
        ("none.xml", "error", CheckCounts()),
        ("skipped.xml", "error", CheckCounts(skipped=1)),
        ("collection.xml", "fail", CheckCounts(errors=2)),
    ],
)
def test_reports_by_status(name: str, status: str, counts: CheckCounts) -> None:
    outcome = of_junit(recorded(name), 0)
    assert (outcome.status, outcome.counts) == (status, counts)


def test_a_report_of_node() -> None:
    outcome = of_junit(recorded("node.xml"))
    assert outcome.counts == CheckCounts(passed=1, failed=1, skipped=1)
    assert outcome.signatures == ("group::inner fails: Expected values to be strictly equal:<n> !== <n>",)
    assert outcome.failures[0].rule == "testCodeFailure"


def test_a_report_outranks_the_exit_code_and_the_exit_code_a_passing_report() -> None:
    assert of_junit(recorded("mixed.xml"), 0).status == "fail"
    assert of_junit(recorded("passed.xml"), 3).reason == "exit status 3"


def test_a_missing_report_is_an_error() -> None:
    outcome = read_check("junit", "pass", CheckEnd(0), b"fine").outcome
    assert (outcome.status, outcome.problem, outcome.reason) == ("error", "no_report", "it left no report")


SUITE = "<testsuite name='s'>{}</testsuite>"


@pytest.mark.parametrize(
    ("inner", "signature"),
    [
        ("<testcase name='t'><failure>\n first\n second</failure></testcase>", "t: first"),
        ("<testcase classname='c'><failure type='E' message='m'/></testcase>", "c: m"),
        ("<testcase classname='c' name='t'><error/><failure message='m'/></testcase>", "c::t"),
        ("<testcase name='t' line='x'><failure><failure/>a</failure>b</testcase>", "t"),
        ("<testcase name='t'><failure message='m'/><failure message='n'/></testcase>", "t: m"),
        ("<error message='set-up'/>", "s: set-up"),
        ("<x:testcase xmlns:x='y' name='t'><x:error message='m'/></x:testcase>", "t: m"),
        (
            "<testcase name='o'><failure><testcase name='t'><error/></testcase></failure></testcase>",
            "t",
        ),
    ],
)
def test_unusual_results(inner: str, signature: str) -> None:
    assert of_junit(SUITE.format(inner)).signatures == (signature,)


BILLION = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (f"<!DOCTYPE x [<!ENTITY a0 'a'>{BILLION}]><testsuite>&a9;</testsuite>", "document type"),
        ("<!DOCTYPE x SYSTEM 'file:///etc/passwd'><testsuite/>", "document type"),
        ("<testsuite>&unknown;</testsuite>", "not well-formed"),
        ("<testsuite>", "not well-formed"),
        ("", "not well-formed"),
        ("<html/>", "its first element is <html>"),
        ("<testsuite>" * (MAX_DEPTH + 1), "nested more than"),
        (f"<testsuite name='{'x' * 2 * MAX_TAG_BYTES}'/>", "a tag is larger than 1 MB"),
        (f"<testsuite>{''.join(f'<e{n}/>' for n in range(MAX_NAMES))}", "more than 1000 different names"),
        ("<?xml version='1.0' encoding='idna'?><testsuite/>", "encoding"),
        ("<?xml version='1.0' encoding='x-none'?><testsuite/>", "encoding"),
    ],
)
def test_reports_that_are_refused(report: str, reason: str) -> None:
    outcome = of_junit(report, 0)
    assert (outcome.status, outcome.problem) == ("error", "unreadable")
    assert reason in outcome.reason


@pytest.mark.parametrize(
    ("line", "number"),
    [("12", 12), ("", 0), ("-1", 0), ("1.5", 0), ("123456789", 123456789), ("1234567890", 0), ("\u0663", 0)],
)
def test_failure_of_a_report_has_its_place(line: str, number: int) -> None:
    inner = f'<testcase name="t" file="a.py" line="{line}"><failure type="E" message="m"/></testcase>'
    (failure,) = of_junit(f"<testsuite>{inner}</testsuite>").failures
    assert (failure.file, failure.line, failure.id, failure.rule) == ("a.py", number, "t", "E")
    (failure,) = of_junit("<testsuite><testcase><failure/></testcase></testsuite>").failures
    assert (failure.file, failure.line, failure.id, failure.rule) == ("", 0, "", "")


def test_text_of_a_failure_is_its_message_if_it_has_no_other() -> None:
    texts = ("one<b>two</b>three", "<![CDATA[one]]>two<!-- x -->three")
    for text in texts:
        report = (
            f'<testsuite name="s"><testcase name="t"><failure>{text}</failure>more</testcase></testsuite>'
        )
        (failure,) = of_junit(report).failures
        assert failure.message == "onetwothree"
    (failure,) = of_junit("<testsuites><testsuite><failure>whole</failure></testsuite></testsuites>").failures
    assert (failure.id, failure.message) == ("", "whole")


def test_limits_of_a_report_are_its_largest_values() -> None:
    deep = "<testsuite>" * (MAX_DEPTH - 1) + "<testcase/>" + "</testsuite>" * (MAX_DEPTH - 1)
    assert of_junit(deep, 0).status == "pass"
    flat = "<testsuite>" + "<testcase></testcase>" * MAX_DEPTH + "</testsuite>"
    assert of_junit(flat, 0).counts.passed == MAX_DEPTH
    names = "".join(f"<n{number}/>" for number in range(MAX_NAMES - 2))
    assert of_junit(f"<testsuite><testcase/>{names}</testsuite>", 0).status == "pass"
    padded = b"<testsuite><testcase/></testsuite>"
    assert of_junit(padded.ljust(MAX_REPORT_BYTES), 0).status == "pass"


def test_a_large_report_is_refused_unread() -> None:
    assert "larger than 16 MB" in read_junit(bytes(MAX_REPORT_BYTES + 1)).reason


def test_report_that_cannot_be_read_is_an_error_with_its_reason() -> None:
    outcome = read_check("junit", "pass", CheckEnd(0), b"", UnreadReport("it is a folder")).outcome
    assert (outcome.status, outcome.problem) == ("error", "unreadable")
    assert outcome.reason == "the JUnit report can't be read: it is a folder"


def test_long_texts_are_cut() -> None:
    text = "word " * 10_000
    outcome = of_junit(
        SUITE.format(f"<testcase name='{text}'><failure>{text}<b/>{text}</failure></testcase>")
    )
    failure = outcome.failures[0]
    assert len(failure.signature) <= 240
    assert max(len(failure.id), len(failure.message)) <= 500


# -- lines


@pytest.mark.parametrize("name", ["ruff.txt", "ruff_concise.txt"])
def test_lines_of_ruff(name: str) -> None:
    read = of_lines(recorded(name).decode())
    assert read.outcome.counts == CheckCounts(failed=4)
    assert read.outcome.signatures == (
        "lint.py F401: `os` imported but unused",
        "lint.py E741: Ambiguous variable name: `l`",
        "lint.py F841: Local variable `l` is assigned to but never used",
        "lint.py F821: Undefined name `undefined_name`",
    )
    assert [failure.line for failure in read.failures] == [1, 3, 3, 5]


def test_lines_of_mypy() -> None:
    wrong = 'Incompatible return value type (got "int", expected "str")'
    assert of_lines(recorded("mypy.txt").decode()).outcome.signatures == (
        f"lint.py return-value: {wrong}",
        'lint.py name-defined: Name "undefined_name" is not defined',
    )
    assert of_lines(recorded("mypy_pretty.txt").decode()).failures[0].message == wrong
    assert of_lines(recorded("ruff_format.txt").decode()).failures[0].file == "lint.py"


def test_lines_of_compilers() -> None:
    gcc, rustc = (of_lines(recorded(name).decode()).failures for name in ("gcc.txt", "rustc.txt"))
    assert [one.signature for one in gcc] == ["a.c: ‘y’ undeclared (first use in this function)"]
    assert [one.signature for one in rustc] == ["a.rs E0425: cannot find value `y` in this scope"]


@pytest.mark.parametrize(
    ("line", "signature"),
    [
        ("src/(app)/p.tsx(3,5): error TS2322: Type 'a'.", "src/(app)/p.tsx TS2322: Type 'a'."),
        ("a.ts:3:5 - error TS2322: Type 'a'.", "a.ts TS2322: Type 'a'."),
        ("a.c:1:32: error: ‘y’ undeclared", "a.c: ‘y’ undeclared"),
        ("a.c:1:32: fatal error: no.h: No such file", "a.c: no.h: No such file"),
        ("a.c:1:2: warning: unused [-Wunused-variable]", "a.c -Wunused-variable: unused"),
        ("./x.go:5:2: undefined: y", "./x.go: undefined: y"),
        ("error[E0425]: cannot find value `y`\n --> a.rs:1:21", "a.rs E0425: cannot find value `y`"),
        (r"C:\x\y.py:1:2: E501 line too long (120 > 110)", r"C:\x\y.py E501: line too long (<n> > <n>)"),
        ("x.js:1:2: error in your code", "x.js: error in your code"),
        ("\x1b[1mx.py\x1b[0m:3: bad", "x.py: bad"),
        ("1%\r50%\rx.py:3: bad", "x.py: bad"),
    ],
)
def test_one_line(line: str, signature: str) -> None:
    assert of_lines(f"Checking\n{line}\ndone").outcome.signatures == (signature,)


def test_notes_and_times_are_not_failures_and_warnings_only_without_errors() -> None:
    noise = " --> nowhere:1:2\na.c:1:2: note: declared here\n12:30:45: tick\n"
    assert of_lines(noise).outcome.signatures == ("exit status 1: <time>: tick",)
    warned = of_lines(f"{noise}a.c:1:2: warning: unused\na.c:1:2: error: wrong\n")
    assert (warned.outcome.signatures, warned.outcome.counts.failed) == (("a.c: wrong",), 1)


@pytest.mark.parametrize("severity", ["warning", "note", "info", "hint", "help", "remark", "style"])
@pytest.mark.parametrize("form", ["{}: unused", "{}[unused]: it is", "{} TS1: unused", "{}: unused [-W]"])
def test_only_errors_are_failures_in_whatever_form(severity: str, form: str) -> None:
    lines = f"a.c:1:2: {form.format(severity)}\na.c:1:2: error: wrong\n"
    assert of_lines(lines).outcome.signatures == ("a.c: wrong",)


def test_lines_of_a_linter_that_accepts_them_are_not_failures() -> None:
    assert of_lines("a.c:1:2: warning: unused", 0).outcome == CheckOutcome("pass", 0)


# -- the exit status, expectations, limits


def test_the_exit_code_alone() -> None:
    assert read_check("exit", "pass", CheckEnd(0), b"text").outcome == CheckOutcome("pass", 0)
    failed = read_check("exit", "pass", CheckEnd(2), b"building\nmake: *** [all] Error 1\n\n").outcome
    assert (failed.status, failed.exit_code, failed.reason) == ("fail", 2, "exit status 2")
    assert failed.signatures == ("exit status 2: make: *** [all] Error <n>",)
    assert read_check("exit", "pass", CheckEnd(2), b"").outcome.signatures == ("exit status 2",)


@pytest.mark.parametrize("expect", ["pass", "fail"])
@pytest.mark.parametrize(
    ("end", "status", "problem"),
    [
        (CheckEnd(timed_out=True), "timeout", None),
        (CheckEnd(not_started="no such file: x"), "error", "not_started"),
        (CheckEnd(127), "error", "not_started"),
        (CheckEnd(126), "error", "not_started"),
        (CheckEnd(), "error", "terminated"),
        (CheckEnd(137), "error", "terminated"),
        (CheckEnd(143), "error", "terminated"),
    ],
)
def test_what_says_nothing_about_the_work(
    expect: CheckExpectation, end: CheckEnd, status: str, problem: str | None
) -> None:
    outcome = read_check("exit", expect, end, b"sh: 1: x: not found\n").outcome
    assert (outcome.status, outcome.problem) == (status, problem)
    assert outcome.exit_code == end.exit_code
    assert outcome.reason


@pytest.mark.parametrize(
    ("end", "report"),
    [
        (CheckEnd(7, timed_out=True), None),
        (CheckEnd(7, not_started="no such file: x"), None),
        (CheckEnd(7, output_lost="it was removed"), None),
        (CheckEnd(7), None),
        (CheckEnd(7), b"<testsuites/>"),
    ],
)
def test_exit_status_is_kept_whatever_went_wrong(end: CheckEnd, report: bytes | None) -> None:
    outcome = read_check("junit", "pass", end, b"", report).outcome
    assert (outcome.status in ("timeout", "error"), outcome.exit_code) == (True, 7)


def test_expected_to_fail() -> None:
    failing, report = recorded("mixed.txt"), recorded("none.xml")
    expected = read_check("pytest", "fail", CheckEnd(1), failing).outcome
    assert (expected.status, expected.reason) == ("pass", "")
    assert read_check("junit", "fail", CheckEnd(5), b"", report).outcome.problem == "no_tests"
    passed = read_check("pytest", "fail", CheckEnd(0), recorded("passed.txt"))
    assert (passed.outcome.status, passed.outcome.counts.passed) == ("fail", 2)
    assert passed.outcome.reason == "it passed, although it is expected to fail"
    assert passed.outcome.failures == passed.failures
    (failure,) = passed.failures
    assert (failure.message, passed.outcome.failure_count) == (passed.outcome.reason, 1)


def test_fifty_failures_are_kept_and_all_are_counted() -> None:
    count = MAX_READ_FAILURES + 5
    read = of_lines("".join(f"f{number}.py:1: E501 long\n" for number in range(count)))
    assert len(read.outcome.failures) == MAX_KEPT_FAILURES
    assert (read.outcome.failure_count, read.outcome.counts.failed) == (count, count)
    assert len(read.failures) == MAX_READ_FAILURES


# -- expected failures


def test_test_that_fails_as_expected_was_executed() -> None:
    output = read_check("pytest", "pass", CheckEnd(0), b"==== 2 xfailed in 0.02s ====\n").outcome
    case = "<testcase name='a'><skipped type='pytest.xfail' message=''/></testcase>"
    report = of_junit(SUITE.format(case * 2), 0)
    for outcome in (output, report):
        assert (outcome.status, outcome.counts) == ("pass", CheckCounts(passed=2))


# -- secrets


SECRET = "sk-live 4242 pw & more"
ESCAPED = SECRET.replace("&", "&amp;")
IN_COLOUR = SECRET.replace("42 pw", "\x1b[1m42\x1b[0m pw")
IN_A_REPORT = SUITE.format(
    f"<testcase classname='{ESCAPED}' name='n' file='{ESCAPED}'>"
    f"<failure type='{ESCAPED}' message='{ESCAPED}'/></testcase>"
).encode()


@pytest.mark.parametrize(
    ("parser", "code", "output", "report"),
    [
        ("junit", 1, "", IN_A_REPORT),
        ("junit", 1, "", IN_A_REPORT.decode().encode("utf-16")),
        ("junit", 1, "", UnreadReport(SECRET)),
        ("pytest", 1, f"= short test summary info =\nFAILED a::b[{SECRET}] - not {IN_COLOUR}\n", None),
        ("lines", 1, f"{IN_COLOUR}.py:1: E501 not {IN_COLOUR}\n", None),
        ("exit", 1, f"not {IN_COLOUR}\n", None),
        ("exit", 127, f"{IN_COLOUR}: not found\n", None),
    ],
)
def test_secrets_are_hidden_before_numbers_are_replaced(
    parser: CheckParser, code: int, output: str, report: bytes | UnreadReport | None
) -> None:
    hide = Redactor([SECRET]).text
    read = read_check(parser, "pass", CheckEnd(code), output.encode(), report, hide=hide)
    shown = f"{read.outcome} {read.failures}"
    assert "[secret]" in shown
    assert "sk-live" not in shown


@pytest.mark.parametrize(("expect", "code"), [("pass", 0), ("fail", 1)])
def test_check_with_incomplete_output_is_an_error(expect: CheckExpectation, code: int) -> None:
    end = CheckEnd(code, output_lost="can't write the output: No space left on device")
    outcome = read_check("exit", expect, end, b"text").outcome
    assert (outcome.status, outcome.problem) == ("error", "unreadable")
    assert outcome.reason == "its output is incomplete: can't write the output: No space left on device"


# -- corners of the outputs


def test_failures_of_a_suite_are_counted_each_and_its_name_is_theirs() -> None:
    outcome = of_junit(
        "<testsuites><failure>one</failure><testsuite><failure/><error/></testsuite></testsuites>"
    )
    assert (outcome.counts.failed, outcome.counts.errors) == (2, 1)
    assert [failure.id for failure in outcome.failures] == ["", "", ""]


def test_depth_of_a_report_counts_what_is_open() -> None:
    outcome = of_junit("<testsuite><p/>" * (MAX_DEPTH + 1))
    assert "nested more than" in outcome.reason


def test_failures_count_only_in_the_summary_of_pytest() -> None:
    def pytest_of(*lines: str) -> ReadCheck:
        return read_check("pytest", "pass", CheckEnd(1), "\n".join(lines).encode())

    head = "=== short test summary info ==="
    read = pytest_of("FAILED a.py::x - no", "E   no", head, "FAILED a.py::t - b - c", "1 failed in 0.1s")
    assert [(failure.id, failure.message) for failure in read.failures] == [("a.py::t", "b - c")]
    read = pytest_of(
        head, "FAILED a.py::t[x - y] - b] - c", "FAILED a.py::t[x]::s - b] - c", "2 failed in 1s"
    )
    assert [failure.id for failure in read.failures] == ["a.py::t[x - y]", "a.py::t[x]::s"]
    assert [failure.message for failure in read.failures] == ["b] - c", "b] - c"]
    both = pytest_of("E   no", "1 failed, 1 error in 0.1s")
    assert [failure.message for failure in both.failures] == ["1 failed, 1 errors"]
    assert both.outcome.failure_count == 2
    unread = pytest_of("E   no").outcome
    assert "run it without -qq, or use `parse: junit`" in unread.reason


def test_failure_without_a_place_has_none() -> None:
    (failure,) = read_check("exit", "pass", CheckEnd(2), b"a\xffb\n").failures
    assert (failure.file, failure.line, failure.rule, failure.id) == ("", 0, "", "")
    assert failure.message == "a\ufffdb"


def test_what_is_far_before_the_end_is_not_the_last_line() -> None:
    assert last_line(b"word\n" + b"\n" * (2 * MAX_LINE_BYTES)) == ""
    assert last_line(b"word\n" + b"\n" * MAX_LINE_BYTES) == "word"


def test_first_line_is_looked_for_in_the_first_part_of_a_text() -> None:
    assert first_line("\n one\ntwo\nthree") == "one"
    assert first_line(" " * (8 * MAX_MESSAGE_CHARS) + "far") == ""
