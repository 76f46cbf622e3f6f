"""Which schemas are passed to a CLI: those that it and its API surely accept."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.adapters.fake_clis import put_cli

from agentforge.adapters.cli_agents.schema_argument import MAX_SCHEMA_BYTES, schema_argument
from agentforge.adapters.providers.claude import CLAUDE, SCHEMA_INSTRUCTION
from agentforge.adapters.providers.cli import CliAgent
from agentforge.ports.provider import ExecuteRequest

PLAN = {
    "type": "object",
    "properties": {
        "steps": {
            "type": "array",
            "minItems": 1,
            "items": {"$ref": "#/$defs/step"},
        },
        "title": {"anyOf": [{"type": "string", "maxLength": 80}, {"type": "null"}]},
    },
    "required": ["steps"],
    "additionalProperties": False,
    "$defs": {"step": {"type": "object", "properties": {"id": {"type": "string", "pattern": "^[a-z-]+$"}}}},
}


def with_property(schema: Any, name: str = "x") -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}}


@pytest.mark.parametrize(
    "schema",
    [
        PLAN,
        {"type": "object"},
        with_property(True),
        with_property({"not": {"const": 1}}),
        with_property({"type": "object", "additionalProperties": {"type": "integer"}}),
        *(
            with_property({"pattern": text})
            for text in ("^a|b$", r"^\d{4}-\d\d?(?:\.x)*$", "[^/]+?", "a{2,}")
        ),
    ],
)
def test_schema_of_known_keywords_is_passed(schema: dict[str, Any]) -> None:
    assert json.loads(schema_argument(schema)) == schema


@pytest.mark.parametrize(
    "draft",
    [
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
def test_name_of_the_draft_and_of_the_schema_are_left_out(draft: str) -> None:
    assert json.loads(schema_argument({"$schema": draft, "$id": "https://example.com/p", **PLAN})) == PLAN


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"type": ["object", "null"]},
        {"type": "object", "anyOf": [{}]},
        {"type": "object", "$schema": "http://json-schema.org/draft-04/schema#"},
        {"type": "object", "unevaluatedProperties": False},
        {"type": "object", "description": "x" * MAX_SCHEMA_BYTES},
        {"type": "object", "properties": 1},
        with_property(1),
        with_property({}, "a name"),
        with_property({"prefixItems": [{}]}),
        with_property({"allOf": [{"if": {}}]}),
        with_property({"items": {"x-mine": 1}}),
        {"type": "object", "$defs": {"a": {"dependentRequired": {}}}},
        *(
            with_property({"pattern": text})
            for text in ("(?P<x>a)", "(?i)a", r"\Aa\z", "a++", "[[:alpha:]]", r"\p{L}", r"a\-b", "a{,2}", "{")
        ),
    ],
)
def test_other_schema_is_only_in_the_prompt(schema: dict[str, Any] | None) -> None:
    assert schema_argument(schema) == ""


def test_long_pattern_takes_linear_time() -> None:
    assert schema_argument(with_property({"pattern": "a?[ab]+" * 4_000 + "(?i)"})) == ""


def request_for(folder: Path, schema: dict[str, Any] | None) -> ExecuteRequest:
    paths = {"status_path": "/it/status.json", "result_path": "/it/result.json"}
    return ExecuteRequest("Plan it.", "opus", {}, str(folder), {}, **paths, schema=schema)


def test_claude_gets_the_schema_and_is_told_when_to_use_it(tmp_path: Path) -> None:
    put_cli(tmp_path / "bin", "claude")
    provider = CliAgent(CLAUDE, {"PATH": str(tmp_path / "bin")})
    without = provider.command(request_for(tmp_path, None))
    command = provider.command(request_for(tmp_path, PLAN))
    assert command.argv == (*without.argv, "--json-schema", schema_argument(PLAN))
    assert command.stdin == f"Plan it.{SCHEMA_INSTRUCTION}"
    assert provider.command(request_for(tmp_path, {})) == without
    assert without.stdin == "Plan it."


def test_instruction_stands_before_the_suffix_of_every_prompt(tmp_path: Path) -> None:
    put_cli(tmp_path / "bin", "claude")
    mine = replace(CLAUDE, prompt="argument", prompt_suffix=" Stop then.")
    command = CliAgent(mine, {"PATH": str(tmp_path / "bin")}).command(request_for(tmp_path, PLAN))
    assert command.argv[-1] == f"Plan it.{SCHEMA_INSTRUCTION} Stop then."


def test_schema_is_not_searched_for_placeholders(tmp_path: Path) -> None:
    put_cli(tmp_path / "bin", "claude")
    schema = {"type": "object", "description": "{model} {schema}"}
    command = CliAgent(CLAUDE, {"PATH": str(tmp_path / "bin")}).command(request_for(tmp_path, schema))
    assert json.loads(command.argv[-1]) == schema
