"""The exported JSON Schema knows the keys that the reader knows, and accepts what the compiler accepts."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from agentforge.definition.diagnostics import Report
from agentforge.definition.reading import read_pipeline, read_stage
from agentforge.definition.schema import DIALECT, pipeline_schema, stage_schema
from agentforge.definition.source import SourceText, parse_mapping
from agentforge.definition.spec import Leftover

BUILTIN = Path(__file__).resolve().parents[2] / "src" / "agentforge" / "builtin"

# A stray key in every mapping, so that the reader says which keys it would know there.
STRAY = """
zz: 1
guardrails: {zz: 1}
defaults: {zz: 1}
nodes:
  - id: a
    stage: s
    zz: 1
    termination: {zz: 1}
    retry: {zz: 1}
    on_limit: {zz: 1}
    sandbox: {type: none, zz: 1}
    inputs: {zz: 1, from_parallel: {stage: x, zz: 1}}
  - {id: b, zz: 1, pipeline: p}
  - id: c
    zz: 1
    parallel: {zz: 1, providers: [claude], stages: [{id: d, stage: s, zz: 1}]}
"""


def known(leftovers: tuple[Leftover, ...]) -> dict[str, set[str]]:
    return {left.where: set(left.known) for left in leftovers}


def keys(schema: dict[str, Any], *path: str) -> set[str]:
    for name in path:
        schema = schema[name]
    return set(schema["properties"])


def test_pipeline_schema_has_the_readers_keys() -> None:
    source, report = SourceText("p.yaml", STRAY), Report()
    tree = parse_mapping(source, report)
    assert tree
    reader = known(read_pipeline(source, tree, report).leftovers)
    schema = pipeline_schema()
    source_form = schema["$defs"]["parallelSource"]["anyOf"][1]
    assert reader == {
        "pipeline": keys(schema),
        "defaults": keys(schema, "properties", "defaults"),
        "guardrails": keys(schema, "$defs", "guardrails"),
        "node": keys(schema, "$defs", "stageNode"),
        "stage of the block": keys(schema, "$defs", "stageNode"),
        "termination": keys(schema, "$defs", "termination"),
        "retry": keys(schema, "$defs", "retry"),
        "on_limit": set(schema["$defs"]["onLimit"]["anyOf"][1]["properties"]),
        "sandbox": set(schema["$defs"]["sandbox"]["anyOf"][1]["properties"]),
        "inputs": keys(schema, "$defs", "inputs"),
        "from_parallel": set(source_form["properties"]),
        "pipeline node": keys(schema, "$defs", "pipelineNode"),
        "parallel node": keys(schema, "$defs", "parallelNode"),
        "parallel": keys(schema, "$defs", "parallel"),
    }


def test_stage_schema_has_the_readers_keys() -> None:
    source, report = SourceText("stage.yaml", "zz: 1\n"), Report()
    tree = parse_mapping(source, report)
    assert tree
    assert known(read_stage(source, tree, report).leftovers) == {"stage": keys(stage_schema())}


@pytest.mark.parametrize("schema", [pipeline_schema(), stage_schema()], ids=["pipeline", "stage"])
def test_schemas_name_their_dialect_and_every_reference_leads_somewhere(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == DIALECT
    references = set(_references(schema))
    assert references
    assert references <= {f"#/$defs/{name}" for name in schema["$defs"]}


@pytest.mark.parametrize("path", sorted(BUILTIN.glob("pipelines/*.yaml")), ids=lambda path: path.stem)
def test_built_in_pipelines_fit_the_schema(path: Path) -> None:
    schema = pipeline_schema()
    assert list(violations(yaml.safe_load(path.read_text()), schema, schema)) == []


@pytest.mark.parametrize(
    "path", sorted(BUILTIN.glob("stages/*/stage.yaml")), ids=lambda path: path.parent.name
)
def test_built_in_stages_fit_the_schema(path: Path) -> None:
    schema = stage_schema()
    assert list(violations(yaml.safe_load(path.read_text()), schema, schema)) == []


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "nodes: []",
        "nodes: [{id: a}]",
        "nodes: [{id: a, stage: s, runs: 0}]",
        "nodes: [{id: a, stage: s, parallel: {providers: [x], stages: [{id: b, prompt: x}]}}]",
        "nodes: [{id: a, parallel: {stages: [{id: b, prompt: x}]}}]",
        "nodes: [{id: a, stage: s, termination: {type: items}}]",
        "nodes: [{id: a, stage: s, inputs: {from: {}}}]",
        "nodes: [{id: a, stage: s, inputs: {from_parallel: {block: b}}}]",
        "{nodes: [{id: a, stage: s}], zz: 1}",
    ],
)
def test_the_schema_refuses_what_the_compiler_refuses(text: str) -> None:
    schema = pipeline_schema()
    assert list(violations(yaml.safe_load(text), schema, schema))


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [found for item in schema for found in _references(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"]] if "$ref" in schema else []
    return own + [found for value in schema.values() for found in _references(value)]


TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
}


def violations(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str = "$") -> list[str]:
    """The few keywords that the exported schemas use."""
    if "$ref" in schema:
        return violations(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, at)
    found: list[str] = []
    types = schema.get("type", [])
    if types and not any(_is(value, name) for name in ([types] if isinstance(types, str) else types)):
        found.append(f"{at}: not {types}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at}: not one of {schema['enum']}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        found += [f"{at}: too small"] * (value < schema.get("minimum", value))
        found += [f"{at}: too large"] * (value > schema.get("maximum", value))
    for word, least, most in (("anyOf", 1, 99), ("oneOf", 1, 1)):
        if word in schema:
            fitting = sum(not violations(value, option, root, at) for option in schema[word])
            found += [f"{at}: fits {fitting} of {word}"] * (not least <= fitting <= most)
    if isinstance(value, list):
        found += [f"{at}: too short"] * (len(value) < schema.get("minItems", 0))
        for index, item in enumerate(value):
            found += violations(item, schema.get("items", {}), root, f"{at}[{index}]")
    if isinstance(value, dict):
        found += [f"{at}: no {key}" for key in schema.get("required", []) if key not in value]
        other = schema.get("additionalProperties", True)
        for key, item in value.items():
            if key in schema.get("properties", {}):
                found += violations(item, schema["properties"][key], root, f"{at}.{key}")
            elif isinstance(other, dict):
                found += violations(item, other, root, f"{at}.{key}")
            elif not other:
                found.append(f"{at}: unknown {key}")
    return found


def _is(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))
