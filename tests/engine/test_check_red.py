"""`expect: red`: tests have to fail because of what they test, not because of themselves."""

import pytest
from msgspec.structs import replace
from tests.engine.test_check_outcome import recorded

from agentforge.engine.checks.outcome import ReadCheck, read_check, unreadable
from agentforge.engine.checks.red import judged_red
from agentforge.engine.checks.regressions import baseline_of
from agentforge.engine.checks.tests import is_in_file
from agentforge.model.check import CheckEnd, CheckParser, RanTest, TestStatus

MISSING = "<error message='collection failure'>a.py:1: in &lt;module&gt;\nE   {}</error>"
FAILED = "<failure message='{}'/>"
SKIPPED = "<skipped message='later'/>"


def case(inner: str = "", name: str = "t", owner: str = "tests.test_a") -> str:
    return f"<testcase classname='{owner}' name='{name}'>{inner}</testcase>"


def ran(*cases: str, code: int = 1) -> ReadCheck:
    report = f"<testsuite name='pytest'>{''.join(cases)}</testsuite>"
    return read_check("junit", "red", CheckEnd(code), b"", report.encode(), project="/project")


def told(read: ReadCheck) -> tuple[str, str]:
    return read.outcome.status, read.outcome.reason


RED = case(FAILED.format("assert 1 == 2"))
GREEN = case(name="g")


@pytest.mark.parametrize(
    "inner",
    [
        FAILED.format("assert 1 == 2"),
        FAILED.format("TypeError: slug() takes 0 arguments"),
        FAILED.format("AttributeError: module x has no attribute y"),
        FAILED.format("NameError: name x is not defined"),
        MISSING.format("ModuleNotFoundError: No module named 'slug'"),
        MISSING.format("ImportError: cannot import name 'slug' from 'text'"),
        MISSING.format("AttributeError: module 'text' has no attribute 'slug'"),
        MISSING.format("NameError: name 'slug' is not defined"),
        "<error message='failed on setup with &quot;ModuleNotFoundError: No module named x&quot;'/>",
        "<error message='Error: Cannot find module ../slug.js'/>",
    ],
)
def test_assertions_and_what_is_missing_of_the_code_are_red(inner: str) -> None:
    read = judged_red(ran(case(inner)), 0.0)
    assert told(read) == ("pass", "")
    assert (read.failures, read.outcome.failures, read.outcome.failure_count) == ((), (), 0)
    assert read.outcome.counts.failed + read.outcome.counts.errors == 1
    assert read.tests is not None


NOT_DEFINED = (
    "<error message='collection failure'>{}:3: in &lt;module&gt;\n    x\n"
    "E   NameError: name 'x' is not defined</error>"
)
NO_FIXTURE = (
    "<error message='failed on setup with &quot;file /project/tests/test_a.py, line 3\n"
    "E       fixture &apos;x&apos; not found&quot;'>file a\nE       fixture 'x' not found</error>"
)
SKIPPED_ONLY = b"<testsuite><testcase name='s'><skipped/></testcase></testsuite>"


@pytest.mark.parametrize(
    ("cases", "reason"),
    [
        ([RED, GREEN], "1 of 2 tests passed, but none may"),
        ([GREEN], "1 of 1 test passed, but none may"),
        ([RED, case(SKIPPED, "s"), case(SKIPPED, "u")], "2 tests were skipped"),
        ([RED, GREEN, case(SKIPPED, "s")], "1 of 2 tests passed, but none may; 1 test was skipped"),
        (
            [RED, case(MISSING.format("SyntaxError: invalid syntax"), "tests.test_b", "")],
            "1 test can't run: tests.test_b: SyntaxError: invalid syntax",
        ),
        (
            [case(FAILED.format("IndentationError: unexpected indent"))],
            "1 test can't run: tests.test_a::t: IndentationError: unexpected indent",
        ),
        (
            [case(MISSING.format("ZeroDivisionError: division by zero"))],
            "1 test can't run: tests.test_a::t: ZeroDivisionError: division by zero",
        ),
        (
            [case(NO_FIXTURE)],
            "1 test can't run: tests.test_a::t: fixture 'x' not found",
        ),
        (
            [case(NOT_DEFINED.format("tests/test_a.py"), "tests.test_a", "")],
            "1 test can't run: tests.test_a: NameError: name 'x' is not defined (tests/test_a.py:3)",
        ),
        (
            [case("<failure message='NameError: name'>tests/test_a.py:9: NameError</failure>")],
            "1 test can't run: tests.test_a::t: NameError: name (tests/test_a.py:9)",
        ),
        ([case("<error message='x'/>")], "1 test can't run: tests.test_a::t: x"),
        ([case("<error/>")], "1 test can't run: tests.test_a::t: it has an error"),
    ],
)
def test_tests_that_show_nothing_fail_the_check_with_the_cause(cases: list[str], reason: str) -> None:
    read = judged_red(ran(*cases), 0.0)
    assert told(read) == ("fail", reason)
    assert read.outcome.failure_count == len(read.failures) == len(read.outcome.failures) > 0
    assert read.outcome.problem is None


