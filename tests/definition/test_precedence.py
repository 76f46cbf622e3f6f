"""Who wins: caller, environment, node, stage, pipeline, default; key by key where things merge."""

import pytest

from agentforge.definition.compiler import compile_pipeline, compile_stage
from agentforge.definition.machine import Machine
from agentforge.model.errors import DefinitionError
from agentforge.model.plan import Guardrails, Limits, Overrides, RetryPolicy, StageNode
from agentforge.model.spending import Amount

from .world import TextWorld, only_node, stage


def node_of(
    *,
    pipeline: str = "",
    node: str = "",
    stage_yaml: str = "",
    overrides: Overrides | None = None,
    **environment: str,
) -> StageNode:
    text = f"{pipeline}nodes:\n  - id: n\n    stage: s\n{node}"
    world = TextWorld({"p.yaml": text, **stage("s", stage_yaml)}, **environment)
    (found,) = compile_pipeline(world, "p.yaml", "x", overrides or Overrides()).plan.nodes
    return found


def test_caps_of_the_caller_count_in_place_of_those_of_the_pipeline() -> None:
    world = TextWorld(
        {"p.yaml": "limits: {cost_usd: 9, tokens: 9, cycles: 2}\nnodes: [{id: n, prompt: x}]\n"}
    )
    given = Overrides(caps=Amount(cost_usd=20.0))
    plan = compile_pipeline(world, "p.yaml", "x", given).plan
    assert plan.pipeline.limits == Limits(cycles=2, cost_usd=20.0, tokens=9)
    assert compile_pipeline(world, "p.yaml", "x").plan.pipeline.limits == Limits(2, cost_usd=9.0, tokens=9)


LEVELS = ["caller", "carried", "environment", "node", "stage", "top", "defaults"]


@pytest.mark.parametrize("strongest", range(len(LEVELS) + 1))
def test_provider_and_model_precedence(strongest: int) -> None:
    """Each level says its own provider and model; those stronger than the one in question are silent."""
    says = LEVELS[strongest:]
    environment: dict[str, str] = {}
    if "carried" in says:
        environment |= {"PIPELINE_CLI_PROVIDER": "carried", "PIPELINE_CLI_MODEL": "m-carried"}
    if "environment" in says:
        environment |= {"CLAUDE_PIPELINE_PROVIDER": "environment", "CLAUDE_PIPELINE_MODEL": "m-environment"}
    node = node_of(
        pipeline="".join(
            [
                "provider: top\nmodel: m-top\n" if "top" in says else "",
                "defaults: {provider: defaults, model: m-defaults}\n" if "defaults" in says else "",
            ]
        ),
        node="    provider: node\n    model: m-node\n" if "node" in says else "",
        stage_yaml="provider: stage\nmodel: m-stage\n" if "stage" in says else "",
        overrides=Overrides(provider="caller", model="m-caller") if "caller" in says else None,
        **environment,
    )
    expected = (says[0], f"m-{says[0]}") if says else ("claude", "opus")
    assert (node.provider.type, node.provider.model) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("claude", ("claude", "opus")),
        ("claude-code", ("claude", "opus")),
        ("anthropic", ("claude", "opus")),
        ("codex", ("codex", "gpt-5.5")),
        ("openai", ("codex", "gpt-5.5")),
        ("mock", ("mock", "")),
        ("gemini", ("gemini", "")),
    ],
)
def test_provider_aliases_and_default_models(written: str, expected: tuple[str, str]) -> None:
    chosen = node_of(node=f"    provider: {written}\n").provider
    assert (chosen.type, chosen.model) == expected


def test_model_alone_keeps_the_provider_of_a_weaker_level() -> None:
    chosen = node_of(stage_yaml="provider: codex\n", overrides=Overrides(model="gpt-5-codex")).provider
    assert (chosen.type, chosen.model) == ("codex", "gpt-5-codex")


def test_model_of_another_provider_is_dropped() -> None:
    chosen = node_of(stage_yaml="model: sonnet\n", overrides=Overrides(provider="codex")).provider
    assert (chosen.type, chosen.model) == ("codex", "gpt-5.5")


def test_model_stays_when_a_stronger_level_names_the_same_provider() -> None:
    chosen = node_of(pipeline="model: haiku\n", node="    provider: anthropic\n").provider
    assert (chosen.type, chosen.model) == ("claude", "haiku")


