"""What a failed check tells the next iteration."""

from hypothesis import given
from hypothesis import strategies as st
from tests.views.test_quotation import TEXTS

from agentforge.engine.checks.outcome import read_check
from agentforge.model.check import CheckCounts, CheckEnd, CheckFailure, CheckOutcome
from agentforge.views.check_feedback import (
    MAX_FEEDBACK_BYTES,
    FailedCheck,
    check_feedback,
    check_report,
    outcome_line,
)
from agentforge.views.files.check_failures import failures_content, read_failures

OUTPUT = b"""tests/test_a.py .F
=== short test summary info ===
FAILED tests/test_a.py::test_b - AssertionError: 3 != 4
1 failed, 1 passed in 0.10s
"""
FAILED = FailedCheck("test", read_check("pytest", "pass", CheckEnd(1), OUTPUT).outcome, OUTPUT)


def failure(number: int, text: str = "") -> CheckFailure:
    return CheckFailure(f"a.py E{number}: {text}", file="a.py", line=number, rule=f"E{number}")


def many(count: int, text: str = "", output: bytes = b"", name: str = "lint") -> FailedCheck:
    kept = tuple(failure(number, text) for number in range(1, min(count, 50) + 1))
    return FailedCheck(name, CheckOutcome("fail", 1, CheckCounts(failed=count), kept, count), output)


def test_counts_signatures_and_the_end_of_the_output_are_quoted() -> None:
    text = check_feedback([FAILED])
    lines = text.splitlines()
    assert lines[0].startswith("The engine ran the check test, and the result is not a pass. ")
    mark = lines[3].split()[2]
    assert lines[3:] == [
        f"----- checks {mark} -----",
        "test: fail, 1 passed, 1 failed, exit status 1",
        "- tests/test_a.py::test_b: AssertionError: <n> != <n>",
        "",
        "End of the output:",
        *OUTPUT.decode().splitlines(),
        f"----- end of checks {mark} -----",
    ]


def test_without_failed_checks_there_is_none() -> None:
    assert check_feedback([]) == ""


def test_failures_that_dont_fit_are_counted_and_the_lines_of_others_named() -> None:
    report = check_report([many(1234, "x" * 200, b"the end")])
    assert "- a.py E1: " in report
    assert " (line 1)" in report
    shown = report.count("\n- a.py ")
    assert f"\n- and {1234 - shown:,} more\n\nEnd of the output:\nthe end" in report


def test_the_end_of_a_long_output_begins_with_a_whole_line() -> None:
    output = b"".join(b"\x1b[31mline %d\x1b[0m\n\n" % number for number in range(100_000))
    tail = check_report([FailedCheck("build", CheckOutcome("fail", 2), output)]).partition("output:\n")[2]
    assert tail.splitlines()[0].startswith("line 9")
    assert tail.endswith("line 99999")
    assert len(tail) > 4000
    assert check_report([FailedCheck("build", CheckOutcome("fail", 2), b"y" * 100_000)]).endswith("yyy")


def test_lines_that_are_as_wide_as_a_terminal_are_shortened() -> None:
    output = b"=" * 90 + b" FAILURES " + b"=" * 90 + b"\n---\n"
    report = check_report([FailedCheck("build", CheckOutcome("fail", 2), output)])
    assert report.endswith(f"output:\n{'=' * 20} FAILURES {'=' * 20}\n---")


def test_many_checks_share_the_room_and_the_rest_is_counted() -> None:
    text = check_feedback([many(50, "x" * 200, b"out\n" * 9000, f"check-{number}") for number in range(40)])
    assert text.startswith("The engine ran 40 checks, ")
    assert "further checks failed." in text
    assert "check-0: fail, 50 failed, exit status 1" in text
    assert len(text.encode()) <= MAX_FEEDBACK_BYTES


@given(
    st.lists(
        st.builds(
            FailedCheck,
            TEXTS,
            st.builds(
                CheckOutcome,
                st.sampled_from(["fail", "error", "timeout"]),
                st.none() | st.integers(0, 255),
                failures=st.lists(
                    st.builds(CheckFailure, TEXTS.map(lambda text: text * 20)), max_size=50
                ).map(tuple),
                reason=TEXTS,
            ),
            TEXTS.map(lambda text: text.encode() * 100),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_the_text_is_at_most_8_kb_and_nothing_ends_the_quotation(failed: list[FailedCheck]) -> None:
    text = check_feedback(failed)
    assert len(text.encode()) <= MAX_FEEDBACK_BYTES
    mark = next(line.split()[2] for line in text.splitlines() if line.startswith("----- checks "))
    assert text.count(mark) == 2


def test_wide_and_long_texts_fit() -> None:
    reason = "\N{COMBINING ACUTE ACCENT}" * 4000
    failed = [FailedCheck("漢" * 200, CheckOutcome("error", 1, reason=reason), b"out") for _ in range(20)]
    assert len(check_feedback(failed).encode()) <= MAX_FEEDBACK_BYTES
    assert len(check_feedback(failed[:1]).encode()) <= MAX_FEEDBACK_BYTES


def test_one_line_for_each_status() -> None:
    late = CheckOutcome("timeout", reason="it reached its time limit")
    none = CheckOutcome("error", 5, CheckCounts(skipped=3), problem="no_tests", reason="no test was executed")
    assert outcome_line("a", late) == "a: timeout, it reached its time limit"
    assert outcome_line("a", none) == "a: error, no test was executed, 3 skipped, exit status 5"
    assert (
        outcome_line("a", CheckOutcome("pass", 0, CheckCounts(1200)))
        == "a: pass, 1,200 passed, exit status 0"
    )


def test_all_failures_are_written_and_read() -> None:
    failures = [failure(number) for number in range(120)]
    content = failures_content(failures)
    assert content.count(b"\n") == 120
    assert read_failures(content) == failures
    assert read_failures(content[:-3]) == failures[:-1]
    assert read_failures(b"\xff") == read_failures(b"[" * 100_000) == []
