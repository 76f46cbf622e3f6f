"""What is told about several failing checks: counts and failures first, then the ends of the outputs."""

import pytest

from agentforge.engine.checks.feedback import END_OF_OUTPUT, FEEDBACK_ROOM, end_of, failing_text
from agentforge.model.state import CheckRecord


def failed(name: str, failures: int = 3, lines: int = 400, text: str = "é" * 20) -> CheckRecord:
    head = [f"check {name!r}: fail, {failures} failed, exit status 1"]
    head += [f"- {name}-{number}.py: {text}" for number in range(failures)]
    output = "\n".join(f"{name} line {number} {text}" for number in range(lines))
    return CheckRecord(name, 1, "fail", "why", feedback="\n".join(head) + END_OF_OUTPUT + output)


def test_one_check_is_told_as_it_reports_and_without_a_report_by_its_reason() -> None:
    short = failed("test", lines=3)
    assert failing_text([short], "It is slow.") == f"It is slow.\n\n{short.feedback}"
    assert failing_text([CheckRecord("lint", 1, "fail", "exit status 1")]) == "check 'lint': exit status 1"
    assert failing_text([], "It is slow.") == "It is slow."


def test_counts_failures_and_the_end_of_each_output_are_kept() -> None:
    checks = [failed(name) for name in ("test", "lint", "types", "build")]
    text = failing_text(checks, "x" * 100)
    assert FEEDBACK_ROOM - 400 < len(text.encode()) <= FEEDBACK_ROOM
    for name in ("test", "lint", "types", "build"):
        assert f"check '{name}': fail, 3 failed, exit status 1\n- {name}-0.py" in text
        assert f"- {name}-2.py: {'é' * 20}{END_OF_OUTPUT}{name} line 3" in text
        assert f"{name} line 399 " in text


def test_room_that_a_short_output_does_not_need_is_left_to_the_others() -> None:
    checks = [failed("short", lines=1), failed("long")]
    for text in (failing_text(checks), failing_text(checks[::-1])):
        assert len(text.encode()) > FEEDBACK_ROOM - 100
        assert f"{END_OF_OUTPUT}short line 0" in text


def test_failures_leave_room_for_outputs_and_say_that_there_are_more() -> None:
    text = failing_text([failed("test", failures=200), failed("lint", failures=200)])
    assert len(text.encode()) <= FEEDBACK_ROOM
    assert text.count(f"\n- and more{END_OF_OUTPUT}") == 2
    assert text.endswith(f"lint line 399 {'é' * 20}")
    alone = failing_text([failed("test", failures=200, lines=0)])
    assert len(alone.encode()) > FEEDBACK_ROOM - 100


def test_counts_of_fifty_checks_fit() -> None:
    checks = [failed(f"check-{number}") for number in range(50)]
    text = failing_text(checks, "x" * 9000)
    assert len(text.encode()) <= FEEDBACK_ROOM
    for number in range(50):
        assert f"check 'check-{number}': fail, 3 failed, exit status 1" in text
    assert END_OF_OUTPUT not in text


def told(*checks: tuple[str, str], said: str = "") -> str:
    """Each check is a head and the end of an output."""
    records = [
        CheckRecord("test", 1, "fail", feedback=f"{head}{END_OF_OUTPUT}{output}" if output else head)
        for head, output in checks
    ]
    return failing_text(records, said)


def test_whole_room_is_used() -> None:
    room = FEEDBACK_ROOM - 2
    half = room // 2
    long = told(("h" * 9000, "o" * 9000))
    assert long == "h" * half + END_OF_OUTPUT + "o" * (room - half - len(END_OF_OUTPUT))
    said = told(("head", "o" * 9000), said="s" * 9000)
    assert said.startswith(f"{'s' * (FEEDBACK_ROOM // 4)}\n\nhead{END_OF_OUTPUT}oo")
    assert len(said) == FEEDBACK_ROOM
    two = told(("head", ""), ("head", "o" * 9000))
    assert two.startswith(f"head\n\nhead{END_OF_OUTPUT}")
    assert len(two) == FEEDBACK_ROOM - 2


def test_lines_that_fit_exactly_are_kept() -> None:
    more = "\n- and more"
    half = (FEEDBACK_ROOM - 2) // 2
    lines = f"counts\n{'f' * (half - len('counts') - 1 - len(more))}"
    assert told((f"{lines}\n{'g' * 50}", "o" * 9000)).startswith(f"{lines}{more}{END_OF_OUTPUT}")
    assert told((f"{lines}f\n{'g' * 50}", "o" * 9000)).startswith(f"counts{more}{END_OF_OUTPUT}")


@pytest.mark.parametrize(("head", "shown"), [(154, True), (155, False)])
def test_heads_of_many_checks_are_kept_and_of_their_outputs_no_few_words(head: int, shown: bool) -> None:
    text = told(*[("h" * head, "o" * 1000)] * 32)
    assert text.count("h" * head) == 32
    assert text.count(f"{END_OF_OUTPUT}{'o' * (80 - len(END_OF_OUTPUT))}") == (32 if shown else 0)


def test_checks_without_room_are_left_out() -> None:
    assert len(told(*[("head", "output")] * 5000)) <= FEEDBACK_ROOM
    assert end_of("text", 0) == end_of("text", -1) == ""


def test_text_outside_of_unicode_is_told_with_question_marks() -> None:
    assert failing_text([], "a \ud800 b") == "a ? b"
    assert end_of("a \ud800 b", 9) == "a ? b"


def test_text_is_cut_between_characters() -> None:
    assert failing_text([], f"x{'é' * 9000}") == f"x{'é' * (FEEDBACK_ROOM // 2 - 1)}"
    long = CheckRecord("test", 1, "fail", feedback="é" * 9000)
    assert set(failing_text([long])) == {"é"}
    assert failing_text([], "é" * 9000) == "é" * (FEEDBACK_ROOM // 2)
    output = CheckRecord("test", 1, "fail", feedback=f"head{END_OF_OUTPUT}x{'é' * 9000}")
    assert failing_text([output]).endswith("é" * 3000)
