"""Every key of every mapping, straight from the tables: the reader and the JSON Schema agree on it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft7Validator

from agentforge.definition.read.artifact_keys import ArtifactKind, FieldName, Fill, Percent
from agentforge.definition.read.check_keys import Expectation
from agentforge.definition.read.file_keys import PIPELINE, PIPELINE_KEYS, STAGE
from agentforge.definition.read.hook_keys import HOOK, POINTS, ConditionKind, HooksKind
from agentforge.definition.read.node_keys import BLOCK, PARALLEL_NODE, PIPELINE_NODE, STAGE_NODE, NodeKind
from agentforge.definition.read.settings_keys import ById
from agentforge.definition.read.table import Key, Nested, Table
from agentforge.definition.read.template_keys import TEMPLATE
from agentforge.definition.read.values import (
    Address,
    Anything,
    CommandKind,
    Flag,
    Given,
    ListOf,
    Name,
    NamedVariable,
    Number,
    Text,
    Texts,
)
from agentforge.definition.report import Report, SourceText
from agentforge.definition.yaml_tree import parse_mapping
from agentforge.model.diagnostic import Diagnostic
from agentforge.model.layout import RunLayout
from agentforge.model.plan import NestedNode, ParallelNode, PipelineInfo, StageNode
from agentforge.views.lines.dry_run import preview

from .world import plan


def tables(table: Table[Any], seen: dict[str, Table[Any]]) -> dict[str, Table[Any]]:
    """The table and all that its keys lead to, by the word for each in messages."""
    if table.where not in seen:
        seen[table.where] = table
        for key in table.keys:
            for inner in _inside(key.kind):
                tables(inner, seen)
    return seen


def _inside(kind: Any) -> Iterator[Table[Any]]:
    match kind:
        case ListOf():
            yield from _inside(kind.item)
        case Nested() | ArtifactKind():
            yield kind.table
        case ById():
            yield from _inside(kind.kind)
        case NodeKind():
            yield from (kind.stage, *kind.others.values())
        case HooksKind():
            yield POINTS


ALL = tables(TEMPLATE, tables(STAGE, tables(PIPELINE, {})))
ROWS = [(table, key) for table in ALL.values() for key in table.keys]
TYPED = [(table, key) for table, key in ROWS if not isinstance(key.kind, Anything)]
RANGED = [(table, key) for table, key in ROWS if isinstance(key.kind, Number)]


def named(value: Any) -> str:
    return value.where if isinstance(value, Table) else value.name if isinstance(value, Key) else ""


def sample(kind: Any) -> Any:
    match kind:
        case Text():
            return kind.options[:2][-1] if kind.options else (*kind.proposed, "x")[0]
        case Number():
            return kind.low + 1
        case Flag() | Given():
            return True
        case Name():
            return "1.0" if ":" not in kind.pattern else "tools.stages:Lint"
        case Texts():
            return {"test": "make"}
        case ListOf():
            return [sample(kind.item)]
        case Nested(table=table) if table is HOOK:
            return {"action": "webhook", "url": "https://example.com/hook"}
        case Nested():
            return least(kind.table)
        case NodeKind():
            return {"id": "n", "stage": "s"}
        case HooksKind():
            return {"stage_end": {"action": "pause"}}
        case ConditionKind():
            return "iteration > 1"
        case Address():
            return "https://example.com/hook"
        case CommandKind() | NamedVariable():
            return "make"
        case Expectation():
            return "fail"
        case FieldName():
            return "goal"
        case Percent():
            return "30%"
        case Fill():
            return {"goal": "request"}
        case ById():
            return {"build": sample(kind.kind)}
        case _:
            return {"any": 1}


def least(table: Table[Any]) -> dict[str, Any]:
    """The smallest mapping that has all that is required."""
    names = (required.names[0] for required in table.required)
    return {name: sample(table.kind_of_key(name)) for name in names}


def read(table: Table[Any], mapping: dict[str, Any]) -> tuple[Diagnostic, ...]:
    report = Report()
    keyed = parse_mapping(SourceText("p.yaml", json.dumps(mapping)), report)
    assert keyed
    table.read(keyed, report)
    return report.diagnostics


def fits(table: Table[Any], mapping: dict[str, Any]) -> bool:
    definitions: dict[str, Any] = {}
    schema = {**table.inline_schema(definitions), "definitions": definitions}
    return bool(Draft7Validator(schema).is_valid(mapping))


def test_the_tables_cover_every_mapping() -> None:
    assert set(ALL) == {
        *("pipeline", "defaults", "stage", "node", "stage of the block", "parallel node", "pipeline node"),
        *("parallel", "provider of the block", "provider", "termination", "retry", "on_limit", "sandbox"),
        *("guardrails", "approve", "inputs", "from_parallel", "hooks", "hook", "notification"),
        *(
            "check",
            "deliver",
            "file",
            "limits",
            "prompt",
            "artifact",
            "tokens",
            "executor",
            "inputs of the stage",
        ),
        *("template", "defaults of the template", "exit_conditions", "hooks of the template"),
        *("stage configuration", "execution"),
    }


@pytest.mark.parametrize(("table", "key"), ROWS, ids=named)
def test_a_fitting_value_is_read_without_an_error_and_fits_the_schema(table: Table[Any], key: Key) -> None:
    mapping = {**least(table), key.name: sample(key.kind)}
    assert [found for found in read(table, mapping) if found.is_error] == []
    assert fits(table, mapping)


@pytest.mark.parametrize(("table", "key"), TYPED, ids=named)
def test_a_value_of_the_wrong_type_is_refused_by_both(table: Table[Any], key: Key) -> None:
    mapping = {**least(table), key.name: [[]]}
    diagnostics = [found for found in read(table, mapping) if found.code == "bad-type"]
    assert len(diagnostics) == 1
    assert diagnostics[0].place.col == json.dumps(mapping).index("[[]]") + 1 + isinstance(key.kind, ListOf)
    assert not fits(table, mapping)


@pytest.mark.parametrize(("table", "key"), RANGED, ids=named)
def test_a_number_out_of_range_is_refused_by_both(table: Table[Any], key: Key) -> None:
    assert isinstance(key.kind, Number)
    for value in (key.kind.low - 1, key.kind.high + 1):
        mapping = {**least(table), key.name: value}
        (diagnostic,) = [found for found in read(table, mapping) if found.is_error]
        least_text = "greater than" if key.kind.above_low else "from"
        text = f"{key.name}` must be {least_text} {key.kind.low:g}"
        assert (diagnostic.code, text in diagnostic.message) == ("bad-value", True)
        assert not fits(table, mapping)


@pytest.mark.parametrize(("table", "key"), RANGED, ids=named)
def test_a_number_in_quotes_counts_as_a_number(table: Table[Any], key: Key) -> None:
    mapping = {**least(table), key.name: f"{sample(key.kind):g}"}
    assert [found for found in read(table, mapping) if found.is_error] == []
    assert fits(table, mapping)
    mapping = {**least(table), key.name: "soon"}
    (diagnostic,) = [found for found in read(table, mapping) if found.is_error]
    assert (diagnostic.code, "number" in diagnostic.message) == ("bad-type", True)
    assert not fits(table, mapping)


@pytest.mark.parametrize(("table", "key"), ROWS, ids=named)
def test_slips_of_the_schema_are_errors_of_the_compiler(table: Table[Any], key: Key) -> None:
    """A key that an editor marks never compiles: the schema isn't stricter than the compiler."""
    name = key.name
    if table.is_open or len(name) < 4:
        return
    slips = {name[:-1], f"{name}x", f"x{name}", f"{name[:1]}x{name[2:]}", f"{name[1]}{name[0]}{name[2:]}"}
    for slip in slips - {other.name for other in table.keys} - {name}:
        mapping = {**least(table), slip: 1}
        errors = [found for found in read(table, mapping) if found.is_error]
        assert [found.code for found in errors] == ["unknown-key"], slip
        assert not fits(table, mapping), slip


