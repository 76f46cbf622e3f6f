"""The schema that an agent gets: what is in it, and that it asks for what the engine doesn't set."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.model.agent_schema import MAX_PARTS, without_fields
from agentforge.system.schemas import JsonSchema

GOAL = {"goal": {"type": "string"}}
WITH = {"required": ["goal", "x"], "properties": {**GOAL, "x": {}}}
WITHOUT = {"required": ["x"], "properties": {"x": {}}}


@pytest.mark.parametrize(
    ("schema", "asked"),
    [
        (WITH, WITHOUT),
        ({"allOf": [WITH, True]}, {"allOf": [WITHOUT, True]}),
        ({"anyOf": [{"oneOf": [WITH]}]}, {"anyOf": [{"oneOf": [WITHOUT]}]}),
        ({"if": WITH, "then": WITH, "else": False}, {"if": WITHOUT, "then": WITHOUT, "else": False}),
        ({"dependentSchemas": {"x": WITH}}, {"dependentSchemas": {"x": WITHOUT}}),
        ({"dependentRequired": {"x": ["goal", "y"]}}, {"dependentRequired": {"x": ["y"]}}),
        ({"dependencies": {"x": ["goal"], "y": WITH}}, {"dependencies": {"x": [], "y": WITHOUT}}),
        ({"required": ["goal"]}, {}),
        ({"properties": {"x": {}}}, {"properties": {"x": {}}}),
        # These are about other values, or would match all.
        ({"properties": {"x": WITH}}, {"properties": {"x": WITH}}),
        ({"not": {"required": ["goal"]}}, {"not": {"required": ["goal"]}}),
        # What isn't a schema stays as it is.
        ({"required": "goal", "properties": 4, "allOf": 5, "dependencies": 6}, None),
        ({"required": [["goal"]], "$ref": "goal"}, None),
        ({"$ref": "#", **WITH}, {"$ref": "#", **WITHOUT}),
    ],
)
def test_parts_that_describe_the_artifact_lack_what_the_engine_sets(schema: Any, asked: Any) -> None:
    assert without_fields(schema, {"goal"}) == (schema if asked is None else asked)


def test_the_artifact_gets_a_copy_of_a_definition() -> None:
    """Another value may have the same one."""
    inner = {"$ref": "#/$defs/plan", "properties": {"part": {"$ref": "#/$defs/plan"}}}
    assert without_fields({**inner, "$defs": {"plan": {"allOf": [WITH, inner]}}}, {"goal"}) == {
        "$ref": "#/$defs/plan_1",
        "properties": {"part": {"$ref": "#/$defs/plan"}},
        "$defs": {
            "plan": {"allOf": [WITH, inner]},
            "plan_1": {"allOf": [WITHOUT, {**inner, "$ref": "#/$defs/plan_1"}]},
        },
    }
    old = {"$ref": "#/definitions/a~1b", "definitions": {"a/b": WITH}}
    assert without_fields(old, {"goal"}) == {**old, "$ref": "#/$defs/_1", "$defs": {"_1": WITHOUT}}


def test_any_depth_ends() -> None:
    schema: Any = WITH
    for _ in range(MAX_PARTS + 1):
        schema = {"then": schema}
    assert without_fields(schema, {"goal"}) == schema


def test_chain_of_definitions_is_followed_to_its_end() -> None:
    names = [f"n{number}" for number in range(2_000)]
    chain = {name: {"$ref": f"#/$defs/{after}"} for name, after in pairwise(names)}
    found = without_fields({"$ref": "#/$defs/n0", "$defs": {**chain, names[-1]: WITH}}, {"goal"})
    assert sum(one == WITHOUT for one in found["$defs"].values()) == 1


plain = st.fixed_dictionaries(
    {},
    optional={
        "required": st.lists(st.sampled_from("gx"), unique=True),
        "properties": st.just({"g": {}, "x": {"type": "integer"}}),
    },
)
REF = {"$ref": "#/$defs/d"}


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, min_size=1, max_size=3)
    return (
        st.fixed_dictionaries({}, optional={"allOf": lists, "anyOf": lists, "oneOf": lists})
        | st.fixed_dictionaries({"if": inner, "then": inner}, optional={"else": inner})
        | st.fixed_dictionaries({"dependentSchemas": st.fixed_dictionaries({"x": inner})})
    )


@given(
    st.recursive(plain | st.just(REF), combined, max_leaves=8), st.recursive(plain, combined, max_leaves=4)
)
def test_what_an_agent_leaves_is_accepted_if_it_matches_with_what_the_engine_sets(
    schema: Any, d: Any
) -> None:
    schema = {**schema, "$defs": {"d": d}}
    whole, asked = JsonSchema(schema), JsonSchema(without_fields(schema, {"g"}))
    for value in ({}, {"x": 1}, {"x": ""}):
        assert bool(asked.mismatches(value)) == bool(whole.mismatches({**value, "g": "set"}))