def test_name_that_is_not_defined_in_the_code_is_red() -> None:
    in_code = NOT_DEFINED.format("src/slug.py")
    assert told(judged_red(ran(case(in_code)), 0.0)) == ("pass", "")


@pytest.mark.parametrize(
    ("passed", "tolerance", "reason"),
    [
        (3, 0.3, ""),
        (4, 0.3, "4 of 11 tests passed, but at most 30% may"),
        (0, 0.3, ""),
    ],
)
def test_part_of_the_executed_tests_may_pass(passed: int, tolerance: float, reason: str) -> None:
    cases = [case(FAILED.format("x"), f"f{number}") for number in range(7)]
    cases += [case("", f"p{number}") for number in range(passed)]
    assert told(judged_red(ran(*cases), tolerance)) == ("fail" if reason else "pass", reason)


def test_tests_that_pass_and_those_that_are_skipped_are_named() -> None:
    read = judged_red(ran(RED, GREEN, case(SKIPPED, "s")), 0.0)
    assert [(one.id, one.message) for one in read.failures] == [
        ("tests.test_a::g", "it passed, although it is expected to fail"),
        ("tests.test_a::s", "it was skipped: later"),
    ]


def test_all_kinds_of_a_real_report() -> None:
    report = recorded("kinds.xml")
    read = judged_red(read_check("junit", "red", CheckEnd(1), b"", report, project="/project"), 0.0)
    assert read.outcome.status == "fail"
    own = {one.id: one.message for one in read.failures if one.message[:3] != "it "}
    assert own == {
        "tests.test_c": "SyntaxError: invalid syntax",
        "tests.test_d": "NameError: name 'undefined' is not defined (tests/test_d.py:1)",
        "tests.test_b::test_nofix": "fixture 'nofix' not found",
        "tests.test_b::test_td": 'failed on teardown with "ValueError: t"',
        "tests.test_b::test_name": "NameError: name 'slugify' is not defined (tests/test_b.py:12)",
    }


SYNTAX = b"/project/test/c.test.js:2\n  x = (\n\nSyntaxError: Unexpected end of input\n    at wrap\n"
EXPORT = b"SyntaxError: The requested module '../slug.mjs' does not provide an export named 'slug'\n"


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (b"Error: Cannot find module '../slug.js'", ""),
        (EXPORT, ""),
        (SYNTAX, "1 test can't run: test/a.test.js: SyntaxError: Unexpected end of input"),
    ],
)
def test_why_node_cannot_run_a_file_is_in_its_output(output: bytes, reason: str) -> None:
    of_file = case(FAILED.format("test failed"), "/project/test/a.test.js", "test")
    report = f"<testsuites>{of_file}</testsuites>".encode()
    read = read_check("junit", "red", CheckEnd(1), b"", report, project="/project")
    assert told(judged_red(read, 0.0, output=output)) == ("fail" if reason else "pass", reason)


@pytest.mark.parametrize(
    ("end", "report", "reason"),
    [
        (CheckEnd(5), b"<testsuites/>", "no test was executed"),
        (
            CheckEnd(0),
            SKIPPED_ONLY,
            "no test was executed",
        ),
        (CheckEnd(4), None, "it left no report"),
    ],
)
def test_run_without_tests_fails_the_check(end: CheckEnd, report: bytes | None, reason: str) -> None:
    read = judged_red(read_check("junit", "red", end, b"ERROR: file not found", report), 0.0)
    assert told(read) == ("fail", reason)
    assert (read.outcome.problem, read.outcome.failure_count) == (None, 1)