SET = [
    *((table.keys, table.plan) for table in ALL.values() if table.plan),
    *((STAGE_NODE.keys, StageNode), (PARALLEL_NODE.keys, ParallelNode), (BLOCK.keys, ParallelNode)),
    *((PIPELINE_NODE.keys, NestedNode), (PIPELINE_KEYS, PipelineInfo)),
]


@pytest.mark.parametrize(("keys", "part"), SET, ids=lambda one: getattr(one, "__name__", ""))
def test_keys_that_no_code_lowers_name_a_field_of_the_plan(keys: tuple[Key, ...], part: type[Any]) -> None:
    rows = [key for key in keys if key.field is not None]
    assert {key.field or key.name for key in rows} <= set(part.__struct_fields__)


CHANGED: dict[str, Any] = {
    "approve": {"message": "Good?"},
    "guardrails": {"max_runtime_seconds": 5},
    "limits": {"cycles": 2},
    "on": {"fail": "end"},
    "on_limit": {"do": "fail"},
    "result_instructions": False,
    "retry": {"max_attempts": 5},
    "tokens": {"total": 50_000},
}
"""Values that change the plan, where the smallest that fits doesn't."""
NEEDED: dict[str, dict[str, Any]] = {"freeze": {"artifact": {"type": "object"}}}
"""What a key doesn't go without."""
NOT_SHOWN = {"commands", "limits"}
"""Of the pipeline only, and where a route leads back."""


@pytest.mark.parametrize("key", [key for key in STAGE_NODE.keys if key.field is not None], ids=named)
def test_a_plain_key_of_a_node_is_in_the_plan_and_in_the_dry_run(key: Key) -> None:
    node = {"id": "n", "stage": "s", **NEEDED.get(key.name, {})}
    before, after = (
        plan(json.dumps({"nodes": [mapping]}))
        for mapping in (node, {**node, key.name: CHANGED.get(key.name, sample(key.kind))})
    )
    field = key.field or key.name
    assert getattr(before.only_stage, field) != getattr(after.only_stage, field)
    lines = [preview(one, RunLayout("/run", "s"), {"claude": ()}) for one in (before, after)]
    assert (lines[0] == lines[1]) == (key.name in NOT_SHOWN)


@pytest.mark.parametrize("table", ALL.values(), ids=named)
def test_a_key_that_is_like_no_other_fits_the_schema(table: Table[Any]) -> None:
    """Unless it may be a limit that would be ignored. Keys of the user are never reported."""
    mapping = {**least(table), "x-sandbox": 1, "x-name": 1}
    assert read(table, mapping) == ()
    assert fits(table, mapping)
    mapping["zzzzzz"] = 1
    assert any(found.is_error for found in read(table, mapping)) == table.is_closed
    assert fits(table, mapping) == (not table.is_closed)
