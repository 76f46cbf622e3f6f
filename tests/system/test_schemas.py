"""Schemas that are valid, values that match them, and what is refused before it takes too long."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agentforge.system.schemas import MAX_DEPTH, MAX_PROBLEMS, InvalidSchema, JsonSchema, json_path

PLAN = {
    "type": "object",
    "required": ["steps"],
    "properties": {
        "steps": {
            "type": "array",
            "minItems": 1,
            "items": {"required": ["id"], "properties": {"after": {"items": {"type": "string"}}}},
        }
    },
    "additionalProperties": False,
}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels - 1):
        value = {"c": value}
    return value


def doubling(levels: int) -> dict[str, Any]:
    """Two alternatives at each level, which are the same."""
    definitions: dict[str, Any] = {
        f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(levels)
    }
    return {"$ref": "#/$defs/a0", "$defs": {**definitions, f"a{levels}": {"type": "string"}}}


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ({"steps": [{"id": "a"}, {"id": "b", "after": ["a"]}]}, []),
        ([], ['$: [] is not of type "object"']),
        ({}, ['$: "steps" is a required property']),
        ({"steps": []}, ["$.steps: [] has less than 1 item"]),
        ({"steps": [{"id": 1, "after": [2]}]}, ['$.steps[0].after[0]: 2 is not of type "string"']),
        (
            {"steps": [{}], "x": 1},
            [
                '$.steps[0]: "id" is a required property',
                "$: Additional properties are not allowed ('x' was unexpected)",
            ],
        ),
    ],
)
def test_what_does_not_match_is_named_with_its_place(value: Any, texts: list[str]) -> None:
    found = [one.text for one in JsonSchema(PLAN).mismatches(value)]
    assert len(found) == len(texts)
    assert all(any(one.startswith(text) for one in found) for text in texts), found


def test_the_first_problems_are_named_and_cut() -> None:
    found = JsonSchema(PLAN).mismatches({"steps": [{"x": "y" * 1000}] * 50})
    assert [one.message for one in found[-2:]] == ['"id" is a required property', "and more"]
    assert len(found) == MAX_PROBLEMS + 1
    (long,) = JsonSchema({"type": "null"}).mismatches("y" * 1000)
    assert len(long.message) == 300
    assert long.message.startswith('"yyy')
    assert long.message.endswith('y" is not of type "null"')


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"enum": [f"v{n}" for n in range(5000)]}}, ["x"] * 200_000),
        ({"required": [f"r{n}" for n in range(2000)]}, {"a": "x" * 10_000_000}),
        ({"required": [f"r{n}" for n in range(2000)]}, {"x" * 10_000_000: 1}),
    ],
    ids=["many", "long text", "long key"],
)
def test_of_a_large_value_only_the_first_problem_is_looked_for(schema: dict[str, Any], value: Any) -> None:
    """All of them would have more copies of the value and of the schema than fit into memory."""
    first, more = JsonSchema(schema).mismatches(value)
    assert "is not one of" in first.message or "is a required property" in first.message
    assert more.message.startswith("and perhaps more")
    assert JsonSchema({**schema, "required": [], "items": {}}).mismatches(value) == []


def test_a_long_text_is_not_much_work() -> None:
    schema = {"allOf": [{"properties": {"a": {"type": "string", "minLength": n}}} for n in range(20)]}
    assert JsonSchema(schema).mismatches({"a": "x" * 10_000_000}) == []


@pytest.mark.parametrize(
    ("schema", "place", "why"),
    [
        ([], "$", "must be a mapping, got a list"),
        (None, "$", "got null"),
        (7, "$", "got a number"),
        ({"type": "objekt"}, "$.type", '"objekt" is not valid'),
        ({"properties": {"a": {"minimum": "x"}}}, "$.properties.a.minimum", "is not of type"),
        ({"pattern": "["}, "$.pattern", "regex"),
        ({"pattern": "(?=a)b"}, "$.pattern", "regex"),
        ({"pattern": "(a{1000}){1000}"}, "$.pattern", "regex"),
        ({"$ref": "#/$defs/none"}, "$.$ref", "nothing in the schema has this name"),
        ({"items": {"$ref": "http://127.0.0.1:9/x.json"}}, "$.items.$ref", "references are such as #/$defs"),
        ({"allOf": [{"$ref": "file:///etc/passwd"}]}, "$.allOf[0].$ref", "references are such as #/$defs"),
        ({"$dynamicRef": "#none"}, "$.$dynamicRef", "'#none': nothing"),
        ({"$ref": 5}, "$.$ref", "'5': nothing"),
        ({"$schema": "http://127.0.0.1:9/x"}, "$", "Unknown meta-schema"),
        ({"$defs": {"a": {"$id": "http://a/b"}}}, "$.$defs.a.$id", "`$id` works only at the top"),
        ({"$defs": {"a": nested(MAX_DEPTH)}}, "$", "nested deeper than 100 levels"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_its_place(schema: Any, place: str, why: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        JsonSchema(schema)
    assert json_path(refused.value.path) == place
    assert why in refused.value.message


def test_text_that_is_not_unicode_is_a_mismatch() -> None:
    (wrong,) = JsonSchema({"type": "string"}).mismatches("\ud800")
    assert "can't encode" in wrong.message


def test_references_within_a_schema_work() -> None:
    schema = JsonSchema(
        {
            "properties": {
                "a": {"$ref": "#name"},
                "b": {"$ref": "#/$defs/a~1b%20c"},
                "c": {"$ref": "#"},
                "d": {"$ref": "#/allOf/0"},
            },
            "allOf": [{"not": {"type": "string"}}],
            "$defs": {"n": {"$anchor": "name", "type": "string"}, "a/b c": {"type": "integer"}},
        }
    )
    assert schema.mismatches({"a": "x", "b": 1, "c": {"a": "y"}, "d": 1}) == []
    wrong = {"a": 1, "b": "x", "c": {"a": 2}, "d": "x"}
    assert [json_path(one.path) for one in schema.mismatches(wrong)] == ["$.a", "$.b", "$.c.a", "$.d"]


def test_a_value_that_is_nested_deeply_does_not_end_the_process() -> None:
    schema = JsonSchema({"properties": {"c": {"$ref": "#"}}})
    assert schema.mismatches(nested(MAX_DEPTH)) == []
    (refused,) = schema.mismatches(nested(50_000))
    assert refused.message == "it is nested deeper than 100 levels"


ALTERNATIVES = "the schema has too many alternatives for a value of "
TOO_LARGE = "it has "
CHAIN = {
    "$ref": "#/$defs/0",
    "$defs": {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(3000)} | {"3000": {}},
}


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        (doubling(22), 1, ALTERNATIVES),
        ({"anyOf": [{"properties": {"c": {"$ref": "#"}}}] * 2}, nested(60), ALTERNATIVES),
        (CHAIN, 1, ALTERNATIVES),
        ({"items": {"$ref": "#/$defs/a0"}, "$defs": doubling(8)["$defs"]}, [1] * 20_000, TOO_LARGE),
        ({"items": {"enum": [n + 0.5 for n in range(1_000)]}}, [999.5] * 1_000, TOO_LARGE),
        ({"items": {"dependentRequired": {f"k{n}": [] for n in range(1_000)}}}, [{}] * 1_000, TOO_LARGE),
        ({"items": {"type": "integer"}}, [1] * 600_000, "it has 600,001 values; with this schema, at most "),
    ],
    ids=["alternatives", "recursion", "chain", "size", "enum", "dependent", "a large value"],
)
def test_what_takes_too_long_is_not_tried(schema: Any, value: Any, why: str) -> None:
    (refused,) = JsonSchema(schema).mismatches(value)
    assert refused.message.startswith(why)


def test_a_keyword_that_an_older_draft_lacks_may_be_anything() -> None:
    older = {"$schema": "http://json-schema.org/draft-07/schema#", "dependentRequired": 5}
    assert JsonSchema(older).mismatches({"a": 1}) == []


def test_many_texts_are_looked_up() -> None:
    assert (
        JsonSchema({"items": {"enum": [f"v{n}" for n in range(6_000)]}}).mismatches(["v5999"] * 50_000) == []
    )


def test_a_pattern_is_matched_in_linear_time() -> None:
    assert len(JsonSchema({"pattern": "^(a+)+$"}).mismatches("a" * 50_000 + "b")) == 1


names = st.sampled_from(["a", "b"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=2),
    max_leaves=6,
)
schemas = st.recursive(
    st.sampled_from([{}, {"type": "string"}, {"minimum": 2}, {"type": "array", "minItems": 1}]),
    lambda inner: st.one_of(
        st.builds(lambda one: {"items": one}, inner),
        st.builds(lambda one: {"properties": {"a": one}}, inner),
        st.builds(lambda one: {"additionalProperties": one}, inner),
        st.builds(lambda one, other: {"anyOf": [one, other]}, inner, inner),
        st.builds(lambda one: {"not": one}, inner),
    ),
    max_leaves=4,
)


@given(schemas, values)
def test_it_says_the_same_as_another_validator(schema: dict[str, Any], value: Any) -> None:
    assert (JsonSchema(schema).mismatches(value) == []) == Draft202012Validator(schema).is_valid(value)
