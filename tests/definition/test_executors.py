"""Stages that Python code runs: the key `executor`, and those of the calling program."""

import json
from typing import Any

import pytest

from agentforge.definition.compiler import compile_pipeline, compile_stage
from agentforge.definition.machine import Machine
from agentforge.model.artifact import ArtifactRule
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Overrides, Plan, ProviderChoice, RetryPolicy, StageNode
from agentforge.model.state import RunSettings
from agentforge.views.execution import execution_lines, executions
from agentforge.views.lines.dry_run import preview

from .world import TextWorld, found, only_node, plan, stage, where

LINT = ProviderChoice("python", "", {"class": "tools.stages:Lint", "config": {}})
OWN = "nodes:\n  - id: lint\n    executor: {python: tools.stages:Lint}\n"
BY_ID = Overrides(executors=("lint",))


def folder(stage_yaml: str) -> dict[str, str]:
    return {".claude/stages/lint/stage.yaml": stage_yaml}


def node(*lines: str) -> str:
    return OWN + "".join(f"    {line}\n" for line in lines)


def own_of(text: str, files: dict[str, str] | None = None, **given: Any) -> StageNode:
    """The stage of a program that has an executor for it."""
    world = TextWorld({"p.yaml": text, **(files or {})})
    overrides = Overrides(executors=("lint",), **given)
    return compile_pipeline(world, "p.yaml", "session", overrides).plan.only_stage


def test_class_is_the_provider_of_its_stage() -> None:
    assert found(OWN) == []
    lint = only_node(OWN)
    assert (lint.provider, lint.fallbacks, lint.prompt, lint.stage) == (LINT, (), "", "lint")
    assert lint.artifact == ArtifactRule({"type": "object"}, "")
    assert lint.retry == RetryPolicy(max_attempts=3)


@pytest.mark.parametrize(
    ("line", "field", "expected"),
    [
        ("retry: {max_attempts: 1}", "retry", RetryPolicy(max_attempts=1)),
        ("retry: {initial_delay: 9}", "retry", RetryPolicy(max_attempts=3, initial_delay=9)),
        (
            "artifact: {schema: {required: [a]}, version: 2.0}",
            "artifact",
            ArtifactRule({"required": ["a"]}, "", "2.0"),
        ),
        ("artifact: {heal: 0}", "artifact", ArtifactRule({"type": "object"}, "", heal=0)),
        ("prompt: Be strict.", "prompt", "Be strict."),
    ],
)
def test_what_a_stage_says_itself_counts(line: str, field: str, expected: object) -> None:
    assert getattr(only_node(node(line)), field) == expected


@pytest.mark.parametrize("provider", ["codex", "[claude, codex]", "{type: command, run: make}"])
def test_no_other_provider_replaces_a_class(provider: str) -> None:
    text = f"provider: {provider}\nmodel: m\n{node(f'provider: {provider}', 'model: x')}"
    world = TextWorld({"p.yaml": text}, CLAUDE_PIPELINE_PROVIDER="codex")
    given = Overrides("claude", "opus", config={"a": 1})
    lint = compile_pipeline(world, "p.yaml", "session", given).plan.only_stage
    assert (lint.provider, lint.fallbacks) == (LINT, ())


def test_neither_agents_nor_the_list_of_providers_are_looked_at() -> None:
    def probed() -> str:
        raise AssertionError("an executor needs no agent")

    machine = Machine(default_provider=probed, known_providers=["claude"])
    assert compile_pipeline(TextWorld({"p.yaml": OWN}), "p.yaml", "s", machine=machine).warnings == ()


