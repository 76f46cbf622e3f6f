"""Artifacts in definitions: forms of the key, schemas and the places of their mistakes, and which fields and
lists of earlier artifacts a stage can name."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentforge.definition.compiler import compile_pipeline
from agentforge.model.artifact import ArtifactRule
from agentforge.model.diagnostic import Diagnostic
from agentforge.model.plan import ParallelNode, StageNode
from agentforge.model.plan_limits import MAX_SCHEMA_BYTES
from agentforge.ports.sources import MAX_SOURCE_BYTES
from agentforge.system.schemas import JsonSchema

from .world import BUILTIN, TextWorld, found, only_node, plan, stage, where

PLAN = {"type": "object", "properties": {"goal": {"type": "string"}, "steps": {"type": "array"}}}
FILES = {"s.json": json.dumps(PLAN), f"{BUILTIN}/schemas/work-plan.json": json.dumps(PLAN)}
HEAD = "nodes:\n  - id: n\n    stage: s\n"


def node(line: str) -> str:
    """A pipeline with one more line in its node, the file's fourth."""
    return f"{HEAD}    {line}\n"


def said(diagnostics: list[Diagnostic]) -> list[str]:
    return [f"{where(one)} {one.message}" for one in diagnostics]


# -- forms


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("work-plan", ArtifactRule(PLAN, "work-plan")),
        ("s.json", ArtifactRule(PLAN, "s.json")),
        ("./s.json", ArtifactRule(PLAN, "s.json")),
        ("{type: object}", ArtifactRule({"type": "object"})),
        ("{schema: {type: object}}", ArtifactRule({"type": "object"})),
        ("{description: any}", ArtifactRule({"description": "any"})),
        (
            "{schema: s.json, version: 1.10, heal: 0, fill: {goal: request}, x-note: 1}",
            ArtifactRule(PLAN, "s.json", "1.10", 0, {"goal": "request"}),
        ),
    ],
)
def test_forms_of_an_artifact(written: str, rule: ArtifactRule) -> None:
    text = f"request: required\n{node(f'artifact: {written}')}"
    assert found(text, FILES) == []
    assert only_node(text, FILES).artifact == rule


def test_levels_merge_key_by_key() -> None:
    files = {**stage("s", "artifact: {schema: own.json, version: 2.0}\n"), ".claude/stages/s/own.json": "{}"}
    defaults = "defaults: {artifact: {heal: 3, version: 1.5}}\n"
    text = f"{defaults}{node('artifact: {heal: 0}')}  - {{id: m, prompt: hi}}\n"
    first, second = plan(text, files).nodes
    assert isinstance(first, StageNode)
    assert first.artifact == ArtifactRule({}, ".claude/stages/s/own.json", "2.0", 0)
    # Defaults alone are for stages that have a schema.
    assert isinstance(second, StageNode)
    assert second.artifact is None


def test_a_file_is_beside_the_definition_that_names_it() -> None:
    inner = "nodes: [{id: n, prompt: hi, artifact: s.json}]\n"
    files = {"sub/inner.yaml": inner, "sub/s.json": '{"title": "inner"}', "s.json": '{"title": "outer"}'}
    text = "nodes: [{id: a, prompt: hi, artifact: s.json}, {id: b, pipeline: sub/inner.yaml}]\n"
    sources = [one.artifact.source for one in plan(text, files).stages if one.artifact]
    assert sources == ["s.json", "sub/s.json"]
    given = compile_pipeline(TextWorld(files), inner, "session").plan.only_stage
    assert given.artifact == ArtifactRule({"title": "outer"}, "s.json")


def test_every_branch_of_a_block_has_the_rule() -> None:
    block = "{providers: [claude, codex], stages: [{id: n, prompt: hi, artifact: s.json}]}"
    (node,) = plan(f"nodes: [{{id: b, parallel: {block}}}]\n", FILES).nodes
    assert isinstance(node, ParallelNode)
    assert [branch.stages[0].artifact for branch in node.branches] == [ArtifactRule(PLAN, "s.json")] * 2
    assert node.stages[0]["artifact"]["source"] == "s.json"