class TestProviderConfig:
    def test_mapping_form_carries_everything_but_type_and_model(self) -> None:
        text = "    provider: {type: command, argv: [sh, -c, 'exit 0'], model: m, env: {A: 1}, fast: true}\n"
        chosen = node_of(node=text).provider
        assert (chosen.type, chosen.model) == ("command", "m")
        assert chosen.config == {"argv": ["sh", "-c", "exit 0"], "env": {"A": 1}, "fast": True}

    def test_name_serves_as_type(self) -> None:
        assert node_of(node="    provider: {name: replay, cassette: c.json}\n").provider.type == "replay"

    def test_sibling_mapping(self) -> None:
        chosen = node_of(
            node="    provider: replay\n    provider_config: {cassette: tapes/a.json}\n"
        ).provider
        assert chosen.config == {"cassette": "tapes/a.json"}

    def test_settings_merge_key_by_key_for_the_same_provider(self) -> None:
        chosen = node_of(
            pipeline="provider: {type: command, argv: [a], cwd: x}\n",
            stage_yaml="provider_config: {argv: [b], keep: 1}\n",
            node="    provider: {type: command, keep: 2}\n",
            overrides=Overrides(provider="command"),
        ).provider
        assert chosen.config == {"argv": ["b"], "cwd": "x", "keep": 2}

    def test_settings_of_another_provider_are_dropped(self) -> None:
        chosen = node_of(
            stage_yaml="provider: {type: command, argv: [a]}\n", overrides=Overrides(provider="mock")
        ).provider
        assert (chosen.type, chosen.config) == ("mock", {})

    def test_model_beside_the_mapping_wins_over_the_one_inside(self) -> None:
        chosen = node_of(node="    provider: {type: mock, model: inner}\n    model: outer\n").provider
        assert chosen.model == "outer"


def test_mock_mode_does_not_change_the_plan() -> None:
    assert node_of(MOCK_MODE="true").provider == node_of().provider


CONTEXTS = ["caller", "carried", "environment", "node", "stage"]


@pytest.mark.parametrize("strongest", range(len(CONTEXTS) + 1))
def test_context_precedence(strongest: int) -> None:
    says = CONTEXTS[strongest:]
    environment = {"PIPELINE_CLI_CONTEXT": "carried"} if "carried" in says else {}
    if "environment" in says:
        environment["CLAUDE_PIPELINE_CONTEXT"] = "environment"
    node = node_of(
        node="    context: node\n" if "node" in says else "",
        stage_yaml="context: stage\n" if "stage" in says else "",
        overrides=Overrides(context="caller") if "caller" in says else None,
        **environment,
    )
    assert node.context == (says[0] if says else None)


def test_empty_context_of_the_caller_counts() -> None:
    assert node_of(node="    context: node\n", overrides=Overrides(context="")).context == ""


def test_commands_precedence_is_key_based() -> None:
    node = node_of(
        pipeline="commands: {a: pipeline, b: pipeline, c: pipeline, d: pipeline}\n",
        stage_yaml="commands: {b: stage, c: stage, d: stage}\n",
        node="    commands: {c: node, d: node}\n",
        overrides=Overrides(commands={"d": "caller", "e": "caller"}),
    )
    assert node.commands == {"a": "pipeline", "b": "stage", "c": "node", "d": "caller", "e": "caller"}


@pytest.mark.parametrize("key", ["delay", "timeout", "idle_timeout"])
def test_seconds_precedence(key: str) -> None:
    pipeline, stage_yaml, node = f"{key}: 2\ndefaults: {{{key}: 1}}\n", f"{key}: 3\n", f"    {key}: 4.5\n"
    assert getattr(node_of(pipeline=pipeline, stage_yaml=stage_yaml, node=node), key) == 4.5
    assert getattr(node_of(pipeline=pipeline, stage_yaml=stage_yaml), key) == 3
    assert getattr(node_of(pipeline=pipeline), key) == 2
    assert getattr(node_of(pipeline=f"defaults: {{{key}: 1}}\n"), key) == 1
    assert getattr(node_of(), key) is None


def test_delay_zero_counts_as_set() -> None:
    assert node_of(stage_yaml="delay: 3\n", node="    delay: 0\n").delay == 0


def test_retry_merges_key_by_key_over_the_defaults() -> None:
    node = node_of(
        pipeline="retry: {max_attempts: 9, max_delay: 60, for: any, exhausted: ask}\n",
        stage_yaml="retry: {max_attempts: 5, initial_delay: 1, stage: 2, exhausted: fail}\n",
        node="    retry: {max_attempts: 3}\n",
    )
    assert node.retry == RetryPolicy(3, 1.0, 2.0, 60.0, stage=2, retried="any", exhausted="fail")
    assert node_of().retry is None


def test_guardrails_of_node_stage_and_pipeline() -> None:
    limit = "guardrails: {max_runtime_seconds: %d}\n"
    assert node_of(stage_yaml=limit % 5).guardrails == Guardrails(5)
    assert node_of(stage_yaml=limit % 5, node="    " + limit % 9).guardrails == Guardrails(9)
    assert node_of(pipeline=limit % 7).guardrails is None


