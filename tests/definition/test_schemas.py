"""Schemas of artifacts: where they are found, what is wrong with them, and which fields they name."""

import json
from typing import Any

import msgspec
import pytest

from agentforge.definition.compiler import compile_pipeline
from agentforge.definition.schemas import fields_of, is_closed, types_of
from agentforge.model.artifact import ArtifactRule
from agentforge.model.plan import StageNode
from agentforge.model.plan_limits import MAX_SCHEMA_BYTES

from .world import BUILTIN, TextWorld, found, found_inline, only_node, plan, stage, where

SCHEMA = '{"type": "object", "properties": {"steps": {"type": "array"}}}'
BUILT_IN = {f"{BUILTIN}/schemas/work-plan.json": SCHEMA, f"{BUILTIN}/schemas/README.md": "about them"}


def with_artifact(artifact: str) -> str:
    """A pipeline of one stage; the artifact is on the file's fourth line, at column 15."""
    return f"nodes:\n  - id: n\n    prompt: x\n    artifact: {artifact}\n"


def rule_of(artifact: str, files: dict[str, str] | None = None) -> ArtifactRule:
    rule = only_node(with_artifact(artifact), files).artifact
    assert rule is not None
    return rule


@pytest.mark.parametrize(
    ("artifact", "source"),
    [
        (SCHEMA, ""),
        (f"{{schema: {SCHEMA}}}", ""),
        ("work-plan", "work-plan"),
        ("{schema: work-plan}", "work-plan"),
        ("plan.json", "plan.json"),
        ("schemas/plan", "schemas/plan"),
        ("../elsewhere/plan.json", "/elsewhere/plan.json"),
    ],
)
def test_a_schema_is_given_by_name_by_file_or_as_it_is(artifact: str, source: str) -> None:
    """A text that ends in `.json` or contains a slash is a file, beside the definition."""
    files = dict.fromkeys(("plan.json", "schemas/plan", "/elsewhere/plan.json"), SCHEMA) | BUILT_IN
    rule = rule_of(artifact, files)
    assert (rule.schema, rule.source) == (json.loads(SCHEMA), source)
    assert (rule.version, rule.heal, rule.fill) == ("1.0", 1, {})


def test_files_are_beside_the_file_that_names_them() -> None:
    files = stage("s", "artifact: own.json\n") | {".claude/stages/s/own.json": "\ufeff" + SCHEMA}
    rule = only_node("nodes: [{id: n, stage: s}]", files).artifact
    assert rule is not None
    assert rule.source == ".claude/stages/s/own.json"


def test_files_of_a_pipeline_without_a_file_are_in_the_project() -> None:
    world = TextWorld({"schemas/plan.json": SCHEMA})
    node = compile_pipeline(world, with_artifact("schemas/plan.json"), "s").plan.only_stage
    assert node.artifact
    assert node.artifact.source == "schemas/plan.json"


def test_node_and_stage_are_merged_key_by_key() -> None:
    files = stage("s", "artifact: {schema: {type: object}, version: 1.10, heal: 3}\n")
    text = "request: optional\nnodes: [{id: n, stage: s, artifact: {heal: 0, fill: {goal: request}}}]"
    rule = only_node(text, files).artifact
    assert rule == ArtifactRule({"type": "object"}, version="1.10", heal=0, fill={"goal": "request"})


def test_each_schema_is_checked_once() -> None:
    text = "defaults: {artifact: {type: 5}}\nnodes: [{id: a, prompt: x}, {id: b, prompt: y}]"
    (diagnostic,) = found(text)
    assert where(diagnostic) == "bad-schema 1:29"


