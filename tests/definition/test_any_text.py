"""Whatever is written, compiling ends in a plan or in diagnostics with places, never in anything else."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge.definition.compiler import Compiled, compile_pipeline, compile_stage, compile_text
from agentforge.definition.diagnostics import render
from agentforge.definition.template import VARIABLES
from agentforge.definition.template import render as render_template
from agentforge.model.errors import DefinitionError
from agentforge.model.plan import Plan

from .world import TextWorld, stage

PIPELINE_KEYS = ("name", "description", "nodes", "stages", "defaults", "inputs", "commands", "tmux", "hooks")
NODE_KEYS = ("id", "stage", "loop", "prompt", "runs", "termination", "completion", "context", "output_path")
WORK_KEYS = (
    "provider",
    "provider_config",
    "model",
    "delay",
    "timeout",
    "idle_timeout",
    "retry",
    "guardrails",
)
INNER_KEYS = ("type", "max", "iterations", "max_attempts", "multiplier", "guardrails", "from", "on")
KEYS = (*PIPELINE_KEYS, *NODE_KEYS, *WORK_KEYS, *INNER_KEYS, "<<", "zzz")

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["s", "fixed", "judgment", "claude", "../x", "", "0", "-1", ".inf", "a/b"]),
    st.text(max_size=8),
)
trees: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)
nodes = st.lists(st.dictionaries(st.sampled_from(KEYS), trees, max_size=6), max_size=3)
pipelines = st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, trees) | {"nodes": nodes})
MARKS = (": ", "- ", "\n", "  ", "[", "]", "{", "}", "'", '"', "|", ">", "#", "?", ",", "\t", "a")
SYNTAX = (*MARKS, "&x ", "*x", "!!int ", "---\n", "%YAML 1.2\n", "<<")
HOSTILE = ("nodes:", "id: n", "stage: s", "\ufeff", "\udcff", "\x00", "\\ud800")
yaml_bits = st.lists(st.sampled_from((*SYNTAX, *HOSTILE)), max_size=30).map("".join)


def outcome(compile_it: Callable[[], Compiled]) -> Compiled | DefinitionError:
    try:
        return compile_it()
    except DefinitionError as error:
        return error


def compile_or_explain(text: str) -> None:
    """The oracle: a plan that survives JSON, or at least one error, each with a place inside the text."""
    world = TextWorld({"p.yaml": text, ".claude/stages/t/stage.yaml": text, **stage()})
    lines = text.count("\n") + sum(map(text.count, "\r\x85\u2028\u2029")) + 2
    for compile_it in (
        lambda: compile_pipeline(world, "p.yaml", "x"),
        lambda: compile_text(world, text, "x"),
        lambda: compile_stage(world, "t", "x"),
    ):
        result = outcome(compile_it)
        if isinstance(result, Compiled):
            assert msgspec.json.decode(msgspec.json.encode(result.plan), type=Plan) == result.plan
            continue
        assert any(diagnostic.is_error for diagnostic in result.diagnostics)
        assert all(1 <= found.place.line <= lines and found.place.col >= 1 for found in result.diagnostics)
        assert render(result.diagnostics).encode()


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60) | yaml_bits)
def test_any_text_compiles_or_is_explained(text: str) -> None:
    compile_or_explain(text)


@settings(max_examples=300, deadline=None)
@given(pipelines)
def test_any_yaml_compiles_or_is_explained(tree: dict[str, Any]) -> None:
    compile_or_explain(json.dumps(tree))


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(max_size=5), trees, max_size=4) | pipelines)
def test_any_mapping_compiles_or_is_explained(tree: dict[str, Any]) -> None:
    result = outcome(lambda: compile_text(TextWorld(stage()), tree, "x"))
    assert isinstance(result, Compiled) or result.diagnostics


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([f"${{{name}}}" for name in VARIABLES]) | st.text(max_size=6)), st.text())
def test_templates_replace_exactly_the_placeholders(parts: list[str], value: str) -> None:
    known = {f"${{{name}}}" for name in VARIABLES}
    # Texts that could join with their neighbours into a placeholder would blur what is expected.
    parts = [part for part in parts if part in known or not set(part) & set("${}")]
    expected = "".join(value if part in known else part for part in parts)
    assert render_template("".join(parts), dict.fromkeys(VARIABLES, value)) == expected
