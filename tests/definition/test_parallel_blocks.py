"""Parallel blocks: providers as names and mappings, their models and settings, and what a block may hold."""

import msgspec
import pytest

from agentforge.definition.compiler import compile_pipeline
from agentforge.model.plan import Branch, Fixed, Overrides, ParallelNode, Plan, ProviderChoice

from .world import TextWorld, found, plan, stage, where

CODEX = "gpt-5.5"


def block(
    providers: str = "[claude, codex]", stages: str = "[{id: a, stage: s}]", more: str = "", *, top: str = ""
) -> str:
    head = f"{top}nodes:\n  - id: dual\n    parallel:\n"
    return f"{head}      providers: {providers}\n      stages: {stages}\n{more}"


def compiled_block(text: str, stage_yaml: str = "", **environment: str) -> ParallelNode:
    (node,) = plan(text, stage("s", stage_yaml), **environment).nodes
    assert isinstance(node, ParallelNode)
    return node


def choices(node: ParallelNode) -> dict[str, list[tuple[str, str]]]:
    """Provider and model of every stage, by branch."""
    return {
        branch.provider: [(s.provider.type, s.provider.model) for s in branch.stages]
        for branch in node.branches
    }


def test_plan_of_a_parallel_block() -> None:
    more = "      failure_mode: continue\n    description: D\n"
    text = block(stages="[{id: a, stage: s}, {name: b, prompt: hi, model: haiku, runs: 4}]", more=more)
    data = msgspec.json.decode(msgspec.json.encode(compiled_block(text, "description: S\n")))
    branches = data.pop("branches")
    shared = {"kind": "stage", "inputs": {}}
    assert data == {
        "kind": "parallel",
        "path": "0",
        "id": "dual",
        "providers": ["claude", "codex"],
        "stages": [
            {
                **shared,
                "path": "0.0",
                "id": "a",
                "stage": "s",
                "runs": 1,
                "termination": {"type": "fixed", "max": 1},
                "ref": "s",
                "description": "S",
                "prompt_path": ".claude/stages/s/prompt.md",
            },
            {
                **shared,
                "path": "0.1",
                "id": "b",
                "stage": "b",
                "runs": 4,
                "termination": {"type": "fixed", "max": 4},
                "prompt": "hi",
                "model": "haiku",
            },
        ],
        "inputs": {},
        "description": "D",
        "failure_mode": "continue",
    }
    assert [(branch["provider"], [s["path"] for s in branch["stages"]]) for branch in branches] == [
        ("claude", ["0.0", "0.1"]),
        ("codex", ["0.0", "0.1"]),
    ]


def test_a_plan_with_blocks_survives_its_own_json() -> None:
    providers = "[{name: claude, model: opus, inputs: {from_parallel: a}, deep: {x: [1]}}, codex]"
    text = block() + (
        f"  - id: second\n    parallel:\n      providers: {providers}\n"
        "      stages: [{id: b, prompt: hi, termination: {type: judgment, max: 3}}]\n"
    )
    written = plan(text)
    assert msgspec.json.decode(msgspec.json.encode(written), type=Plan) == written


def test_providers_as_strings_use_their_default_models() -> None:
    node = compiled_block(block(), "provider: codex\nmodel: special\n")
    assert choices(node) == {"claude": [("claude", "opus")], "codex": [("codex", CODEX)]}


def test_provider_model_override_of_the_object_format() -> None:
    node = compiled_block(
        block("[{name: claude, model: sonnet}, {type: codex, model: 'x:high'}]"), "model: mine\n"
    )
    assert choices(node) == {"claude": [("claude", "sonnet")], "codex": [("codex", "x:high")]}
    assert node.providers == ({"name": "claude", "model": "sonnet"}, {"type": "codex", "model": "x:high"})


def test_model_of_the_stage_in_the_block_wins_over_the_providers() -> None:
    text = block("[{name: claude, model: sonnet}]", "[{id: a, stage: s, model: haiku}, {id: b, stage: s}]")
    assert choices(compiled_block(text)) == {"claude": [("claude", "haiku"), ("claude", "sonnet")]}


def test_two_branches_of_one_provider_with_names_of_their_own() -> None:
    text = block("[{name: quick, type: anthropic, model: haiku}, {name: deep, type: claude}]")
    assert choices(compiled_block(text)) == {"quick": [("claude", "haiku")], "deep": [("claude", "opus")]}


def test_other_keys_of_a_provider_are_its_settings() -> None:
    text = block("[{name: command, argv: [sh], model: m}, mock]")
    first, second = compiled_block(text).branches
    assert first.stages[0].provider == ProviderChoice("command", "m", {"argv": ["sh"]})
    assert second.stages[0].provider == ProviderChoice("mock", "")


def test_settings_of_weaker_levels_count_for_the_provider_they_name() -> None:
    top = "defaults: {provider: {type: mock, fixtures: f, speed: 1}, model: never}\n"
    text = block("[{name: mock, speed: 2}, codex]", top=top)
    first, second = compiled_block(text).branches
    assert first.stages[0].provider == ProviderChoice("mock", "", {"fixtures": "f", "speed": 2})
    assert second.stages[0].provider == ProviderChoice("codex", CODEX)


def test_branches_are_whole_stages() -> None:
    text = block(
        stages="[{id: a, stage: s, runs: 3, timeout: 5, context: c, commands: {t: node}}]",
        top="commands: {t: top, u: top}\ndelay: 1\n",
    )
    for branch in compiled_block(text, "termination: {type: fixed, iterations: 9}\n").branches:
        (lowered,) = branch.stages
        assert (lowered.termination, lowered.timeout, lowered.delay) == (Fixed(3), 5, 1)
        assert (lowered.context, lowered.commands) == ("c", {"t": "node", "u": "top"})
        assert lowered.prompt_path == ".claude/stages/s/prompt.md"


