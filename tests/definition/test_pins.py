"""Files that a plan names become part of it: prompts, schemas, the judge's template, the targets of links."""

import json
from typing import Any

import pytest
from tests.definition.world import BUILTIN, PROJECT, TextWorld, stage

from agentforge.definition.compiler import compile_pipeline
from agentforge.definition.lower import pinned_text
from agentforge.model.errors import DefinitionError
from agentforge.model.plan import NestedNode, ParallelNode, Plan, StageNode

JUDGED = "nodes: [{id: a, prompt: hi, termination: {type: judgment, max: 3}}]\n"
HOME = "/home/me"
OWN = f"{HOME}/.config/agent-pipelines/prompts/judge.md"
BUILT_IN = f"{BUILTIN}/prompts/judge.md"


def compiled(text: str, files: dict[str, str] | None = None, **environment: str) -> Plan:
    world = TextWorld({"p.yaml": text, **stage(), **(files or {})}, **environment)
    return compile_pipeline(world, "p.yaml", "session").plan


def only(plan: Plan) -> StageNode:
    node = plan.nodes[0]
    assert isinstance(node, StageNode)
    return node


def test_a_plan_has_the_text_of_its_prompts() -> None:
    node = only(compiled("nodes: [{id: a, stage: s}]\n"))
    assert (node.prompt, node.prompt_path) == ("do it", ".claude/stages/s/prompt.md")


def test_bytes_that_are_not_text_are_replaced() -> None:
    node = only(compiled("nodes: [{id: a, stage: s}]\n", {".claude/stages/s/prompt.md": "a\udcffb"}))
    assert node.prompt == "a\ufffdb"
    assert pinned_text("gone.md", TextWorld()) is None


def test_prompts_of_blocks_and_nested_pipelines() -> None:
    plan = compiled(
        "nodes:\n"
        "  - id: both\n    parallel: {providers: [claude, codex], stages: [{id: a, stage: s}]}\n"
        "  - {id: inner, pipeline: inner}\n",
        {"inner.yaml": "nodes: [{id: b, stage: s}]\n"},
    )
    block, nested = plan.nodes
    assert isinstance(block, ParallelNode)
    assert [stage.prompt for branch in block.branches for stage in branch.stages] == ["do it"] * 2
    # The format of agent-pipelines names the file only.
    assert block.stages[0]["prompt_path"] == ".claude/stages/s/prompt.md"
    assert "prompt" not in block.stages[0]
    assert isinstance(nested, NestedNode)
    assert only(nested.plan).prompt == "do it"


# -- schemas


@pytest.mark.parametrize(
    ("content", "pinned"),
    [('{"type": "object"}', {"type": "object"}), ("nonsense", "s.json"), ("[]", "s.json"), (None, "s.json")],
)
def test_a_schema_in_a_file_is_read(content: str | None, pinned: Any) -> None:
    provider = {"type": "api", "schema": "s.json"}
    text = json.dumps({"nodes": [{"id": "a", "prompt": "x", "provider": [provider, "claude"]}]})
    node = only(compiled(text, {"s.json": content} if content is not None else {}))
    assert node.provider.config["schema"] == pinned
    assert node.fallbacks[0].config == {}


def test_the_file_of_a_schema_is_noted() -> None:
    places = {
        "schemas/s.json": "schemas/s.json",
        "/elsewhere/s.json": "/elsewhere/s.json",
        "~/s.json": "/me/s.json",
    }
    for written, place in places.items():
        provider = {"type": "api", "schema": written}
        files = {place: '{"type": "object"}'}
        pipeline = json.dumps({"nodes": [{"id": "n", "prompt": "x", "provider": provider}]})
        node = only(compiled(pipeline, files, HOME="/me"))
        assert node.provider.config["schema"] == {"type": "object"}
        assert node.provider.schema_path is not None
        assert node.provider.schema_path.endswith(place.removeprefix("/"))


def test_a_schema_in_the_stage_stays() -> None:
    provider = {"type": "api", "schema": {"type": "string"}}
    node = only(compiled(json.dumps({"nodes": [{"id": "a", "prompt": "x", "provider": provider}]})))
    assert node.provider.config["schema"] == {"type": "string"}


# -- the judge


@pytest.mark.parametrize(
    ("files", "named", "expected"),
    [
        ({"mine.md": "mine", OWN: "own", BUILT_IN: "built in"}, "mine.md", "mine"),
        ({OWN: "own", BUILT_IN: "built in"}, "", "own"),
        ({BUILT_IN: "built in", "scripts/prompts/judge.md": "of the project"}, "", "built in"),
        ({}, "", ""),
    ],
)
def test_the_template_of_the_judge(files: dict[str, str], named: str, expected: str) -> None:
    assert compiled(JUDGED, files, HOME=HOME, JUDGE_PROMPT_PATH=named).judge_prompt == expected


def test_a_named_template_that_is_missing_is_an_error() -> None:
    with pytest.raises(DefinitionError, match=r"JUDGE_PROMPT_PATH must name a readable file, got `mine\.md`"):
        compiled(JUDGED, {BUILT_IN: "built in"}, JUDGE_PROMPT_PATH="mine.md")


def test_without_a_home_or_a_variable_the_template_is_the_built_in_one() -> None:
    assert compiled(JUDGED, {BUILT_IN: "built in"}).judge_prompt == "built in"


def test_a_plan_without_a_judge_has_no_template() -> None:
    assert compiled("nodes: [{id: a, stage: s}]\n", {BUILT_IN: "built in"}).judge_prompt == ""


# -- sandboxes


def test_where_the_paths_of_a_sandbox_lead() -> None:
    text = (
        "nodes: [{id: a, prompt: x, sandbox: {type: bwrap, writable: [cache, new, ~/x, '~'], "
        "hidden: [vault, config/keys]}}]\n"
    )
    world = TextWorld({"p.yaml": text, "vault/key": "1", "real/keys": "2", "/mnt/cache/x": ""})
    world.links = {f"{PROJECT}/config/keys": f"{PROJECT}/real/keys", f"{PROJECT}/cache": "/mnt/cache"}
    sandbox = only(compile_pipeline(world, "p.yaml", "s").plan).sandbox
    assert sandbox is not None
    assert dict(sandbox.resolved) == {"cache": "/mnt/cache", "vault": "vault", "config/keys": "real/keys"}


# -- providers


@pytest.mark.parametrize("suffix", [".yaml", ".yml"])
def test_a_plan_has_the_descriptions_of_its_providers(suffix: str) -> None:
    files = {f".agentforge/providers/mine{suffix}": "program: x\n", ".agentforge/providers/other.yaml": "y"}
    text = "nodes: [{id: a, prompt: x, provider: mine}, {id: b, prompt: x, provider: a/b}]\n"
    assert compiled(text, files).descriptions == {"mine": "program: x\n"}


def test_a_plan_has_the_description_of_its_judge() -> None:
    files = {".agentforge/providers/strict.yaml": "program: x\n"}
    assert compiled(JUDGED, files, JUDGE_PROVIDER="strict").descriptions == {"strict": "program: x\n"}
    text = "nodes: [{id: a, prompt: x}]\n"
    assert compiled(text, files, JUDGE_PROVIDER="strict").descriptions == {}
