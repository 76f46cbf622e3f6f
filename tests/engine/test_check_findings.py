"""Rules about files of the project become outcomes like those of commands."""

from time import monotonic

import pytest

from agentforge.engine.checks.criteria import Criteria
from agentforge.engine.checks.findings import MAX_CHANGED, read_criteria, read_findings, read_scope
from agentforge.engine.checks.outcome import UnreadReport
from agentforge.engine.checks.output import CheckReading, FailureList, Hide
from agentforge.model.check import MAX_KEPT_FAILURES, CheckCounts, CheckOutcome, FileRule
from agentforge.model.secrets import Redactor

GUIDE = b"""\
# Guide to C#

## Install ##
Run it 3 times.\r
```
# comment
```
~~~
## in code
~~~
#hash
####### too deep
TODO: write, TODO: check
TODO: more
"""


def one_file(rule: FileRule, content: bytes | UnreadReport | None, hide: Hide = str) -> CheckReading:
    return read_criteria(Criteria((rule,)), [content], hide)


@pytest.mark.parametrize(
    ("rule", "failures"),
    [
        ({}, []),
        ({"contains": ("Run it 3 times.\n", "Guide"), "absent": ("FIXME",)}, []),
        (
            {"contains": ("run it 4 times", "Install")},
            [("contains", 0, "guide.md: it doesn't contain 'run it 4 times'")],
        ),
        (
            {"absent": ("TODO",)},
            [("absent", line, "guide.md: it contains 'TODO'") for line in (13, 13, 14)],
        ),
        ({"heading": ("Install", "# Guide to C#", "## Guide to C")}, []),
        (
            {"heading": ("in code", "comment", "hash", "too deep")},
            [
                ("heading", 0, f"guide.md: it has no heading '{name}'")
                for name in ("in code", "comment", "hash", "too deep")
            ],
        ),
        ({"contains": ("x" * 90,)}, [("contains", 0, f"guide.md: it doesn't contain '{'x' * 80}'...")]),
    ],
)
def test_what_a_file_lacks_or_must_not_have_is_a_failure(rule: dict, failures: list) -> None:
    read = one_file(FileRule("guide.md", **rule), GUIDE)
    assert [(each.rule, each.line, each.signature) for each in read.failures] == failures
    assert {each.file for each in read.failures} <= {"guide.md"}


@pytest.mark.parametrize(
    ("content", "failure"),
    [
        (None, "guide.md: it doesn't exist"),
        (UnreadReport("it is a folder"), "guide.md: it can't be read: it is a folder"),
        (b"", "guide.md: it doesn't contain 'x'"),
        (b"\xff\x00", "guide.md: it doesn't contain 'x'"),
    ],
)
def test_file_that_cannot_be_read_fails_its_rule(content: bytes | UnreadReport | None, failure: str) -> None:
    (found,) = one_file(FileRule("guide.md", contains=("x",)), content).failures
    assert found.signature == failure


def test_outcome_names_the_first_failure_and_their_number() -> None:
    rule = FileRule("guide.md", contains=("x y z",), absent=("TODO",))
    assert read_findings(one_file(FileRule("guide.md"), GUIDE), "pass").outcome == CheckOutcome("pass")
    read = read_findings(one_file(rule, GUIDE), "pass")
    assert (read.outcome.status, read.outcome.failure_count) == ("fail", 4)
    assert read.outcome.reason == "guide.md: it doesn't contain 'x y z', and 3 more"
    only = read_findings(one_file(FileRule("guide.md", absent=("more",)), GUIDE), "pass").outcome
    assert only.reason == "guide.md: it contains 'more' (line 14)"
    assert read_findings(one_file(rule, GUIDE), "fail").outcome.status == "pass"
    assert read_findings(one_file(FileRule("a"), b""), "fail").outcome.status == "fail"


def test_failures_of_an_outcome_are_limited_and_hide_secrets() -> None:
    many = FailureList(str)
    for number in range(MAX_KEPT_FAILURES + 9):
        many.add("", file=f"{number}.py", place=f"{number}.py")
    read = read_findings(many.reading(CheckCounts()), "pass")
    assert (len(read.outcome.failures), len(read.failures)) == (MAX_KEPT_FAILURES, MAX_KEPT_FAILURES + 9)
    secret = one_file(FileRule("a", contains=("s3cr3t-value",)), b"", Redactor(("s3cr3t-value",)).text)
    assert "s3cr3t" not in secret.failures[0].signature


def test_large_file_takes_time_in_proportion_to_its_size() -> None:
    """Also if the text is on every line, or the file is one line."""
    began = monotonic()
    for content in (b"a" * (4 << 20), b"a\n" * (2 << 20)):
        read = one_file(FileRule("f", contains=("a" * 4_000,), absent=("a",), heading=("a",)), content)
        assert len(read.failures) <= MAX_KEPT_FAILURES + 2
    assert monotonic() - began < 30


# -- the scope of changes


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("a.py", ["a.py"], ["b.py", "d/a.py", "a.py/b"]),
        ("*.py", ["a.py", ".py"], ["d/a.py", "a.pyc"]),
        ("**/*.py", ["a.py", "d/a.py", "d/e/a.py"], ["d/a.md"]),
        ("src/**", ["src/a", "src/d/a", "src"], ["tests/a", "srca"]),
        ("./src/", ["src/a", "src/d/a"], ["a/src/b"]),
        ("**/test/**/x", ["test/x", "a/test/b/c/x"], ["test/y", "x"]),
        ("d[0-9]/?", ["d1/a"], ["dx/a", "d1/ab"]),
        ("[", ["["], ["a"]),
    ],
)
def test_files_that_change_must_match_a_pattern(pattern: str, inside: list[str], outside: list[str]) -> None:
    reading = read_scope((pattern, "other"), [*inside, *outside, "other"])
    assert [failure.file for failure in reading.failures] == outside
    first = reading.failures[0]
    assert first.signature == f"{outside[0]}: changed, but only {pattern}, other may change"


def test_scope_is_compared_with_a_limited_number_of_files() -> None:
    many = [f"src/{number}" for number in range(MAX_CHANGED + 1)]
    (found,) = read_scope(("src/**",), many).failures
    assert found.signature == "more than 10,000 files changed"
    assert read_scope(("src/**",), many[:-1]).failures == ()


def test_patterns_take_time_in_proportion_to_the_paths() -> None:
    began = monotonic()
    read_scope(("**/a/" * 40 + "b", "*a" * 100), ["a/" * 2_000, "a" * 4_000])
    assert monotonic() - began < 30


def test_rule_that_says_nothing_about_the_work_is_an_error() -> None:
    outcome = read_findings(CheckReading(problem="no_tree", reason="no git"), "fail").outcome
    assert outcome == CheckOutcome("error", problem="no_tree", reason="no git")
