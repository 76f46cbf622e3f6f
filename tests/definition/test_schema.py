"""The exported JSON Schema accepts what the compiler accepts, and refuses values of the wrong type."""

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from tests.code_blocks import code_blocks

from agentforge.definition.read.file_keys import DIALECT, pipeline_schema, stage_schema
from agentforge.definition.read.values import as_data
from agentforge.definition.report import Report, SourceText
from agentforge.definition.yaml_tree import parse_value

from .test_compile_parity import DIFFERENT, MATRIX, SAME, kept_case
from .test_pipelines_page import EXAMPLES

SANDBOXES = [block.text for block in code_blocks("docs/sandboxes.md", "yaml")]
BUILTIN = Path(__file__).resolve().parents[2] / "src" / "agentforge" / "builtin"
PIPELINE = Draft7Validator(pipeline_schema())
STAGE = Draft7Validator(stage_schema())


def loaded(text: str) -> Any:
    """The text as editors read it, by YAML 1.2; PyYAML takes `on` for a boolean and knows dates."""
    tree = parse_value(SourceText("p.yaml", text), Report())
    assert tree
    return as_data(tree, "the file", Report())


def errors(schema: Draft7Validator, content: Any) -> list[str]:
    return [error.message for error in schema.iter_errors(content)]


@pytest.mark.parametrize("schema", [pipeline_schema(), stage_schema()], ids=["pipeline", "stage"])
def test_schemas_are_valid_and_every_reference_leads_somewhere(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == DIALECT
    Draft7Validator.check_schema(schema)
    references = set(_references(schema))
    assert references
    assert references <= {f"#/definitions/{name}" for name in schema["definitions"]}


@pytest.mark.parametrize("path", sorted(BUILTIN.glob("pipelines/*.yaml")), ids=lambda path: path.stem)
def test_built_in_pipelines_fit_the_schema(path: Path) -> None:
    assert errors(PIPELINE, loaded(path.read_text())) == []


@pytest.mark.parametrize(
    "path", sorted(BUILTIN.glob("stages/*/stage.yaml")), ids=lambda path: path.parent.name
)
def test_built_in_stages_fit_the_schema(path: Path) -> None:
    assert errors(STAGE, loaded(path.read_text())) == []


@pytest.mark.parametrize("example", [*EXAMPLES, *SANDBOXES], ids=lambda text: text.split("\n")[1].strip())
def test_examples_of_the_documentation_fit_the_schema(example: str) -> None:
    assert errors(PIPELINE, loaded(example)) == []


@pytest.mark.parametrize("case", [*SAME, *DIFFERENT])
def test_definitions_of_agent_pipelines_that_compile_fit_the_schema(case: str) -> None:
    assert errors(PIPELINE, loaded((kept_case(MATRIX) / f"{case}.yaml").read_text())) == []


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "nodes: []",
        "nodes: [{id: a}]",
        "nodes: [{id: a, stage: s, runs: 0}]",
        "nodes: [{id: a, stage: s, runs: soon}]",
        "nodes: [{id: a, stage: s, timeout: 0}]",
        "nodes: [{id: a, stage: s, semantics: twice}]",
        "nodes: [{id: a, stage: s, parallel: {providers: [x], stages: [{id: b, prompt: x}]}}]",
        "nodes: [{id: a, parallel: {stages: [{id: b, prompt: x}]}}]",
        "nodes: [{id: a, parallel: {providers: [x], stages: [{id: b, prompt: x, pipeline: p}]}}]",
        "nodes: [{id: a, stage: s, artifact: [plan]}]",
        "nodes: [{id: a, stage: s, tokens: {total: 0}}]",
        "nodes: [{id: a, stage: s, inputs: {from: {}}}]",
        "nodes: [{id: a, stage: s, inputs: {from_parallel: {block: b}}}]",
        "{nodes: [{id: a, stage: s}], defualts: {}}",
        "nodes: [{id: a, stage: s, sandbx: bwrap}]",
        "nodes: [{id: a, pipeline: p, sandbx: bwrap}]",
        "nodes: [{id: a, parallel: {sandbox: bwrap, providers: [x], stages: [{id: b, prompt: x}]}}]",
        "nodes: [{id: a, parallel: {sandbx: bwrap, providers: [x], stages: [{id: b, prompt: x}]}}]",
        "nodes: [{id: a, stage: s, retry: {max_atempts: 3}}]",
        "nodes: [{id: a, stage: s, hooks: {}}]",
    ],
)
def test_the_schema_rejects_the_same_as_the_compiler(text: str) -> None:
    assert not PIPELINE.is_valid(loaded(text))


def test_the_schema_accepts_commands_that_yaml_reads_as_numbers() -> None:
    text = "nodes: [{id: a, stage: s, checks: [{name: c, run: 5}]}]"
    assert errors(PIPELINE, loaded(text)) == []


def test_unknown_keys_that_only_warn_dont_make_editors_reject_a_file() -> None:
    text = "{owner: me, nodes: [{id: a, stage: s, zz: 1, retry: {zz: 1}}, {id: b, pipeline: p, zz: 1}]}"
    assert errors(PIPELINE, loaded(text)) == []
    assert errors(STAGE, {"owner": "me"}) == []


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [found for item in schema for found in _references(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"]] if "$ref" in schema else []
    return own + [found for value in schema.values() for found in _references(value)]
