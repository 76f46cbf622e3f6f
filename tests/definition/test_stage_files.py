"""`.agentforge/config/stages/<stage>.yaml`: what a project says of a stage for all its templates."""

import pytest

from agentforge.definition.compiler import compile_pipeline
from agentforge.model.plan import Overrides, Plan

from .world import TextWorld, found, plan, stage, where

TEMPLATE = "stages: [plan, build]\n"
PIPELINE = "views: [controller]\nnodes: [{id: plan, stage: plan}, {id: build, stage: build}]\n"
STAGES = {**stage("plan", "timeout: 5\n"), **stage("build")}
PATH = ".agentforge/config/stages/plan.yaml"


def with_file(body: str, text: str = TEMPLATE, **more: str) -> Plan:
    return plan(text, {**STAGES, PATH: body, **more})


@pytest.mark.parametrize("text", [TEMPLATE, PIPELINE])
def test_file_is_for_all_pipelines_of_the_controller(text: str) -> None:
    first, second = with_file("execution: {timeout_seconds: 9}\nescalation_timeout: 60\n", text).stages
    assert (first.timeout, first.escalation_timeout) == (9, 60)
    assert (second.timeout, second.escalation_timeout) == (None, None)


def test_other_pipelines_dont_know_it() -> None:
    text = PIPELINE.replace("controller", "escalations")
    first, _ = with_file("enabled: false\nexecution: {timeout_seconds: 9}\n", text).stages
    assert first.timeout == 5


def test_file_counts_for_a_stage_by_its_name() -> None:
    text = PIPELINE.replace("id: plan", "id: first")
    assert with_file("execution: {timeout_seconds: 9}\n", text).stages[0].timeout == 9
    text = "views: controller\nnodes: [{id: plan, prompt: x}]\n"
    assert with_file("execution: {timeout_seconds: 9}\n", text).stages[0].timeout is None


def test_template_and_node_say_more() -> None:
    body = "enabled: false\nexecution: {timeout_seconds: 9, max_tokens: 500}\n"
    own = "stage_config: {plan: {enabled: true, execution: {timeout_seconds: 3}}}\n"
    first, _ = with_file(body, TEMPLATE + own).stages
    assert first.timeout == 3
    assert first.tokens is not None
    assert first.tokens.total == 500
    text = PIPELINE.replace("stage: plan", "stage: plan, timeout: 3")
    assert with_file("execution: {timeout_seconds: 9}\n", text).stages[0].timeout == 3


def test_data_is_for_the_executor_of_the_stage() -> None:
    body = "tools: {search: {max: 3}}\ndepth: 2\n"
    class_of = stage("plan", "executor: {python: a:B, config: {depth: 1, mode: quick}}\n")
    first, _ = with_file(body, **class_of).stages
    expected = {"tools": {"search": {"max": 3}}, "depth": 2, "mode": "quick"}
    assert first.provider.config == {"class": "a:B", "config": expected}
    world = TextWorld({"p.yaml": TEMPLATE, **STAGES, PATH: body})
    made = compile_pipeline(world, "p.yaml", "s", Overrides(executors=("plan",)))
    assert made.warnings == ()
    assert made.plan.stages[0].provider.config["config"] == {"tools": {"search": {"max": 3}}, "depth": 2}


@pytest.mark.parametrize("text", [TEMPLATE, PIPELINE])
def test_stage_that_is_switched_off_is_left_out(text: str) -> None:
    assert [one.id for one in with_file("enabled: false\n", text).stages] == ["build"]


@pytest.mark.parametrize("body", ["", "# nothing yet\n", "enabled: true\n"])
def test_files_that_say_nothing(body: str) -> None:
    assert found(TEMPLATE, {**STAGES, PATH: body}) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("- a\n", "not-a-mapping 1:1"),
        ("enabled: maybe\n", "bad-type 1:10"),
        ("enabeld: false\n", "unknown-key 1:1"),
        ("execution: {timeout_seconds: 0}\n", "bad-value 1:30"),
        ("execution: {retries: 3}\n", "unknown-key 1:13"),
        ("depth: 2\n", "no-effect 1:1"),
    ],
)
def test_mistakes_are_reported_with_those_of_the_pipeline(body: str, expected: str) -> None:
    (diagnostic,) = found(TEMPLATE, {**STAGES, PATH: body})
    assert (where(diagnostic), diagnostic.place.file) == (expected, PATH)


def test_routes_to_a_stage_that_is_left_out_are_refused() -> None:
    text = PIPELINE.replace("stage: build", "stage: build, on: {fail: plan}")
    (diagnostic,) = found(text, {**STAGES, PATH: "enabled: false\n"})
    assert diagnostic.code == "unknown-node"
    (diagnostic,) = found(
        TEMPLATE, {**STAGES, PATH: "enabled: false\n"}, overrides=Overrides(exit_after="plan")
    )
    assert (diagnostic.code, diagnostic.hint) == ("unknown-stage", "stages: build")