@pytest.mark.parametrize(
    ("artifact", "expected", "message", "hint"),
    [
        ("plan.json", "missing-schema 4:15", "no schema file `plan.json`; looked for plan.json", "create it"),
        ("some/dir", "missing-schema 4:15", "`some/dir` is a folder", "name a file in it"),
        ("work-plna", "unknown-schema 4:15", "`work-plna`", "did you mean `work-plan`? schemas: work-plan;"),
        ("[a]", "bad-type 4:15", "got a list", ""),
        ("{heal: 2}", "missing-key 4:15", "`artifact` has no `schema`", "a built-in name, a file"),
        ("{schema: 3}", "bad-type 4:24", "`artifact.schema` must be the name", "for example"),
        ("{schema: [{}], heal: 2}", "bad-type 4:24", "got a list", "for example"),
        ("{type: objekt}", "bad-schema 4:22", "objekt", "did you mean `object`?"),
        ("{type: [object, nul]}", "bad-schema 4:22", "nul", ""),
        ("{type: object, properties: {a: {minLength: x}}}", "bad-schema 4:58", "", ""),
        ("{properties: {a: {$ref: 'file:///etc/passwd'}}}", "bad-schema 4:39", "nothing in the schema", ""),
        ("{properties: {a: {$ref: 'http://127.0.0.1/x'}}}", "bad-schema 4:39", "nothing in the schema", ""),
        ("{properties: {a: {pattern: '(('}}}", "bad-schema 4:42", "regex", ""),
        ("{type: array}", "not-an-object 4:22", "says array", "`type: object`"),
        ("{type: [array, 'null']}", "not-an-object 4:22", "says array or null", ""),
        ("{type: object, allOf: [{type: array}]}", "not-an-object 4:22", "says no type", ""),
        ("{title: '${secret:KEY}'}", "secret-in-file 4:23", "must not refer to secrets", ""),
        (f"{{title: {'x' * MAX_SCHEMA_BYTES}}}", "too-large 4:15", "the maximum is 100,000", "describe less"),
    ],
)
def test_what_is_wrong_with_a_schema(artifact: str, expected: str, message: str, hint: str) -> None:
    (diagnostic,) = found(with_artifact(artifact), {"some/dir/file": "", **BUILT_IN})
    assert where(diagnostic) == expected
    assert message in diagnostic.message
    assert hint in diagnostic.hint


@pytest.mark.parametrize(
    ("text", "expected", "message"),
    [
        ('{\n\t"type": "objekt"}', "bad-schema 2:10", "objekt"),
        ('{"properties": {"a": [\n 1]}}', "bad-schema 1:22", ""),
        ('{"allOf": [{},\n  {"type": 7}]}', "bad-schema 2:12", "7"),
        ('{"properties": 1, "properties": {"a": {"type": 7}}}', "bad-schema 1:16", "7"),
        ("", "syntax 1:1", "the schema is not valid JSON"),
        ('{"a": 1,\n"b" 2}', "syntax 2:5", "expected ':'"),
        ("{type: object}", "syntax 1:2", ""),
        ("[" * 5000, "syntax 1:1", "recursion"),
        ('{"title": "${secret:KEY}"}', "secret-in-file 1:1", "must not refer to secrets"),
        ("true", "bad-schema 1:1", "a schema must be a mapping, got true or false"),
        ('{"title": "' + "x" * 2_000_000 + '"}', "too-large 1:1", "larger than 100,000 bytes"),
    ],
)
def test_what_is_wrong_with_a_file(text: str, expected: str, message: str) -> None:
    (diagnostic,) = found(with_artifact("plan.json"), {"plan.json": text})
    assert where(diagnostic) == expected
    assert diagnostic.place.file == "plan.json"
    assert message in diagnostic.message


def test_the_place_of_a_mistake_in_a_pipeline_without_a_file() -> None:
    (diagnostic,) = found_inline(with_artifact("{type: array}"))
    assert where(diagnostic) == "not-an-object 4:22"


@pytest.mark.parametrize(
    ("fill", "schema", "expected", "message"),
    [
        ("{goal: request}", "{}", None, ""),
        ("{goal: request}", "{properties: {goal: {type: [string, 'null']}}}", None, ""),
        ("{goal: request}", "{properties: {goal: {}}, additionalProperties: false}", None, ""),
        ("{goal: request}", "{properties: {goal: {type: integer}}}", "bad-value", "which the schema refuses"),
        ("{plan_id: id}", "{properties: {plan_id: {type: integer}}}", "bad-value", "filled with an id"),
        (
            "{gaol: request}",
            "{properties: {goal: {}}, additionalProperties: false}",
            "unknown-field",
            "`gaol`",
        ),
        ("{_goal: request}", "{}", "bad-value", "can't set `_goal`"),
        ("{request_id: request}", "{}", "bad-value", "can't set `request_id`"),
        ("{a.b: request}", "{}", "bad-value", "must name a field, got `a.b`"),
        ("{goal: user}", "{}", "bad-value", "`user`"),
        ("request", "{}", "bad-type", "mapping"),
    ],
)
def test_what_can_be_filled(fill: str, schema: str, expected: str | None, message: str) -> None:
    text = f"request: optional\n{with_artifact(f'{{schema: {schema}, fill: {fill}}}')}"
    codes = [(one.code, message in one.message) for one in found(text)]
    assert codes == ([] if expected is None else [(expected, True)])


def test_fields_that_count_in_place_of_the_result_must_be_possible() -> None:
    closed = "{properties: {verdict: {}}, additionalProperties: false}"
    for schema, fields, expected in (
        ("{}", "verdict", []),
        (closed, "[verdict]", []),
        (closed, "[verdict, reason]", ["unknown-field"]),
        ("{}", "[decision]", ["bad-value"]),
    ):
        text = with_artifact(f"{{schema: {schema}, result: {fields}}}")
        assert [one.code for one in found(text)] == expected


