"""The parsed form of conditions: how it is printed and stored, and its limits."""

import msgspec
import pytest
from hypothesis import given
from tests.engine.any_condition import any_conditions

from agentforge.model.condition import (
    MAX_DEPTH,
    MAX_LENGTH,
    Condition,
    ConstantTerm,
    ListTerm,
    Operation,
    VariableTerm,
    condition_problem,
    condition_text,
)

TRUE = ConstantTerm(True)
STAGE = VariableTerm("stage")


def nested(depth: int) -> Condition:
    term: Condition = TRUE
    for _ in range(depth - 1):
        term = Operation("!", (term,))
    return term


def text_of(value: str | int) -> Condition:
    return Operation("in", (STAGE, ListTerm((ConstantTerm(value),))))


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Operation("&&", (TRUE, Operation("||", (TRUE, TRUE)))), "true && (true || true)"),
        (Operation("||", (Operation("&&", (TRUE, TRUE)), TRUE)), "true && true || true"),
        (Operation("&&", (Operation("&&", (TRUE, TRUE)), TRUE)), "(true && true) && true"),
        (Operation("!", (Operation("==", (STAGE, STAGE)),)), "!(stage == stage)"),
        (Operation("!", (Operation("!", (TRUE,)),)), "!!true"),
        (text_of('a"\\'), r'stage in ["a\"\\"]'),
        (Operation("==", ()), ""),
    ],
)
def test_a_condition_is_printed_with_the_parentheses_that_it_needs(condition: Condition, text: str) -> None:
    assert condition_text(condition) == text


@given(any_conditions)
def test_a_condition_survives_json(condition: Condition) -> None:
    encoded = msgspec.json.encode(condition)
    assert msgspec.json.encode(msgspec.json.decode(encoded, type=Condition)) == encoded


@given(any_conditions)
def test_any_small_condition_is_printed_and_allowed(condition: Condition) -> None:
    assert condition_problem(condition) == ""
    assert condition_text(condition).isprintable() or condition_text(condition)


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        (nested(MAX_DEPTH), ""),
        (nested(MAX_DEPTH + 1), "a condition exceeds 50 levels or 1,000 terms"),
        (nested(100_000), "a condition exceeds 50 levels or 1,000 terms"),
        (Operation("&&", (TRUE,) * MAX_LENGTH), "a condition exceeds 50 levels or 1,000 terms"),
        (text_of("x" * MAX_LENGTH), ""),
        (text_of("x" * (MAX_LENGTH + 1)), "a condition has a constant that is too large"),
        (text_of(2**63), "a condition has a constant that is too large"),
    ],
    ids=lambda value: value or "allowed" if isinstance(value, str) else "",
)
def test_the_size_of_a_condition_is_bounded(condition: Condition, problem: str) -> None:
    assert condition_problem(condition) == problem