# -- mistakes


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "artifact: [s.json]",
            "bad-type 4:15 `artifact` must be the name of a schema, a file or a mapping, got a list",
        ),
        ("artifact: true", "bad-type 4:15 `artifact` must be the name of a schema, a file or a mapping"),
        ("artifact: {schema: 7}", "bad-type 4:24 `artifact.schema` must be the name of a schema, a file or"),
        ("artifact: {}", "missing-key 4:15 `artifact` has no `schema`"),
        ("artifact: {heal: 2}", "missing-key 4:15 `artifact` has no `schema`"),
        (
            "artifact: {schema: s.json, heal: 11}",
            "bad-value 4:38 `artifact.heal` must be from 0 to 10, got 11",
        ),
        ("artifact: {schema: s.json, version: 1}", "bad-value 4:41 `artifact.version` must be MAJOR.MINOR"),
        ("artifact: {schema: s.json, version: on}", "bad-value 4:41 `artifact.version` must be MAJOR.MINOR"),
        ("artifact: {schema: s.json, version: true}", "bad-type 4:41 `artifact.version` must be MAJOR.MINOR"),
        ("artifact: {schema: s.json, versoin: 2.0}", "unknown-key 4:32 unknown key `versoin` in artifact"),
        (
            "artifact: {schema: s.json, title: x}",
            "ignored-key 4:16 `schema` has no effect in a schema, which the",
        ),
        (
            "artifact: {schema: s.json, fill: goal}",
            "bad-type 4:38 `artifact.fill` must be a mapping, got the text",
        ),
        (
            "artifact: {schema: s.json, fill: {goal: me}}",
            "bad-value 4:45 invalid value `me` for `artifact.fill.goal`",
        ),
        (
            "artifact: {schema: s.json, fill: {a.b: request}}",
            "bad-value 4:39 a key of `artifact.fill` must name a field",
        ),
        (
            "artifact: {schema: s.json, fill: {_x: request}}",
            "bad-value 4:39 `artifact.fill` can't set `_x`: the engine",
        ),
        (
            "artifact: {schema: s.json, fill: {steps: request}}",
            "bad-value 4:39 `steps` is filled with the text of the",
        ),
        (
            "artifact: {schema: {properties: {a: {}}, additionalProperties: false}, fill: {b: request}}",
            "unknown-field 4:83 the schema allows no field `b`",
        ),
        ("artifact: work-plam", "unknown-schema 4:15 no built-in schema is named `work-plam`"),
        ("artifact: t.json", "missing-schema 4:15 no schema file `t.json`; looked for t.json"),
        ("artifact: .claude/stages", "missing-schema 4:15 the schema file `.claude/stages` is a folder"),
        ("artifact: {type: array}", "not-an-object 4:22 an artifact is a JSON object; the schema says array"),
        (
            "artifact: {properties: {a: {type: strin}}}",
            'bad-schema 4:39 invalid schema: "strin" is not valid',
        ),
        (
            "artifact: {$ref: 'https://example.com/s.json'}",
            "bad-schema 4:22 invalid schema: 'https://example.com",
        ),
        ("artifact: {const: .inf}", "bad-value 4:23 the schema contains `.inf`, which is not valid JSON"),
        ("tokens: 0", "bad-value 4:13 `tokens` must be from 1 to 100,000,000, got 0"),
        (
            "tokens: {total: 9, share: 0}",
            "bad-value 4:31 `tokens.share` must be greater than 0 and at most 100, got 0",
        ),
        (
            "tokens: {total: 9, share: 101%}",
            "bad-value 4:31 `tokens.share` must be greater than 0 and at most 100",
        ),
        (
            "tokens: {total: 9, reserve: 100%}",
            "bad-value 4:33 `tokens.reserve` must be from 0 to 99, got 100",
        ),
        (
            "tokens: {total: 9, reserve: x%}",
            "bad-type 4:33 `tokens.reserve` must be a percentage, such as 30%,",
        ),
        ("context_strategy: all", "bad-value 4:23 invalid value `all` for `context_strategy`"),
        ("inputs: {artifact: a b}", "bad-value 4:24 `inputs.artifact` must name a field, got `a b`"),
        ("schema: s.json", "misplaced-key 4:5 misplaced key `schema` in node"),
        (
            "provider: {type: claude, artifact: s.json}",
            "misplaced-key 4:30 misplaced key `artifact` in provider",
        ),
        ("termination: {type: items, items: a.b}", "misplaced-key 4:32 misplaced key `items` in termination"),
    ],
)
def test_mistakes_are_reported_at_their_place(line: str, expected: str) -> None:
    diagnostics = found(f"{node(line)}request: optional\n", FILES)
    assert any(one.startswith(expected) for one in said(diagnostics)), said(diagnostics)
    assert all(one.is_error for one in diagnostics) or "ignored-key" in expected


def test_keys_of_artifacts_are_misplaced_at_what_is_no_stage() -> None:
    inside = "KEY: x, providers: [{name: claude, KEY: x}], stages: [{id: n, prompt: x}]"
    block = f"{{id: b, KEY: x, parallel: {{{inside}}}}}"
    for key in ("artifact", "context_strategy", "tokens"):
        for text, number in ((block, 3), ("{id: i, pipeline: inner.yaml, KEY: x}", 1)):
            diagnostics = found(f"nodes: [{text.replace('KEY', key)}]\n", {"inner.yaml": HEAD})
            assert [one.code for one in diagnostics] == ["misplaced-key"] * number


