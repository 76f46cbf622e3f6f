"""Whether the condition of a hook holds. Total: any parsed condition, also one that came with a repository,
has a truth value or a message that says why it has none."""

import operator
from collections.abc import Callable, Mapping

from msgspec import Struct

from agentforge.model.condition import (
    Condition,
    ConstantTerm,
    ListTerm,
    Operation,
    VariableName,
    VariableTerm,
    condition_text,
)
from agentforge.model.text_pattern import PatternRefused, matches

Values = Mapping[VariableName, int | str]
"""The values of all variables at a point of the run."""
_Value = bool | int | str
_ORDERS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class ConditionError(Struct, frozen=True):
    """A condition that can't be evaluated; its hook is skipped."""

    message: str


class _Undefined(Exception):
    """A term has no value."""


def evaluate(condition: Condition, values: Values) -> bool | ConditionError:
    try:
        return _truth(condition, values)
    except _Undefined as error:
        return ConditionError(str(error))


def _value(term: Condition, values: Values) -> _Value:
    match term:
        case VariableTerm():
            return values[term.name]
        case ConstantTerm():
            return term.value
        case ListTerm():
            raise _Undefined(f"{_quoted(term)} is a list, which only `in` accepts")
        case Operation():  # exhaustive
            return _operation(term, values)


def _operation(term: Operation, values: Values) -> _Value:
    match term.op, term.of:
        case "||", parts:
            return any(_truth(part, values) for part in parts)
        case "&&", parts:
            return all(_truth(part, values) for part in parts)
        case "!", (part,):
            return not _truth(part, values)
        case "==" | "!=", (left, right):
            return _equal(left, right, values) == (term.op == "==")
        case "in", (left, ListTerm() as right):
            return any(_equal(left, item, values) for item in right.items)
        case "in", (left, right):
            return _text(left, values) in _text(right, values)
        case "matches", (left, right):
            return _matches(_text(right, values), _text(left, values))
        case "%", (left, right):
            return _remainder(term, _integer(left, values), _integer(right, values))
        case "<" | "<=" | ">" | ">=", (left, right):
            return _ORDERS[term.op](_integer(left, values), _integer(right, values))
    raise _Undefined(f"{_quoted(term)} has the wrong number of operands")


def _truth(term: Condition, values: Values) -> bool:
    value = _value(term, values)
    if isinstance(value, bool):
        return value
    raise _Undefined(f"{_quoted(term)} is not true or false")


def _integer(term: Condition, values: Values) -> int:
    value = _value(term, values)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _Undefined(f"{_quoted(term)} is not an integer")


def _text(term: Condition, values: Values) -> str:
    value = _value(term, values)
    if isinstance(value, str):
        return value
    raise _Undefined(f"{_quoted(term)} is not a string")


def _equal(left: Condition, right: Condition, values: Values) -> bool:
    one, other = _value(left, values), _value(right, values)
    if type(one) is type(other):
        return one == other
    raise _Undefined(f"{_quoted(left)} and {_quoted(right)} have different types")


def _remainder(term: Operation, number: int, divisor: int) -> int:
    if divisor == 0:
        raise _Undefined(f"{_quoted(term)} divides by zero")
    return number % divisor


def _matches(pattern: str, text: str) -> bool:
    try:
        return matches(pattern, text)
    except PatternRefused as error:
        raise _Undefined(f"{_quoted(ConstantTerm(pattern))} is not a pattern: {error.message}") from error


def _quoted(term: Condition) -> str:
    text = condition_text(term)
    return f"`{text if len(text) <= 60 else text[:59] + '…'}`"
