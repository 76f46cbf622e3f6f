"""Conditions of hooks, in the parsed form that the plan holds: when a hook is called. They are printed with
`condition_text`, which is also the language that they are written in."""

from collections.abc import Iterator
from typing import Literal, get_args

from msgspec import Struct

VariableName = Literal["iteration", "stage", "session", "provider", "status", "event"]
VARIABLES: tuple[VariableName, ...] = get_args(VariableName)
INTEGERS: frozenset[VariableName] = frozenset(("iteration",))
"""The variables that are integers; the others are texts."""
Operator = Literal["||", "&&", "==", "!=", "<", "<=", ">", ">=", "in", "matches", "%", "!"]

MAX_LENGTH = 1_000
"""Characters of a condition, and terms of its parsed form."""
MAX_DEPTH = 50

_COMPARISONS: tuple[Operator, ...] = ("==", "!=", "<", "<=", ">", ">=", "in", "matches")
_PRECEDENCE: dict[Operator, int] = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(_COMPARISONS, 3),
    "%": 4,
    "!": 5,
}


class VariableTerm(Struct, frozen=True, tag="variable", tag_field="term"):
    name: VariableName


class ConstantTerm(Struct, frozen=True, tag="constant", tag_field="term"):
    value: bool | int | str


class ListTerm(Struct, frozen=True, tag="list", tag_field="term"):
    """The values that `in` looks for."""

    items: tuple[ConstantTerm, ...]


class Operation(Struct, frozen=True, tag="operation", tag_field="term"):
    op: Operator
    of: "tuple[Condition, ...]"
    """One operand of `!`, two or more of `&&` and `||`, two of all others."""


Condition = VariableTerm | ConstantTerm | ListTerm | Operation


def condition_text(condition: Condition) -> str:
    """The condition as one would write it, with no more parentheses than it needs."""
    return _text(condition, 0)


def _text(term: Condition, minimum: int) -> str:
    """With parentheses if it binds less than `minimum`."""
    match term:
        case VariableTerm():
            return term.name
        case ConstantTerm():
            return _constant_text(term.value)
        case ListTerm():
            return f"[{', '.join(_constant_text(item.value) for item in term.items)}]"
        case Operation():  # exhaustive
            strength = _PRECEDENCE[term.op]
            text = _operation_text(term, strength)
            return f"({text})" if strength < minimum else text


def _operation_text(term: Operation, strength: int) -> str:
    if term.op == "!":
        return "!" + "".join(_text(operand, strength) for operand in term.of)
    # Only `%` is associative, to the left.
    first = _text(term.of[0], strength + (term.op != "%")) if term.of else ""
    return f" {term.op} ".join((first, *(_text(operand, strength + 1) for operand in term.of[1:])))


def _constant_text(value: bool | int | str) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value).lower()


def condition_problem(condition: Condition) -> str:
    """Why the condition can't be one that was compiled; empty if it can."""
    # Level by level, as a condition from a log could be nested deeper than a recursion can go.
    depth, terms = 0, 0
    for level in _levels(condition):
        depth, terms = depth + 1, terms + len(level)
        if depth > MAX_DEPTH or terms > MAX_LENGTH:
            return f"a condition exceeds {MAX_DEPTH} levels or {MAX_LENGTH:,} terms"
        if any(isinstance(term, ConstantTerm) and is_too_large(term.value) for term in level):
            return "a condition has a constant that is too large"
    return ""


def is_too_large(value: bool | int | str) -> bool:
    if isinstance(value, str):
        return len(value) > MAX_LENGTH
    return value not in range(-(2**63), 2**63)


def _levels(condition: Condition) -> Iterator[list[Condition]]:
    """The terms of the condition, by their depth."""
    level: list[Condition] = [condition]
    while level:
        yield level
        level = [inner for term in level for inner in _inner(term)]


def _inner(term: Condition) -> tuple[Condition, ...]:
    match term:
        case Operation():
            return term.of
        case ListTerm():
            return term.items
        case VariableTerm() | ConstantTerm():  # exhaustive
            return ()