def test_names_that_are_nearly_known_are_proposed() -> None:
    def hint(line: str) -> str:
        return found(node(line), FILES)[0].hint

    assert hint("artifact: work-plam") == (
        "did you mean `work-plan`? schemas: work-plan; the name of a file ends in `.json`"
    )
    assert hint("artifact: {properties: {a: {type: strin}}}").startswith("did you mean `string`?")
    assert hint("artifact: {properties: 3}") == ""


def test_a_key_that_the_schema_alone_refuses_has_no_effect_in_an_unknown_stage() -> None:
    """Its stage.yaml may have the rest."""
    text = (
        "nodes: [{id: n, stage: t, artifact: {heal: 2}, tokens: {share: 10}, termination: {type: items}}]\n"
    )
    assert [one.code for one in found(text)] == ["unknown-stage"]


# -- files


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            '{"type": "object",\n\t"properties": {"a": {"type": "strin"}}}',
            'bad-schema 2:31 invalid schema: "strin"',
        ),
        (
            '{"properties": {"a": {"allOf": [{}, {"type": 3}]}}}',
            "bad-schema 1:46 invalid schema: 3 is not valid",
        ),
        (
            '{"type": ["array",\n "null"]}',
            "not-an-object 1:10 an artifact is a JSON object; the schema says array or null",
        ),
        ("[]", "bad-schema 1:1 invalid schema: a schema must be a mapping, got a list"),
        ("\ufeff\n", "syntax 1:1 the schema is not valid JSON: Input data was truncated"),
        (
            '{\n "type": objekt}',
            "syntax 2:10 the schema is not valid JSON: JSON is malformed: invalid character",
        ),
        ('{"a": "\udcff"}', "syntax 1:1 the schema is not valid JSON: "),
        ('{"a": "\\ud83d\\ude00", "type": "strin"}', 'bad-schema 1:1 invalid schema: "strin"'),
        ('{"description": "${secret:A}"}', "secret-in-file 1:1 `${secret:…}` is how secrets are stored"),
        (
            '{"description": "\\u0024{secret:A}"}',
            "secret-in-file 1:1 `${secret:…}` is how secrets are stored",
        ),
        (
            json.dumps({"title": "x" * MAX_SCHEMA_BYTES}),
            "too-large 1:1 the schema has 100,012 bytes; the maximum is 100,000",
        ),
        ("[" * 200, "syntax 1:1 the schema is not valid JSON"),
        (" " * (MAX_SOURCE_BYTES + 1), "too-large 1:1 the schema is larger than 100,000 bytes"),
        ('{"not": ' * 150 + "{}" + "}" * 150, "bad-schema 1:1 invalid schema: the schema is nested deeper"),
    ],
    ids=range(14),
)
def test_a_mistake_in_a_file_is_reported_where_it_is(content: str, expected: str) -> None:
    (diagnostic,) = found(node("artifact: s.json"), {"s.json": content})
    assert said([diagnostic])[0].startswith(expected)
    assert (diagnostic.place.file, diagnostic.is_error) == ("s.json", True)


def test_two_nodes_that_name_one_file_report_it_once() -> None:
    text = f"{node('artifact: s.json')}  - {{id: m, prompt: hi, artifact: s.json}}\n"
    assert len(found(text, {"s.json": "[]"})) == 1


# -- the built-in schema


BUILT_IN = Path(__file__).parents[2] / "src/agentforge/builtin/schemas"
STEP = {
    "id": "s1",
    "title": "Add it",
    "after": [1],
    "criteria": ["the tests pass"],
    "complexity": 3,
    "more": 1,
}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"goal": "g", "steps": [STEP, {"id": 1, "title": "t"}], "_x": 1}, ""),
        ({"goal": "g", "steps": []}, "$.steps: "),
        ({"steps": [STEP]}, '$: "goal" is a required property'),
        ({"goal": " ", "steps": [STEP]}, "$.goal: "),
        ({"goal": "g", "steps": [{"title": "t"}]}, '$.steps[0]: "id" is a required property'),
        ({"goal": "g", "steps": [{"id": "", "title": "t"}]}, "$.steps[0].id: "),
        ({"goal": "g", "steps": [{**STEP, "after": "s0"}]}, "$.steps[0].after: "),
    ],
)
def test_a_work_plan(value: Any, problem: str) -> None:
    mismatches = JsonSchema(json.loads((BUILT_IN / "work-plan.json").read_text())).mismatches(value)
    assert [one.text.startswith(problem) for one in mismatches] == [True] * bool(problem)


@pytest.mark.parametrize("path", sorted(BUILT_IN.iterdir()), ids=lambda path: path.name)
def test_built_in_schemas_can_be_used_for_artifacts(path: Path) -> None:
    files = {f"{BUILTIN}/schemas/{path.name}": path.read_text()}
    assert found(node(f"artifact: {path.stem}"), files) == []