def test_description_and_output_path_of_the_node_win() -> None:
    node = node_of(
        stage_yaml="description: theirs\noutput_path: a-${SESSION}.md\n",
        node="    description: mine\n    output_path: b-${SESSION}.md\n",
    )
    assert (node.description, node.output_path) == ("mine", "b-${SESSION}.md")
    assert node_of(stage_yaml="output_path: a-${SESSION}.md\n").output_path == "a-${SESSION}.md"
    assert node_of(stage_yaml="output_path: ./a/../b//c.md\n").output_path == "./a/../b//c.md"


@pytest.mark.parametrize(
    ("stage_yaml", "node", "expected"),
    [
        ("", "", 1),
        ("termination: {type: fixed}\n", "", 1),
        ("termination: {type: fixed, iterations: 4}\n", "", 4),
        ("termination: {type: fixed, max: 7}\n", "", 7),
        ("termination: {iterations: 4, max: 7}\n", "", 7),
        ("runs: 6\n", "", 6),
        ("runs: {max: 6}\n", "", 6),
        ("completion: fixed-n\nmin_iterations: 3\n", "", 1),
        ("", "runs: 3", 3),
        ("", 'runs: "6"', 6),
        ("", "termination: {iterations: '5'}", 5),
        ("termination: {type: fixed, iterations: 4}\n", "runs: 3", 3),
        ("termination: {type: fixed, max: 7}\n", "runs: 3", 3),
        ("termination: {type: fixed, max: 7}\n", "termination: {iterations: 2}", 2),
        ("runs: 6\n", "termination: {type: fixed}", 6),
        ("", "runs: 9\n    termination: {type: fixed, iterations: 2}", 2),
        ("termination: {type: judgment, max: 5}\n", "termination: {type: fixed}", 5),
        ("termination: {type: judgment, iterations: 5}\n", "termination: {type: fixed}", 5),
        ("termination: {iterations: 5}\n", "termination: {type: fixed}", 5),
    ],
)
def test_fixed_termination_iterations(stage_yaml: str, node: str, expected: int) -> None:
    found = node_of(stage_yaml=stage_yaml, node=f"    {node}\n")
    assert (found.runs, found.termination.max, found.termination.iterations) == (expected, expected, None)


@pytest.mark.parametrize(
    ("stage_yaml", "given", "expected"),
    [
        ("", None, 25),
        ("", 3, 3),
        ("termination: {type: fixed, iterations: 4}\n", None, 4),
        ("termination: {type: fixed, iterations: 4}\n", 9, 9),
        ("runs: 6\n", None, 6),
    ],
)
def test_loop_maximum(stage_yaml: str, given: int | None, expected: int) -> None:
    (node,) = compile_stage(
        TextWorld(stage("s", stage_yaml)), "s", "x", Overrides(max_iterations=given)
    ).plan.nodes
    assert (node.runs, node.termination.max) == (expected, expected)


def test_both_loop_and_pipeline_obey_the_environment() -> None:
    world = TextWorld(
        stage("s", "model: sonnet\n"), CLAUDE_PIPELINE_MODEL="haiku", CLAUDE_PIPELINE_CONTEXT="c"
    )
    (node,) = compile_stage(world, "s", "x").plan.nodes
    assert (node.provider.model, node.context) == ("haiku", "c")
    node = only_node(
        "nodes: [{id: n, stage: s}]\n", CLAUDE_PIPELINE_MODEL="haiku", CLAUDE_PIPELINE_CONTEXT="c"
    )
    assert (node.provider.model, node.context) == ("haiku", "c")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ("claude", "haiku")),
        ({"JUDGE_MODEL": "sonnet"}, ("claude", "sonnet")),
        ({"JUDGE_PROVIDER": "openai"}, ("codex", "gpt-5.5")),
        ({"JUDGE_PROVIDER": "codex", "JUDGE_MODEL": "small"}, ("codex", "small")),
        ({"JUDGE_PROVIDER": "mine"}, ("mine", "")),
    ],
)
def test_judge_is_chosen_by_the_environment(environment: dict[str, str], expected: tuple[str, str]) -> None:
    world = TextWorld(stage("s", ""), **environment)
    judge = compile_stage(world, "s", "x").plan.judge
    assert (judge.type, judge.model) == expected


def test_unknown_judge_is_refused() -> None:
    world = TextWorld(stage("s", ""), JUDGE_PROVIDER="nosuch")
    with pytest.raises(DefinitionError) as caught:
        compile_stage(world, "s", "x", machine=Machine(known_providers=["claude"]))
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("unknown-provider", "no provider named `nosuch`")
