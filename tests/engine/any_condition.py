"""Conditions of all shapes: well-typed ones, each with the Python expression that means the same, and any."""

from typing import Any

from hypothesis import strategies as st

from agentforge.engine.conditions import Values
from agentforge.model.condition import (
    VARIABLES,
    Condition,
    ConstantTerm,
    ListTerm,
    Operation,
    Operator,
    VariableTerm,
)

Typed = tuple[Condition, str]
"""A term, and the same in Python."""

TEXTS = st.text(st.sampled_from("abu\\\"' é|&"), max_size=4)
COMPARISONS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
values: st.SearchStrategy[Values] = st.fixed_dictionaries(
    {
        "iteration": st.integers(0, 9),
        **{name: st.sampled_from(["plan", "build", "", "a"]) for name in VARIABLES if name != "iteration"},
    }
)


def constant(value: bool | int | str) -> Typed:
    return ConstantTerm(value), repr(value)


def variable(name: Any) -> Typed:
    return VariableTerm(name), name


def binary(op: Operator, python: str, left: Typed, right: Typed) -> Typed:
    return Operation(op, (left[0], right[0])), f"({left[1]} {python} {right[1]})"


integers: st.SearchStrategy[Typed] = st.recursive(
    st.integers(-5, 20).map(constant) | st.just("iteration").map(variable),
    lambda inner: st.builds(lambda left, right: binary("%", "%", left, right), inner, inner),
    max_leaves=4,
)
texts: st.SearchStrategy[Typed] = TEXTS.map(constant) | st.sampled_from(VARIABLES[1:]).map(variable)


def contained(item: Typed, items: list[Typed]) -> Typed:
    listed = ListTerm(tuple(term for term, _ in items if isinstance(term, ConstantTerm)))
    return Operation("in", (item[0], listed)), f"({item[1]} in [{', '.join(python for _, python in items)}])"


comparisons: st.SearchStrategy[Typed] = st.one_of(
    st.booleans().map(constant),
    st.builds(lambda op, left, right: binary(op, op, left, right), COMPARISONS, integers, integers),
    st.builds(
        lambda op, left, right: binary(op, op, left, right), st.sampled_from(["==", "!=", "in"]), texts, texts
    ),
    st.builds(contained, texts, st.lists(TEXTS.map(constant), min_size=1, max_size=3)),
    st.builds(
        contained, integers, st.lists(st.integers(-(2**63), 2**63 - 1).map(constant), min_size=1, max_size=3)
    ),
)


def junction(op: Operator, parts: list[Typed]) -> Typed:
    python = {"&&": "and", "||": "or"}[op]
    return Operation(
        op, tuple(term for term, _ in parts)
    ), f"({f' {python} '.join(text for _, text in parts)})"


def negation(of: Typed) -> Typed:
    return Operation("!", (of[0],)), f"(not {of[1]})"


conditions: st.SearchStrategy[Typed] = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(junction, st.sampled_from(["&&", "||"]), st.lists(inner, min_size=2, max_size=3)),
        st.builds(
            lambda op, left, right: binary(op, op, left, right), st.sampled_from(["==", "!="]), inner, inner
        ),
        inner.map(negation),
    ),
    max_leaves=8,
)

constants = st.builds(ConstantTerm, st.booleans() | st.integers(-3, 3) | st.text(max_size=3))
any_conditions: st.SearchStrategy[Condition] = st.recursive(
    constants | st.sampled_from(VARIABLES).map(VariableTerm),
    lambda inner: st.one_of(
        st.builds(ListTerm, st.lists(constants, max_size=2).map(tuple)),
        st.builds(
            Operation,
            st.sampled_from(["||", "&&", "==", "!=", "<", "<=", ">", ">=", "in", "matches", "%", "!"]),
            st.lists(inner, max_size=3).map(tuple),
        ),
    ),
    max_leaves=10,
)
"""As a log from elsewhere may hold them: with wrong types and numbers of operands."""
