"""Conditions of hooks are evaluated: to true or false, or to a message."""

from typing import Any

import pytest
from hypothesis import given
from tests.engine.any_condition import Typed, any_conditions, conditions, values

from agentforge.engine.conditions import ConditionError, Values, evaluate
from agentforge.model.condition import VARIABLES, Condition, ConstantTerm, ListTerm, Operation, VariableTerm

HERE: Values = {
    "iteration": 6,
    "stage": "build",
    "session": "auth",
    "provider": "claude",
    "status": "completed",
    "event": "iteration_end",
}
ITERATION, STAGE = VariableTerm("iteration"), VariableTerm("stage")


def number(value: int) -> ConstantTerm:
    return ConstantTerm(value)


def op(sign: Any, *of: Condition) -> Operation:
    return Operation(sign, of)


ZERO = op("==", op("%", number(7), op("%", ITERATION, number(6))), number(0))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (op("==", op("%", ITERATION, number(3)), number(0)), True),
        (op("<", ITERATION, number(6)), False),
        (op("<=", ITERATION, number(6)), True),
        (op(">", ITERATION, number(6)), False),
        (op(">=", ITERATION, number(6)), True),
        (op("!=", STAGE, ConstantTerm("plan")), True),
        (op("in", STAGE, ListTerm((ConstantTerm("plan"), ConstantTerm("build")))), True),
        (op("in", ConstantTerm("ild"), STAGE), True),
        (op("matches", STAGE, ConstantTerm("^b.*d$")), True),
        (op("!", op("matches", STAGE, ConstantTerm("x"))), True),
        (op("&&", ConstantTerm(True), ConstantTerm(False)), False),
        (op("||", ConstantTerm(False), ConstantTerm(True)), True),
        (op("&&", ConstantTerm(False), ZERO), False),
        (op("||", ConstantTerm(True), ZERO), True),
    ],
)
def test_the_operators(condition: Condition, expected: bool) -> None:
    assert evaluate(condition, HERE) is expected


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (ZERO, "`7 % (iteration % 6)` divides by zero"),
        (op("matches", STAGE, ConstantTerm("(")), '`"("` is not a pattern: `(` is not closed'),
        (op("!", ITERATION), "`iteration` is not true or false"),
        (op("<", STAGE, number(1)), "`stage` is not an integer"),
        (op("<", ConstantTerm(True), number(1)), "`true` is not an integer"),
        (op("in", ITERATION, STAGE), "`iteration` is not a string"),
        (op("==", ITERATION, STAGE), "`iteration` and `stage` have different types"),
        (op("==", ListTerm((number(1),)), number(1)), "`[1]` is a list, which only `in` accepts"),
        (op("!"), "`!` has the wrong number of operands"),
        (op("==", ConstantTerm("x" * 100)), f'`"{"x" * 58}…` has the wrong number of operands'),
    ],
)
def test_a_condition_without_a_truth_value_says_why(condition: Condition, message: str) -> None:
    assert evaluate(condition, HERE) == ConditionError(message)


@given(conditions, values)
def test_conditions_mean_what_they_mean_in_python(typed: Typed, where: Values) -> None:
    condition, python = typed
    try:
        expected = eval(python, {}, dict(where))
    except ZeroDivisionError:
        assert isinstance(evaluate(condition, where), ConditionError)
    else:
        assert evaluate(condition, where) is expected


@given(any_conditions, values)
def test_any_condition_has_a_truth_value_or_a_message(condition: Condition, where: Values) -> None:
    assert isinstance(evaluate(condition, where), bool | ConditionError)


class Watched(dict[Any, Any]):
    asked: set[str]

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        return super().__getitem__(name)


@given(any_conditions)
def test_an_evaluation_asks_for_no_other_name(condition: Condition) -> None:
    watched = Watched(HERE)
    watched.asked = set()
    evaluate(condition, watched)
    assert watched.asked <= set(VARIABLES)