@pytest.mark.parametrize("end", [CheckEnd(127), CheckEnd(None), CheckEnd(timed_out=True), CheckEnd(1)])
def test_what_says_nothing_about_the_tests_is_not_judged(end: CheckEnd) -> None:
    read = read_check("junit", "red", end, b"", b"<odd/>")
    assert judged_red(read, 0.0) == read
    assert read.outcome.status in ("error", "timeout")
    assert judged_red(unreadable("why"), 0.0).outcome.reason == "why"


@pytest.mark.parametrize(
    ("cases", "before", "reason"),
    [
        ([RED, GREEN], {"tests.test_a::g": "passed"}, ""),
        ([RED, case(SKIPPED, "g")], {"tests.test_a::g": "skipped"}, ""),
        ([RED], {"tests.test_a::t": "passed"}, ""),
        ([RED], {"tests.test_a::t": "failed"}, "no new test was executed"),
        ([GREEN], {"tests.test_a::g": "failed"}, "no new test was executed"),
        ([RED, GREEN], {}, "1 of 2 tests passed, but none may"),
        ([RED, case(SKIPPED, "g")], {}, "1 test was skipped"),
    ],
)
def test_only_what_is_new_counts(cases: list[str], before: dict[str, TestStatus], reason: str) -> None:
    read = judged_red(ran(*cases), 0.0, before)
    assert told(read) == ("fail" if reason else "pass", reason)


OUTPUT = """
___________________ ERROR collecting tests/test_a.py ___________________
E   {}
=========================== short test summary info ============================
ERROR tests/test_a.py
1 error in 0.1s
"""


@pytest.mark.parametrize(
    ("parse", "output", "status", "reason"),
    [
        ("pytest", OUTPUT.format("ImportError: no slug"), "pass", ""),
        (
            "pytest",
            OUTPUT.format("SyntaxError: bad"),
            "fail",
            "1 test can't run: tests/test_a.py: SyntaxError: bad",
        ),
        ("pytest", "2 failed, 1 passed in 0.1s", "fail", "1 of 3 tests passed, but none may"),
        ("pytest", "2 failed, 1 skipped in 0.1s", "fail", "1 test was skipped"),
        ("pytest", "2 failed in 0.1s", "pass", ""),
        ("exit", "", "pass", ""),
    ],
)
def test_without_a_report_counts_and_messages_have_to_do(
    parse: CheckParser, output: str, status: str, reason: str
) -> None:
    read = judged_red(read_check(parse, "red", CheckEnd(1), output.encode()), 0.0)
    assert told(read) == (status, reason)


def test_command_without_tests_that_passes_is_not_red() -> None:
    read = judged_red(read_check("exit", "red", CheckEnd(0), b""), 0.0)
    assert told(read) == ("fail", "it passed, although it is expected to fail")


def test_report_of_too_many_tests_is_judged_by_its_counts() -> None:
    read = judged_red(replace(ran(RED, GREEN), tests=None), 0.0)
    assert told(read) == ("fail", "1 of 2 tests passed, but none may")
    everything = judged_red(replace(ran(RED), tests=None), 0.0)
    assert everything.outcome.status == "pass"


def test_project_without_tests_has_a_baseline_without_failures() -> None:
    read = read_check("junit", "red", CheckEnd(5), b"", b"<testsuites/>")
    assert baseline_of(read).unusable == ""
    assert baseline_of(read_check("junit", "red", CheckEnd(4), b"", None)).unusable == "it left no report"


@pytest.mark.parametrize(
    ("id", "file", "path", "found"),
    [
        ("tests.test_a::t", "", "tests/test_a.py", True),
        ("tests.test_a.TestC.TestD::t[a::b.c]", "", "tests/test_a.py", True),
        ("tests.test_a", "", "tests/test_a.py", True),
        ("tests.test_a::t", "", "pkg/tests/test_a.py", True),
        ("tests.test_ab::t", "", "tests/test_a.py", False),
        ("tests.test_a::t", "", "tests/test_a/test_b.py", False),
        ("adds", "test/a.test.js", "test/a.test.js", True),
        ("tests.test_a::t", "other.py", "tests/test_a.py", False),
    ],
)
def test_file_of_a_test(id: str, file: str, path: str, *, found: bool) -> None:
    assert is_in_file(RanTest(id, "passed", "", file), path) == found