@pytest.mark.parametrize("request_rule", ["", "request: none\n"])
def test_a_fill_without_a_request_is_reported(request_rule: str) -> None:
    fill = "{goal: request, plan_id: id}"
    text = f"{request_rule}nodes: [{{id: a, prompt: x, artifact: {{schema: {{}}, fill: {fill}}}}}]"
    (diagnostic,) = found(text)
    assert diagnostic.code == "no-effect"
    assert "the pipeline takes none" in diagnostic.message


def test_defaults_may_have_the_rest_of_a_rule_for_stages_that_have_a_schema() -> None:
    nodes = "[{id: a, prompt: x, artifact: {schema: {}}}, {id: b, prompt: y}]"
    text = f"defaults: {{artifact: {{heal: 0}}}}\nnodes: {nodes}"
    first, second = plan(text).nodes
    assert isinstance(first, StageNode)
    assert isinstance(second, StageNode)
    assert first.artifact == ArtifactRule({}, heal=0)
    assert second.artifact is None


@pytest.mark.parametrize("version", ["2", "1.0.0", "v1.0", "true", "[1]"])
def test_a_version_is_major_and_minor(version: str) -> None:
    (diagnostic,) = found(with_artifact(f"{{schema: {{}}, version: {version}}}"))
    assert diagnostic.code in ("bad-value", "bad-type")
    assert "must be MAJOR.MINOR" in diagnostic.message


DEFS: dict[str, Any] = {
    "list": {"type": "array"},
    "a b/c~d": {"type": "integer"},
    "here": {"$anchor": "here", "type": "array"},
    "loop": {"$ref": "#/$defs/loop"},
}


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({}, None),
        (True, None),
        ({"type": "string"}, {"string"}),
        ({"type": ["string", "null"], "allOf": [{"type": "string"}]}, {"string"}),
        ({"type": "string", "allOf": [{"type": "array"}]}, set()),
        # Alternatives say what may be, not what must be.
        ({"anyOf": [{"type": "string"}]}, None),
        ({"$ref": "#/$defs/list"}, {"array"}),
        ({"$ref": "#"}, {"object"}),
        ({"$ref": "#/$defs/a b~1c~0d"}, {"integer"}),
        # What is not followed may be anything.
        ({"$ref": "#here"}, None),
        ({"$ref": "#/$defs/none"}, None),
        ({"$ref": "#/type/x"}, None),
        ({"$ref": "other.json"}, None),
        ({"$ref": 7}, None),
        ({"$ref": "#/$defs/loop"}, None),
    ],
)
def test_the_types_that_a_schema_allows(schema: Any, types: set[str] | None) -> None:
    assert types_of(schema, {"type": "object", "$defs": DEFS}) == types


@pytest.mark.parametrize(
    ("schema", "fields"),
    [
        ({}, []),
        ({"properties": [1]}, []),
        ({"properties": {"a": {}, "b": True}}, ["a", "b"]),
        ({"properties": {"a": {}}, "allOf": [{"properties": {"b": {}}}]}, ["a", "b"]),
        ({"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, ["a", "b"]),
        ({"if": {"properties": {"a": {}}}, "then": {"properties": {"b": {}}}, "else": True}, ["a", "b"]),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"a": {}}, "$ref": "#"}}}, ["a"]),
    ],
)
def test_the_fields_that_a_schema_names(schema: Any, fields: list[str]) -> None:
    assert sorted(fields_of(schema)) == fields


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        ({}, False),
        ({"additionalProperties": {}}, False),
        ({"additionalProperties": False}, True),
        ({"unevaluatedProperties": False}, True),
        ({"additionalProperties": False, "patternProperties": {"^x": {}}}, False),
    ],
)
def test_whether_a_schema_allows_other_fields(schema: Any, closed: bool) -> None:
    assert is_closed(schema) is closed


def test_agents_get_the_schema_without_what_the_engine_sets() -> None:
    schema = {
        "type": "object",
        "required": ["goal", "request_id", "steps"],
        "properties": {"goal": {"type": "string"}, "steps": {}, "original_request": {}},
    }
    rule = ArtifactRule(schema, fill={"goal": "request"})
    assert rule.agent_schema == {"type": "object", "required": ["steps"], "properties": {"steps": {}}}
    assert ArtifactRule({}).agent_schema == {}
    # What isn't a schema stays as it is.
    odd: dict[str, Any] = {"required": 3, "properties": 4}
    assert ArtifactRule(odd).agent_schema == odd
    assert msgspec.json.encode(rule.schema) == msgspec.json.encode(schema)