def test_stage_folder_may_consist_of_its_executor() -> None:
    files = folder("executor: {python: tools.stages:Lint, config: {rules: {a: 1, b: 2}, max: 3}}\n")
    text = "nodes:\n  - {id: lint, stage: lint}\n"
    assert only_node(text, files).provider.config["config"] == {"rules": {"a": 1, "b": 2}, "max": 3}
    assert only_node(text, files).prompt == ""
    assert compile_stage(TextWorld(files), "lint").plan.only_stage.provider.type == "python"
    with_prompt = {**files, ".claude/stages/lint/prompt.md": "Lint it."}
    assert only_node(text, with_prompt).prompt == "Lint it."


def test_node_names_another_class_and_changes_its_data_key_by_key() -> None:
    files = folder("executor: {python: tools.stages:Other, config: {rules: {a: 1, b: 2}}}\n")
    text = node("stage: lint").replace("Lint}", "Lint, config: {rules: {b: 3}}}")
    expected = {"class": "tools.stages:Lint", "config": {"rules": {"a": 1, "b": 3}}}
    assert only_node(text, files).provider.config == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("executor: lint", "bad-type 3:15"),
        ("executor: {}", "missing-key 3:15"),
        ("executor: {config: {a: 1}}", "missing-key 3:15"),
        ("executor: {python: tools.stages}", "bad-value 3:24"),
        ("executor: {python: tools/stages.py:Lint}", "bad-value 3:24"),
        ("executor: {python: 'tools.1st:Lint'}", "bad-value 3:24"),
        ("executor: {python: 'tools:'}", "bad-value 3:24"),
        ("executor: {python: 3}", "bad-value 3:24"),
        ("executor: {python: true}", "bad-type 3:24"),
        ("executor: {python: a:B, config: [1]}", "bad-type 3:37"),
        ("executor: {pyhton: a:B}", "unknown-key 3:16"),
    ],
)
def test_bad_executors_are_refused_with_their_place(line: str, expected: str) -> None:
    text = OWN.replace("executor: {python: tools.stages:Lint}", line)
    assert expected in [where(one) for one in found(text) if one.is_error]


def test_named_prompt_of_an_executor_must_exist() -> None:
    files = folder("executor: {python: a:B}\nprompt: other.md\n")
    assert list(map(where, found("nodes:\n  - {id: lint, stage: lint}\n", files))) == ["missing-prompt 2:9"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"executor: {{python: a:B}}\n{OWN}", "misplaced-key 1:1"),
        (f"defaults: {{executor: {{python: a:B}}}}\n{OWN}", "misplaced-key 1:12"),
        ("nodes:\n  - {id: a, pipeline: q, executor: {python: a:B}}\n", "conflict 2:26"),
    ],
)
def test_executor_is_a_key_of_stages(text: str, expected: str) -> None:
    files = {"q.yaml": "nodes: [{id: x, prompt: x}]\n", ".claude/pipelines/q.yaml": OWN}
    assert expected in list(map(where, found(text, files)))


@pytest.mark.parametrize("stage_yaml", ["executor: {python: a:B}\n", ""])
def test_no_executor_in_a_parallel_block(stage_yaml: str) -> None:
    own = "executor: {python: a:B}" if not stage_yaml else "stage: lint"
    text = f"nodes:\n  - id: p\n    parallel:\n      providers: [claude]\n      stages: [{{id: x, {own}}}]\n"
    (diagnostic,) = found(text, {**stage("lint"), **folder(stage_yaml or "name: lint\n")})
    assert (diagnostic.code, diagnostic.hint) == ("unsupported", "put it on a stage outside of the block")


