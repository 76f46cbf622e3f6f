"""The tests of a JUnit report by their ids, as recorded from real runners (`check_outputs/`)."""

import msgspec
import pytest
from tests.engine.test_check_outcome import recorded

from agentforge.engine.checks.junit import read_junit
from agentforge.engine.checks.tests import (
    MAX_ID_CHARS,
    MAX_TESTS,
    SuiteReading,
    bounded_id,
    counts_of,
    decoded_tests,
    encoded_tests,
)
from agentforge.model.check import CheckCounts, RanTest


def read(report: str | bytes) -> dict[str, RanTest]:
    content = report.encode() if isinstance(report, str) else report
    found = read_junit(content, project="/project").tests
    assert found is not None
    return {test.id: test for test in found}


def suite(*cases: str) -> str:
    return f"<testsuite name='s'>{''.join(cases)}</testsuite>"


def test_ids_and_statuses_of_pytest() -> None:
    found = read(recorded("kinds.xml"))
    b = "tests.test_b"
    assert {id: test.status for id, test in found.items()} == {
        "tests.test_a": "error",
        "tests.test_c": "error",
        "tests.test_d": "error",
        "tests.test_e": "skipped",
        f"{b}::test_fix": "error",
        f"{b}::test_nofix": "error",
        f"{b}::test_td": "error",
        f"{b}::test_name": "failed",
        f"{b}::test_attr": "failed",
        f"{b}::test_imp": "failed",
        f"{b}::test_p[x y]": "passed",
        f"{b}::test_p[a::b]": "passed",
        f"{b}::test_p[\\xe9]": "passed",
        f"{b}::test_s": "skipped",
        f"{b}::test_xf": "passed",
        f"{b}::test_xp": "failed",
        f"{b}.TestC.TestD::test_m": "failed",
    }
    messages = {id: test.message for id, test in found.items()}
    assert messages["tests.test_a"] == "ModuleNotFoundError: No module named 'slugify'"
    assert messages["tests.test_c"] == "SyntaxError: invalid syntax"
    assert messages[f"{b}::test_nofix"] == "fixture 'nofix' not found"
    assert messages[f"{b}::test_td"] == 'failed on teardown with "ValueError: t"'
    assert messages[f"{b}::test_p[x y]"] == ""


def test_ids_of_node_are_told_apart_by_the_suites_around_them() -> None:
    found = read(recorded("node_files.xml"))
    assert {id: (test.status, test.file) for id, test in found.items()} == {
        "test/a.test.js": ("failed", "test/a.test.js"),
        "adds": ("failed", ""),
        "ok": ("passed", ""),
        "sk": ("skipped", ""),
        "math::adds": ("failed", ""),
        "math::in::adds": ("passed", ""),
        "test/c.test.js": ("failed", "test/c.test.js"),
        "test/d.test.js": ("passed", "test/d.test.js"),
    }


@pytest.mark.parametrize(
    ("attributes", "id", "file"),
    [
        ("classname='a.b' name='c'", "a.b::c", ""),
        ("classname='a.b' name='c' file='a/b.py'", "a.b::c", "a/b.py"),
        ("classname='a' file='/project/a.py'", "a", "a.py"),
        ("classname='test' name='c' file='/project/a.js'", "a.js::s::c", "a.js"),
        ("name='c\n d'", "c d", ""),
        ("", "", ""),
    ],
)
def test_id_is_made_of_class_and_name(attributes: str, id: str, file: str) -> None:
    assert read(suite(f"<testcase {attributes}/>")) == {id: RanTest(id, "passed", "", file)}


def test_worst_status_of_an_id_counts_and_each_test_is_counted() -> None:
    passed, skipped = "<testcase name='t'/>", "<testcase name='t'><skipped message='why'/></testcase>"
    report = suite(passed, skipped, passed)
    assert read(report) == {"t": RanTest("t", "skipped", "why")}
    assert read_junit(report.encode()).counts == CheckCounts(passed=2, skipped=1)


def test_end_of_a_long_text_says_what_happened() -> None:
    text = "x" * 9_000 + "\nE   first\n" + "<!-- -->y" * 9_000 + "\nE   ImportError: no\n"
    found = read(suite(f"<testcase name='t'><error message='collection failure'>{text}</error></testcase>"))
    assert found["t"].message == "ImportError: no"
    silent = read(suite("<testcase name='t'><error message='collection failure'>x</error></testcase>"))
    assert silent["t"].message == "collection failure"


def test_long_ids_stay_different() -> None:
    one, other = (bounded_id(f"test[{'x' * 2_000}{number}]") for number in "12")
    assert one != other
    assert len(one) < MAX_ID_CHARS


def test_no_tests_are_kept_if_they_are_too_many() -> None:
    suite = SuiteReading()
    for number in range(MAX_TESTS):
        suite.add(str(number), "passed", "", "")
    suite.add("1", "failed", "", "")
    assert len(suite.tests or ()) == MAX_TESTS
    suite.add("one more", "passed", "", "")
    assert suite.tests is None


def test_no_tests_are_kept_if_they_are_too_large() -> None:
    long = (RanTest(f"{number}{'x' * MAX_ID_CHARS}", "failed") for number in range(MAX_TESTS))
    assert encoded_tests(long) is None


def test_tests_that_are_kept_are_read_again() -> None:
    tests = (RanTest("b", "failed", "why", "b.py"), RanTest("a", "passed"))
    content = encoded_tests(tests)
    assert content is not None
    assert decoded_tests(content) == tests[::-1]
    assert counts_of(tests) == CheckCounts(passed=1, failed=1)
    for wrong in (b"", b"{}", b'[["a"]]', b'[["a","odd"]]', msgspec.json.encode([1])):
        assert isinstance(decoded_tests(wrong), str)
