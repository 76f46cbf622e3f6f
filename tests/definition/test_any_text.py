"""Whatever is written, compiling ends in a plan or in diagnostics with places, never in anything else."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import heavy

from agentforge.definition.compiler import Compiled, compile_pipeline, compile_stage
from agentforge.model.diagnostic import render
from agentforge.model.errors import DefinitionError
from agentforge.model.plan import Plan
from agentforge.model.plan_limits import plan_problem
from agentforge.views.prompt import PROMPT_VARIABLES
from agentforge.views.prompt import render as render_template

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
BLOCK_KEYS = (
    "parallel",
    "providers",
    "stages",
    "pipeline",
    "from_parallel",
    "block",
    "select",
    "check_before",
)
HOOK_KEYS = (
    "stage_end",
    "session_end",
    "action",
    "condition",
    "script",
    "url",
    "notify",
    "desktop",
    "command",
)
KEYS = (*PIPELINE_KEYS, *NODE_KEYS, *WORK_KEYS, *INNER_KEYS, *BLOCK_KEYS, *HOOK_KEYS, "<<", "zzz")

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(
        ["s", "fixed", "judgment", "claude", "pause", "script", "../x", "", "0", "-1", ".inf", "a/b"]
    ),
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
        lambda: compile_pipeline(world, text, "x"),
        lambda: compile_stage(world, "t", "x"),
    ):
        result = outcome(compile_it)
        if isinstance(result, Compiled):
            assert msgspec.json.decode(msgspec.json.encode(result.plan), type=Plan) == result.plan
            assert plan_problem(result.plan) == ""
            continue
        assert any(diagnostic.is_error for diagnostic in result.diagnostics)
        assert all(1 <= found.place.line <= lines and found.place.col >= 1 for found in result.diagnostics)
        assert render(result.diagnostics).encode()


@given(st.text(max_size=60) | yaml_bits)
def test_any_text_compiles_or_is_explained(text: str) -> None:
    compile_or_explain(text)


@heavy
@given(pipelines)
def test_any_yaml_compiles_or_is_explained(tree: dict[str, Any]) -> None:
    compile_or_explain(json.dumps(tree))


@heavy
@given(st.dictionaries(st.text(max_size=5), trees, max_size=4) | pipelines)
def test_any_mapping_compiles_or_is_explained(tree: dict[str, Any]) -> None:
    result = outcome(lambda: compile_pipeline(TextWorld(stage()), tree, "x"))
    assert isinstance(result, Compiled) or result.diagnostics


# Pipelines that are nearly right: every form of every kind of node, and few ids, so that references meet.
NODE_IDS, STAGE_IDS = ("a", "b", "c", "d"), ("s", "t")
ids = st.sampled_from((*NODE_IDS, *STAGE_IDS))
selects = st.sampled_from(["latest", "history", "all"])
names = st.sampled_from(["claude", "codex", "mine"])
refs = st.sampled_from(STAGE_IDS) | st.fixed_dictionaries(
    {"stage": st.sampled_from(STAGE_IDS)},
    optional={
        "block": st.sampled_from(NODE_IDS),
        "select": selects,
        "providers": st.lists(names, max_size=2),
    },
)
inputs = st.fixed_dictionaries({}, optional={"from": ids, "select": selects, "from_initial": st.just(True)})
block_inputs = st.fixed_dictionaries({"from_parallel": refs | st.lists(refs, max_size=2)})
terminations = st.fixed_dictionaries(
    {"type": st.sampled_from(["fixed", "judgment", "queue"])},
    optional={"max": st.integers(1, 3), "consensus": st.integers(1, 3), "min_iterations": st.integers(0, 3)},
)
stage_nodes = st.fixed_dictionaries(
    {"prompt": st.just("x")},
    optional={
        "stage": st.just("s"),
        "inputs": inputs | block_inputs,
        "runs": st.integers(0, 3) | terminations,
        "completion": st.sampled_from(["plateau", "beads-empty", "fixed-n"]),
        "model": names,
        "check_before": st.booleans(),
    },
)
providers = names | st.fixed_dictionaries(
    {"name": names}, optional={"type": names, "model": names, "inputs": inputs, "x": st.integers(0, 9)}
)


def numbered(nodes: list[dict[str, Any]], among: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{"id": node_id, **node} for node_id, node in zip(among, nodes, strict=False)]


block_nodes = st.builds(
    lambda providers, stages, more: {
        "parallel": {"providers": providers, "stages": numbered(stages, STAGE_IDS)},
        **more,
    },
    st.lists(providers, min_size=1, max_size=3, unique_by=str),
    st.lists(stage_nodes, min_size=1, max_size=2),
    st.fixed_dictionaries({}, optional={"inputs": inputs, "description": names}),
)
pipeline_nodes = st.fixed_dictionaries(
    {"pipeline": st.sampled_from(["q.yaml"] * 9 + ["p.yaml", "r"])},
    optional={"runs": st.integers(1, 3), "inputs": inputs},
)
flat_lists = st.lists(stage_nodes | block_nodes, min_size=1, max_size=4)
node_lists = st.lists(stage_nodes | block_nodes | pipeline_nodes, min_size=1, max_size=4)


@heavy
@given(node_lists, flat_lists, st.sampled_from([1, 1, 2, 3, 0]))
def test_any_combination_of_nodes_compiles_or_is_explained(
    first: list[Any], second: list[Any], passes: int
) -> None:
    texts = [json.dumps({"nodes": numbered(nodes, NODE_IDS)}) for nodes in (first, second)]
    world = TextWorld({"p.yaml": texts[0], "q.yaml": texts[1], **stage()})
    result = outcome(lambda: compile_pipeline(world, "p.yaml", "x", passes=passes))
    if isinstance(result, DefinitionError):
        assert any(diagnostic.is_error for diagnostic in result.diagnostics)
        return
    plan = result.plan
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


@given(
    st.lists(st.sampled_from([f"${{{name}}}" for name in PROMPT_VARIABLES]) | st.text(max_size=6)), st.text()
)
def test_templates_replace_exactly_the_placeholders(parts: list[str], value: str) -> None:
    known = {f"${{{name}}}" for name in PROMPT_VARIABLES}
    # Texts that could join with their neighbours into a placeholder would blur what is expected.
    parts = [part for part in parts if part in known or not set(part) & set("${}")]
    expected = "".join(value if part in known else part for part in parts)
    assert render_template("".join(parts), dict.fromkeys(PROMPT_VARIABLES, value)) == expected
