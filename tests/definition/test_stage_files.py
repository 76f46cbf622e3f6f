"""`.agentforge/config/stages/<stage>.yaml` and `pipeline.supervised_by_default`: what a project says once for
all pipelines of the controller."""

import pytest

from agentforge.definition.compiler import compile_pipeline
from agentforge.definition.report import Report
from agentforge.definition.settings import read_settings
from agentforge.model.plan import AppliedSetting, Approval, Overrides, Plan

from .world import TextWorld, found, plan, stage, where

TEMPLATE = "stages: [plan, build]\n"
PIPELINE = "views: [controller]\nnodes: [{id: plan, stage: plan}, {id: build, stage: build}]\n"
STAGES = {**stage("plan", "timeout: 5\n"), **stage("build")}
PATH = ".agentforge/config/stages/plan.yaml"
SETTINGS = ".agentforge/config/settings.yaml"
USERS = "/home/me/.config/agentforge/settings.yaml"
SUPERVISED = "pipeline: {supervised_by_default: true}\n"


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


class TestSupervisedByDefault:
    def approvals(self, text: str, settings: str = SUPERVISED, **overrides: bool) -> list[Approval | None]:
        return [one.approve for one in self.made(text, settings, **overrides).stages]

    def made(self, text: str, settings: str, **overrides: bool) -> Plan:
        world = TextWorld({"p.yaml": text, SETTINGS: settings, **STAGES})
        return compile_pipeline(world, "p.yaml", "s", Overrides(**overrides)).plan

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (TEMPLATE, Approval()),
            (PIPELINE, Approval()),
            (f"{TEMPLATE}defaults: {{supervised: false}}\n", None),
            (f"{TEMPLATE}defaults: {{max_iterations_per_stage: 5}}\n", Approval(rounds=5)),
            (f"approve: false\n{PIPELINE}", None),
            (PIPELINE.replace("controller", "escalations"), None),
        ],
    )
    def test_pipelines_of_the_controller_are_supervised(self, text: str, expected: Approval | None) -> None:
        assert self.approvals(text) == [expected, expected]

    def test_one_run_may_be_unsupervised(self) -> None:
        assert self.approvals(TEMPLATE, supervised=False) == [None, None]

    def test_the_plan_names_the_setting_if_it_changes_a_stage(self) -> None:
        (used,) = self.made(TEMPLATE, SUPERVISED).pipeline.settings
        assert used == AppliedSetting("pipeline.supervised_by_default", f"{SETTINGS}:1:12")
        said = f"{TEMPLATE}defaults: {{supervised: true}}\n"
        assert self.made(said, SUPERVISED).pipeline.settings == ()

    def test_the_project_overrides_its_user(self) -> None:
        files = {"p.yaml": TEMPLATE, USERS: SUPERVISED, **STAGES}
        user = compile_pipeline(TextWorld(files, HOME="/home/me"), "p.yaml", "s").plan
        assert user.stages[0].approve == Approval()
        files[SETTINGS] = "pipeline: {supervised_by_default: false}\n"
        both = compile_pipeline(TextWorld(files, HOME="/home/me"), "p.yaml", "s").plan
        assert both.stages[0].approve is None
        files[SETTINGS] = "pipeline: design\n"
        world = TextWorld(files, HOME="/home/me")
        assert compile_pipeline(world, "p.yaml", "s").plan.stages[0].approve == Approval()
        levels = read_settings(world, Report())
        counting = [levels.level_of(key) for key in ("pipeline.supervised_by_default", "pipeline")]
        assert [one.is_users if one else None for one in counting] == [True, False]