class TestOfTheProgram:
    """`Overrides.executors`."""

    def test_the_program_runs_the_stage(self) -> None:
        lint = own_of("nodes: [{id: lint, prompt: x}]\n")
        assert lint.provider == ProviderChoice("executor", "", {"stage": "lint"})
        assert (lint.retry, lint.prompt) == (RetryPolicy(max_attempts=3), "x")

    def test_its_executor_replaces_a_class_and_gets_the_data(self) -> None:
        assert own_of(OWN).provider == ProviderChoice("executor", "", {"stage": "lint"})
        text = OWN.replace("Lint}", "Lint, config: {a: 1}}")
        assert own_of(text).provider.config == {"stage": "lint", "config": {"a": 1}}

    def test_no_provider_replaces_it(self) -> None:
        assert own_of(OWN, provider="codex", model="x").provider.type == "executor"

    def test_it_replaces_what_the_artifact_of_the_stage_must_be_like(self) -> None:
        text = "nodes: [{id: lint, prompt: x, artifact: {schema: {required: [a]}, fill: {b: request}}}]\n"
        rule = own_of(text).artifact
        assert rule is not None
        assert (rule.schema, rule.fill) == ({"type": "object"}, {"b": "request"})

    def test_the_stage_needs_no_folder(self) -> None:
        text = "nodes: [{id: lint, stage: lint}]\n"
        lint = own_of(text)
        assert (lint.ref, lint.prompt, lint.prompt_path) == ("lint", "", None)
        assert own_of(text, stage("lint", "timeout: 9\n")).timeout == 9

    @pytest.mark.parametrize("id", ["other", "block", "x"])
    def test_it_may_have_executors_for_other_pipelines(self, id: str) -> None:
        block = "  - {id: block, parallel: {providers: [claude], stages: [{id: x, prompt: x}]}}\n"
        overrides = Overrides(executors=(id,))
        made = compile_pipeline(TextWorld({"p.yaml": OWN + block}), "p.yaml", "session", overrides).plan
        assert {stage.provider.type for stage in made.stages} == {"python", "claude"}

    def test_they_are_kept_for_a_recompilation(self) -> None:
        assert compiled_for_program().pipeline.overrides == BY_ID


def compiled_for_program() -> Plan:
    return compile_pipeline(TextWorld({"p.yaml": OWN}), "p.yaml", "session", BY_ID).plan


def test_people_see_the_class_before_it_runs() -> None:
    made = plan(OWN)
    lines = preview(made, RunLayout("/run", "s"), {"claude": ()})
    assert "- Provider: python / tools.stages:Lint" in lines
    assert not any(line.startswith("- Prompt") for line in lines)
    (line,) = execution_lines(executions(made, RunSettings()))
    assert line == f"lint: python, no sandbox, settings {json.dumps(LINT.config, separators=(',', ':'))}"
    (line,) = execution_lines(executions(compiled_for_program(), RunSettings()))
    assert line == 'lint: executor, no sandbox, settings {"stage":"lint"}'


class TestNeedsOfAStageFolder:
    TEXT = "nodes:\n  - id: a\n    prompt: x\n    artifact: {schema: {properties: {b: {}, c: {}}}}\n"

    def test_are_added_to_those_of_the_node(self) -> None:
        text = self.TEXT + "  - {id: s, stage: s, inputs: {artifact: [b]}}\n"
        last = plan(text, stage(body="inputs: {artifact: [c, b]}\n")).nodes[1]
        assert isinstance(last, StageNode)
        assert last.sources is not None
        assert last.sources.artifact == ("b", "c")

    def test_must_be_met(self) -> None:
        text = self.TEXT + "  - {id: s, stage: s}\n"
        (diagnostic,) = found(text, stage(body="inputs: {artifact: d}\n"))
        assert (where(diagnostic), diagnostic.place.file) == (
            "unknown-field 2:20",
            ".claude/stages/s/stage.yaml",
        )

    def test_are_in_force_in_a_block(self) -> None:
        block = "{id: p, parallel: {providers: [claude], stages: [{id: s, stage: s}]}}"
        (diagnostic,) = found(f"{self.TEXT}  - {block}\n", stage(body="inputs: {artifact: d}\n"))
        assert diagnostic.code == "unknown-field"

    def test_other_inputs_are_for_nodes(self) -> None:
        (diagnostic,) = found("nodes: [{id: s, stage: s}]\n", stage(body="inputs: {from: a}\n"))
        assert where(diagnostic) == "misplaced-key 2:10"
