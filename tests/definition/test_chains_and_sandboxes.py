"""Lists of providers, what happens at limits, how often work is done, and what confines it, in the plan."""

import pytest

from agentforge.definition.compiler import compile_pipeline
from agentforge.model.plan import LimitPolicy, Overrides, ProviderChoice, SandboxChoice

from .world import TextWorld, found, only_node, stage

HEAD = "name: p\nnodes:\n  - id: n\n    stage: s\n"


def node(*lines: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines)


def test_provider_may_be_a_list_whose_next_takes_over() -> None:
    chosen = only_node(
        node("provider: [claude, {type: codex, model: gpt-5.2-codex, timeout: 60}, api]", "model: sonnet")
    )
    assert chosen.provider == ProviderChoice("claude", "sonnet")
    assert chosen.fallbacks == (
        ProviderChoice("codex", "gpt-5.2-codex", {"timeout": 60}),
        ProviderChoice("api", ""),
    )
    assert chosen.chain == (chosen.provider, *chosen.fallbacks)


def test_aliases_and_default_models_hold_in_a_list() -> None:
    chosen = only_node(node("provider: [openai, anthropic]"))
    assert [choice.type for choice in chosen.chain] == ["codex", "claude"]
    assert chosen.chain[1].model == "opus"


@pytest.mark.parametrize(
    ("pipeline", "stage_yaml", "own", "expected"),
    [
        ("[claude, codex]", "", "", ["claude", "codex"]),
        ("[claude, codex]", "", "provider: api", ["api"]),
        ("[claude, codex]", "", "provider: claude", ["claude"]),
        ("[claude, codex]", "provider: [codex, api]", "", ["codex", "api"]),
        ("claude", "provider: [codex, api]", "provider: [api, claude]", ["api", "claude"]),
        ("[claude, codex]", "", "model: haiku", ["claude", "codex"]),
    ],
)
def test_strongest_level_that_names_a_provider_gives_the_whole_list(
    pipeline: str, stage_yaml: str, own: str, expected: list[str]
) -> None:
    text = f"provider: {pipeline}\n" + node(*([own] if own else []))
    chosen = only_node(text, stage(body=f"{stage_yaml}\n"))
    assert [choice.type for choice in chosen.chain] == expected


def test_provider_from_the_command_line_or_environment_is_not_a_list() -> None:
    text = node("provider: [claude, codex]")
    assert only_node(text, CLAUDE_PIPELINE_PROVIDER="api").fallbacks == ()
    world = TextWorld({"p.yaml": text, **stage()})
    asked = compile_pipeline(world, "p.yaml", "session", Overrides(provider="mock"))
    assert asked.plan.only_stage.fallbacks == ()


def test_every_provider_of_a_list_must_be_known() -> None:
    (diagnostic,) = found(node("provider: [claude, codexx]"), known_providers=["claude", "codex"])
    assert (diagnostic.code, diagnostic.place.line, diagnostic.place.col) == ("unknown-provider", 5, 24)
    assert "codex" in diagnostic.hint


def test_plan_names_all_providers_that_a_run_may_need() -> None:
    world = TextWorld({"p.yaml": node("provider: [claude, codex]"), **stage()})
    assert compile_pipeline(world, "p.yaml", "session").plan.providers() == {"claude", "codex"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("on_limit: wait", LimitPolicy("wait")),
        ("on_limit: fail", LimitPolicy("fail")),
        ("on_limit: {do: next, max_wait: 60}", LimitPolicy("next", max_wait=60)),
        ("on_limit: {initial_delay: 1, max_delay: 2}", LimitPolicy(initial_delay=1, max_delay=2)),
    ],
)
def test_limit_policy_is_in_the_plan(line: str, expected: LimitPolicy) -> None:
    assert only_node(node(line)).on_limit == expected


def test_limits_merge_key_by_key_over_the_levels() -> None:
    text = "on_limit: {do: wait, max_wait: 60}\n" + node("on_limit: {max_wait: 10}")
    assert only_node(text).on_limit == LimitPolicy("wait", max_wait=10)


def test_semantics_default_to_at_least_once() -> None:
    assert only_node(HEAD).semantics == "at_least_once"
    assert only_node("semantics: at_most_once\n" + HEAD).semantics == "at_most_once"
    weaker = "semantics: at_most_once\n" + node("semantics: at_least_once")
    assert only_node(weaker).semantics == "at_least_once"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sandbox: none", SandboxChoice()),
        ("sandbox: bwrap", SandboxChoice("bwrap")),
        ("sandbox: {type: bwrap, network: off}", SandboxChoice("bwrap", network=False)),
        ("sandbox: {type: bwrap, network: true}", SandboxChoice("bwrap")),
        ("sandbox: {type: auto, network: on}", SandboxChoice("auto")),
        (
            "sandbox: {type: docker, image: 'python:3.12', writable: [/cache], hidden: secrets}",
            SandboxChoice("docker", image="python:3.12", writable=("/cache",), hidden=("secrets",)),
        ),
    ],
)
def test_sandbox_is_in_the_plan(line: str, expected: SandboxChoice) -> None:
    assert only_node(node(line)).sandbox == expected


def test_sandbox_of_the_strongest_level_counts_as_a_whole() -> None:
    text = "sandbox: {type: bwrap, network: off}\n" + node("sandbox: bwrap")
    assert only_node(text).sandbox == SandboxChoice("bwrap")
    assert only_node("sandbox: bwrap\n" + HEAD).sandbox == SandboxChoice("bwrap")


@pytest.mark.parametrize("kind", ["none", "auto"])
def test_what_only_a_sandbox_can_enforce_needs_one(kind: str) -> None:
    diagnostics = found(node(f"sandbox: {{type: {kind}, network: off, hidden: .env}}"))
    assert [one.code for one in diagnostics] == ["bad-value"] * 2
    for key, one in zip(("network: off", "hidden"), diagnostics, strict=True):
        assert f"`{key}` requires a sandbox" in one.message
        assert ("`auto` may find none" in one.message) is (kind == "auto")
        assert one.hint == "use `type: bwrap` or `type: docker`"


def test_image_of_another_sandbox_is_a_warning() -> None:
    (diagnostic,) = found(node("sandbox: {type: bwrap, image: x}"))
    assert diagnostic.code == "ignored-key"
    assert not diagnostic.is_error
