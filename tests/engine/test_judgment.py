"""What a judge's answer means, in whatever wrapping it comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.engine.normalise import JUDGMENT_CHARS, read_judgment
from agentforge.model.facts import JudgeResult

STOP = '{"stop": true, "reason": "nothing new", "confidence": 0.9}'
EXPECTED = JudgeResult(stop=True, reason="nothing new", confidence=0.9)


@pytest.mark.parametrize(
    "answer",
    [
        STOP,
        f"\n  {STOP}\n",
        f"```json\n{STOP}\n```",
        f"```\n{STOP}\n```",
        f"```json {STOP}```",
        f"Consumer is my judgment:\n\n```json\n{STOP}\n```\nI hope that helps.",
        f"I looked at {{the result}} and say {STOP}",
        f'An example: {{"stop": false}}. My judgment: {STOP}',
        f'{{"note": "not this one"}} {STOP}',
        f"\ufeff{STOP}",
    ],
)
def test_judgment_is_found_in_its_wrapping(answer: str) -> None:
    assert read_judgment(answer) == EXPECTED


@pytest.mark.parametrize(
    "answer",
    ["", "no idea", "{", "{}", "[]", "true", '["stop"]', '{"halt": true}', "{'stop': True}", '{"stop": tru'],
)
def test_answer_without_a_judgment_is_none(answer: str) -> None:
    assert read_judgment(answer) is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('{"stop": false}', JudgeResult(stop=False, reason="")),
        ('{"stop": "true", "confidence": 1}', JudgeResult(stop=True, reason="", confidence=1.0)),
        ('{"stop": " True "}', JudgeResult(stop=True, reason="")),
        ('{"stop": "false"}', JudgeResult(stop=False, reason="")),
        ('{"stop": null}', JudgeResult(stop=False, reason="")),
        ('{"stop": 1}', JudgeResult(stop=False, reason="")),
        ('{"stop": true, "reason": 7, "confidence": "high"}', JudgeResult(stop=True, reason="")),
        ('{"stop": true, "confidence": 7}', JudgeResult(stop=True, reason="", confidence=1.0)),
        ('{"stop": true, "confidence": -7}', JudgeResult(stop=True, reason="")),
        ('{"stop": true, "confidence": true}', JudgeResult(stop=True, reason="")),
        ('{"stop": true, "confidence": NaN}', JudgeResult(stop=True, reason="")),
        ('{"stop": true, "inner": {"stop": false}}', JudgeResult(stop=True, reason="")),
    ],
)
def test_judgment_is_normalised(answer: str, expected: JudgeResult) -> None:
    assert read_judgment(answer) == expected


@given(st.text())
def test_any_text_is_read_without_a_crash(text: str) -> None:
    read_judgment(text)
    judgment = read_judgment(f"{text.replace('{', '')}\n{STOP}")
    assert judgment == EXPECTED


def test_long_and_deep_answers_take_no_time_and_no_stack() -> None:
    assert read_judgment("{" * 1_000_000) is None
    assert read_judgment('{"a":' * 100_000) is None
    assert read_judgment("x" * 5_000_000 + STOP) == EXPECTED


@pytest.mark.parametrize("inside", ['"' + "x" * 8_000_000, "[" + "1," * 4_000_000, "9" * 8_000_000, "["])
def test_nested_objects_without_an_end_are_not_read_again_and_again(inside: str) -> None:
    nested = '{"a":' * 900
    assert read_judgment(nested + inside) is None
    assert read_judgment(nested + inside[:30_000] + STOP) in (None, EXPECTED)


def test_judgment_after_a_lot_of_code_is_found() -> None:
    code = 'if (a) { return {b: c, "d": {}}; }\n' * 1_500
    assert read_judgment(code + STOP) == EXPECTED


def test_judgment_far_before_the_end_is_none() -> None:
    assert read_judgment(STOP + " " * JUDGMENT_CHARS) is None