class TestOverrides:
    """What the caller asks for changes what the stages get, never who runs in a block."""

    def compiled(self, overrides: Overrides) -> tuple[Branch, ...]:
        world = TextWorld({"p.yaml": block(), **stage()})
        compiled = compile_pipeline(world, "p.yaml", "x", overrides)
        self.warnings = compiled.warnings
        (node,) = compiled.plan.nodes
        assert isinstance(node, ParallelNode)
        return node.branches

    def test_provider_and_model_do_not_change_branches_and_warn(self) -> None:
        branches = self.compiled(Overrides(provider="mock", model="m"))
        assert [branch.stages[0].provider.type for branch in branches] == ["claude", "codex"]
        assert [(d.code, d.text, d.is_error) for d in self.warnings] == [
            ("block-keeps-providers", "--provider mock", False),
            ("block-keeps-providers", "--model m", False),
        ]

    def test_context_and_commands_reach_every_branch(self) -> None:
        branches = self.compiled(Overrides(context="c", commands={"t": "x"}))
        assert [(b.stages[0].context, b.stages[0].commands) for b in branches] == [("c", {"t": "x"})] * 2
        assert self.warnings == ()


@pytest.mark.parametrize(
    ("text", "expected", "word"),
    [
        (block("[]"), "missing-key 4:18", "no `providers`"),
        (block(""), "missing-key 4:7", "no `providers`"),
        (block("claude"), "bad-type 4:18", "must be a list"),
        (block("[[claude]]"), "bad-type 4:19", "a list"),
        (block("[{model: opus}]"), "missing-key 4:19", "no `name`"),
        (block("[{name: [x]}]"), "bad-type 4:26", "`name`"),
        (block("[claude, codex, claude]"), "duplicate-provider 4:34", "twice"),
        (block("[{name: claude, model: a}, {name: claude, model: b}]"), "duplicate-provider 4:52", "twice"),
        (block("[a/b]"), "bad-id 4:19", "directory"),
        (block(stages="[]"), "missing-key 5:15", "no `stages`"),
        (block(stages=""), "missing-key 5:7", "no `stages`"),
        (block(stages="{id: a}"), "bad-type 5:15", "must be a list"),
        (block(stages="[s]"), "bad-type 5:16", "stage of the block"),
        (block(stages="[{stage: s}]"), "missing-key 5:16", "stage 1 has no `id`"),
        (block(stages="[{id: a}]"), "missing-key 5:16", "stage `a` needs"),
        (block(stages="[{id: a, stage: s}, {id: a, stage: s}]"), "duplicate-id 5:40", "`a`"),
        (block(stages="[{id: a/b, stage: s}]"), "bad-id 5:21", "directory"),
        (block(stages="[{id: a, stage: z}]"), "unknown-stage 5:31", "no stage named"),
        (block(stages="[{id: a, stage: ../z}]"), "bad-value 5:31", "invalid stage name"),
        (block(stages="[{id: a, stage: s, runs: 0}]"), "bad-value 5:40", "`runs`"),
        (block(stages="[{id: a, parallel: {}}]"), "unsupported 5:24", "inside a parallel block"),
        (block(stages="[{id: a, pipeline: x}]"), "unsupported 5:24", "inside a parallel block"),
        (block(stages="[{id: a, stage: s, workspace: {}}]"), "unsupported 5:34", "workspace"),
        (block(more="      failure_mode: []\n"), "bad-type 6:21", "`failure_mode`"),
        (block(more="      failure: x\n"), "unknown-key 6:7", "`failure` in parallel"),
        (block(more="    sandbox: bwrap\n"), "unsupported 6:5", "sandbox"),
        (block(more="    semantics: at_most_once\n"), "unsupported 6:5", "semantics"),
        (block(more="    stage: s\n"), "conflict 6:5", "both `parallel` and `stage`"),
        (block(more="    pipeline: s\n"), "conflict 6:5", "both `parallel` and `pipeline`"),
        ("nodes: [{id: a, parallel: }]\n", "missing-key 1:17", "`parallel` is empty"),
        ("nodes: [{id: a, parallel: 3}]\n", "bad-type 1:27", "mapping"),
    ],
)
def test_shape_of_a_block(text: str, expected: str, word: str) -> None:
    (diagnostic,) = found(text)
    assert where(diagnostic) == expected
    assert word in diagnostic.message
    assert diagnostic.is_error


@pytest.mark.parametrize(
    ("text", "expected", "word"),
    [
        (block(more="      weight: x\n"), "unknown-key 6:7", "in parallel is ignored"),
        (block(more="    runs: 3\n"), "unknown-key 6:5", "in parallel node is ignored"),
        (block(stages="[{id: a, stage: s, zzz: 1}]"), "unknown-key 5:34", "stage of the block"),
        (block(stages="[{id: a, stage: s, provider: codex}]"), "ignored-key 5:44", "`provider` is ignored"),
    ],
)
def test_ignored_keys_of_a_block(text: str, expected: str, word: str) -> None:
    (diagnostic,) = found(text)
    assert where(diagnostic) == expected
    assert word in diagnostic.message
    assert not diagnostic.is_error


def test_providers_of_a_block_must_be_known() -> None:
    text = block("[claude, {name: mine, type: codx}, anthropic]")
    (diagnostic,) = found(text, known_providers=["claude", "codex"])
    assert where(diagnostic) == "unknown-provider 4:46"
    assert diagnostic.hint.startswith("did you mean `codex`?")
