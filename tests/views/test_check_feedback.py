"""What a failed check tells the next iteration."""

from hypothesis import given
from hypothesis import strategies as st
from tests.views.test_quotation import TEXTS

from agentforge.engine.checks.feedback import MAX_FEEDBACK_BYTES, failing_text
from agentforge.engine.checks.outcome import read_check
from agentforge.model.check import CheckCounts, CheckEnd, CheckFailure, CheckOutcome
from agentforge.model.request import Feedback
from agentforge.model.state import CheckRecord
from agentforge.views.prompt import FailedCheck, check_feedback, feedback_text, outcome_line

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


def test_counts_signatures_and_the_end_of_the_output_are_reported() -> None:
    assert check_feedback(FAILED).splitlines() == [
        "check 'test': fail, 1 passed, 1 failed, exit status 1",
        "- tests/test_a.py::test_b: AssertionError: <n> != <n>",
        "",
        "End of the output:",
        *OUTPUT.decode().splitlines(),
    ]


def test_failures_that_dont_fit_are_counted_and_the_lines_of_others_named() -> None:
    report = check_feedback(many(1234, "x" * 200, b"the end"))
    assert "- a.py E1: " in report
    assert " (line 1)" in report
    shown = report.count("\n- a.py ")
    assert f"\n- and {1234 - shown:,} more\n\nEnd of the output:\nthe end" in report


def test_the_end_of_a_long_output_begins_with_a_whole_line() -> None:
    output = b"".join(b"\x1b[31mline %d\x1b[0m\n\n" % number for number in range(100_000))
    tail = check_feedback(FailedCheck("build", CheckOutcome("fail", 2), output)).partition("output:\n")[2]
    assert tail.splitlines()[0].startswith("line 9")
    assert tail.endswith("line 99999")
    assert len(tail) > 4000
    assert check_feedback(FailedCheck("build", CheckOutcome("fail", 2), b"y" * 100_000)).endswith("yyy")


def test_lines_that_are_as_wide_as_a_terminal_are_shortened() -> None:
    output = b"=" * 90 + b" FAILURES " + b"=" * 90 + b"\n---\n"
    report = check_feedback(FailedCheck("build", CheckOutcome("fail", 2), output))
    assert report.endswith(f"output:\n{'=' * 20} FAILURES {'=' * 20}\n---")


def test_wide_and_long_texts_leave_no_room_for_the_output() -> None:
    reason = "\N{COMBINING ACUTE ACCENT}" * 4000
    failed = FailedCheck("漢" * 200, CheckOutcome("error", 1, reason=reason), b"out\n" * 9000)
    assert len(check_feedback(failed).encode()) <= MAX_FEEDBACK_BYTES


@given(
    st.lists(
        st.builds(
            CheckRecord,
            TEXTS,
            st.just(1),
            st.just("fail"),
            reason=TEXTS,
            feedback=st.builds(
                lambda head, output: check_feedback(FailedCheck("c", head, output)),
                st.builds(
                    CheckOutcome,
                    st.sampled_from(["fail", "error", "timeout"]),
                    failures=st.lists(
                        st.builds(CheckFailure, TEXTS.map(lambda text: text * 20)), max_size=50
                    ).map(tuple),
                    reason=TEXTS,
                ),
                TEXTS.map(lambda text: text.encode("utf-8", "replace") * 100),
            ),
        ),
        max_size=20,
    ),
    TEXTS,
)
def test_feedback_in_a_prompt_is_at_most_8_kb_and_nothing_ends_the_quotation(
    failed: list[CheckRecord], said: str
) -> None:
    text = feedback_text(Feedback(failing_text(failed, said), "x" * 200))
    assert len(text.encode("utf-8", "replace")) <= MAX_FEEDBACK_BYTES
    mark = next(line.split()[2] for line in text.splitlines() if line.startswith("----- feedback "))
    assert text.count(mark) == 2


def test_one_line_for_each_status() -> None:
    late = CheckOutcome("timeout", reason="it reached its time limit")
    none = CheckOutcome("error", 5, CheckCounts(skipped=3), problem="no_tests", reason="no test was executed")
    assert outcome_line("a", late) == "check 'a': timeout, it reached its time limit"
    assert outcome_line("a", none) == "check 'a': error, no test was executed, 3 skipped, exit status 5"
    assert (
        outcome_line("a", CheckOutcome("pass", 0, CheckCounts(1200)))
        == "check 'a': pass, 1,200 passed, exit status 0"
    )


def test_failures_that_were_there_before_are_told_apart_in_the_reason() -> None:
    outcome = CheckOutcome(
        "fail", 1, CheckCounts(3, 4), reason="1 new failure (3 failed before too)", before=3
    )
    assert outcome_line("test", outcome) == "check 'test': fail, 1 new failure (3 failed before too)"
