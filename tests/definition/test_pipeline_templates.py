"""Pipelines whose `stages` are names: what each key means, and what is wrong with it."""

from typing import Any

import pytest
from jsonschema import Draft7Validator

from agentforge.definition.compiler import compile_pipeline
from agentforge.definition.read.file_keys import template_schema
from agentforge.definition.resolve import available_pipelines
from agentforge.model.hook import Hook
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Approval, Guardrails, Limits, Overrides, Plan, Route
from agentforge.views.lines.dry_run import preview

from .test_schema import loaded
from .world import TextWorld, found, plan, stage, where

STAGES = {**stage("plan"), **stage("red"), **stage("green")}
TEXT = "stages: [plan, green]\n"
EXECUTOR = "executor: {python: a:B}\n"
SCHEMA = Draft7Validator(template_schema())


def template(*lines: str, stages: str = "[plan, red]", files: dict[str, str] | None = None) -> Plan:
    text = f"stages: {stages}\n" + "".join(f"{line}\n" for line in lines)
    assert SCHEMA.is_valid(loaded(text))
    return plan(text, {**STAGES, **(files or {})})


def problems(text: str, **files: str) -> list[str]:
    written = {**STAGES, **{f".claude/stages/{name}/stage.yaml": body for name, body in files.items()}}
    return [f"{'' if one.is_error else 'warning '}{where(one)}" for one in found(text, written)]


def approvals(*lines: str, **overrides: Any) -> list[Approval | None]:
    text = "stages: [plan, red]\n" + "".join(f"{line}\n" for line in lines)
    world = TextWorld({"p.yaml": text, **STAGES})
    return [one.approve for one in compile_pipeline(world, "p.yaml", "s", Overrides(**overrides)).plan.stages]


class TestMeaning:
    def test_of_names_alone(self) -> None:
        made = template()
        assert [(one.id, one.stage, one.ref) for one in made.stages] == [
            ("plan", "plan", "plan"),
            ("red", "red", "red"),
        ]
        assert [one.retry.max_attempts if one.retry else None for one in made.stages] == [3, 3]
        assert [(one.approve, one.routes) for one in made.stages] == [(None, ()), (None, ())]
        assert {one.on_escalation for one in made.stages} == {"ask"}
        info = made.pipeline
        assert (info.name, info.request, info.views) == ("p", "required", ("escalations", "controller"))
        assert (info.guardrails, info.limits, info.hooks) == (Guardrails(3600), None, ())

    def test_of_what_is_for_people(self) -> None:
        made = template("name: mine", "description: Plans it.", "version: 1.10")
        info = made.pipeline
        assert (info.name, info.description, info.version) == ("mine", "Plans it.", "1.10")
        assert "- Version: 1.10" in preview(made, RunLayout("/run", "s"))

    @pytest.mark.parametrize(
        ("lines", "overrides", "expected"),
        [
            (["defaults: {supervised: true}"], {}, Approval()),
            (["defaults: {supervised: false}"], {}, None),
            (["defaults: {supervised: true, max_iterations_per_stage: 5}"], {}, Approval(rounds=5)),
            (["defaults: {supervised: true, iteration_enabled: false}"], {}, Approval(feedback=False)),
            (["defaults: {max_iterations_per_stage: 5}"], {}, None),
            (["defaults: {max_iterations_per_stage: 5}"], {"supervised": True}, Approval(rounds=5)),
            (
                ["defaults: {supervised: false, iteration_enabled: false}"],
                {"supervised": True},
                Approval(feedback=False),
            ),
            (["defaults: {supervised: true}"], {"supervised": False}, None),
            (["defaults: {supervised: true, iteration_enabled: false}"], {"iterate": True}, Approval()),
        ],
    )
    def test_of_supervision(
        self, lines: list[str], overrides: dict[str, Any], expected: Approval | None
    ) -> None:
        assert approvals(*lines, **overrides) == [expected, expected]

    def test_of_supervision_is_kept_in_the_plan(self) -> None:
        how = "defaults: {max_iterations_per_stage: 5, iteration_enabled: false}"
        assert template(how).pipeline.supervision == Approval(rounds=5, feedback=False)
        assert template().pipeline.supervision is None
        text = "stages: [plan]\n" + how
        given = Overrides(rounds=2, iterate=True)
        made = compile_pipeline(TextWorld({"p.yaml": text, **STAGES}), "p.yaml", "s", given).plan
        assert made.pipeline.supervision == Approval(rounds=2)

    def test_of_where_and_when_the_run_ends(self) -> None:
        made = template(
            "defaults: {exit_after: plan, timeout_seconds: 60}", "exit_conditions: {on_timeout: fail}"
        )
        assert [one.routes for one in made.stages] == [(Route("pass", "end"),), ()]
        assert made.pipeline.guardrails == Guardrails(60, "fail")
        assert template("exit_conditions: {on_timeout: pause}").pipeline.guardrails == Guardrails(3600)

    def test_of_where_one_run_ends(self) -> None:
        text = "stages: [plan, red]\ndefaults: {exit_after: plan}\n"
        given = Overrides(exit_after="red")
        made = compile_pipeline(TextWorld({"p.yaml": text, **STAGES}), "p.yaml", "s", given).plan
        assert [one.routes for one in made.stages] == [(), (Route("pass", "end"),)]

    @pytest.mark.parametrize(("word", "expected"), [("pause", "ask"), ("fail", "fail"), ("skip", "skip")])
    def test_of_escalations(self, word: str, expected: str) -> None:
        made = template(f"exit_conditions: {{on_escalation: {word}}}")
        assert [one.on_escalation for one in made.stages] == [expected, expected]

    def test_of_a_cap_on_the_cost(self) -> None:
        made = template("exit_conditions: {max_total_cost_usd: 2.5}")
        assert made.pipeline.limits == Limits(cost_usd=2.5)
        assert [place.name for place in made.caps] == ["the run"]

    def test_of_hooks(self) -> None:
        made = template("hooks: {on_stage_complete: [make a, make b], on_pipeline_complete: make c}")
        first, second, last = made.pipeline.hooks
        assert [(one.id, one.point, one.action, one.script) for one in (first, second)] == [
            ("stage_end-1", "stage_end", "script", "make a"),
            ("stage_end-2", "stage_end", "script", "make b"),
        ]
        # Hooks at the end of a stage are called after failures, too.
        assert [str(one.condition) for one in (first, second)] == [str(first.condition)] * 2
        assert "completed" in str(first.condition)
        assert last == Hook(
            "session_end-1",
            "session_end",
            "script",
            script="make c",
            on_timeout="continue",
            on_failure="continue",
        )

    def test_of_required_context(self) -> None:
        first, second = template("required_context: [spec, goal]").stages
        assert first.sources
        assert (first.sources.artifact, first.inputs) == (("spec", "goal"), {"artifact": ["spec", "goal"]})
        assert second.sources is None

    def test_of_what_is_for_one_stage(self) -> None:
        files = stage("plan", EXECUTOR)
        made = template(
            "defaults: {supervised: true, max_iterations_per_stage: 5}",
            "stage_config:",
            "  plan:",
            "    execution: {timeout_seconds: 9, max_iterations: 2, max_tokens: 500}",
            "    escalation_timeout: 60",
            "    tools: {search_code: {max_results: 30}}",
            "    depth: 3",
            "    x-note: mine",
            files=files,
        )
        first, second = made.stages
        assert (first.timeout, first.escalation_timeout) == (9, 60)
        assert first.tokens is not None
        assert (first.tokens.total, first.approve) == (500, Approval(rounds=2))
        assert first.provider.config["config"] == {
            "tools": {"search_code": {"max_results": 30}},
            "depth": 3,
        }
        assert (second.timeout, second.tokens, second.approve) == (None, None, Approval(rounds=5))

    def test_of_stages_that_are_switched_off(self) -> None:
        made = template("stage_config: {plan: {enabled: false}, red: {enabled: true}}")
        assert [one.id for one in made.stages] == ["red"]

    def test_of_a_template_given_as_data(self) -> None:
        made = compile_pipeline(TextWorld(STAGES), {"stages": ["plan"], "name": "mine"}, "s").plan
        assert made.only_stage.id == "plan"
        assert made.pipeline.has_controller_view


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "empty 1:1"),
        ("stages: []\nrequired_context: [a]\n", "empty-pipeline 1:9"),
        ("stages: []\n", "empty-pipeline 1:9"),
        ("stages: [plan, plan]\n", "duplicate-id 1:16"),
        ("stages: [plan, other]\n", "unknown-stage 1:16"),
        ("stages: [plan, {id: x, stage: red}]\n", "bad-type 1:16"),
        ("stages: [plan, a/../b]\n", "bad-id 1:16"),
        (f"{TEXT}defaults: {{exit_after: red}}\n", "unknown-stage 2:24"),
        (TEXT, "warning no-tests 1:16"),
        (f"{TEXT}defaults: {{supervised: maybe}}\n", "bad-type 2:24"),
        (f"{TEXT}defaults: {{timeout_seconds: 0}}\n", "bad-value 2:29"),
        (f"{TEXT}defaults: {{max_iterations_per_stage: 0}}\n", "bad-value 2:38"),
        (f"{TEXT}defaults: {{retries: 3}}\n", "warning unknown-key 2:12"),
        (f"{TEXT}defaults: {{supervize: true}}\n", "unknown-key 2:12"),
        (f"{TEXT}defaults: true\n", "bad-type 2:11"),
        (f"{TEXT}exit_conditions: {{max_total_cost_usd: -1}}\n", "bad-value 2:39"),
        (f"{TEXT}exit_conditions: {{max_total_cost_usd: }}\n", "bad-type 2:39"),
        (f"{TEXT}exit_conditions: {{on_timeout: skip}}\n", "bad-value 2:31"),
        (f"{TEXT}exit_conditions: {{on_escalation: ask}}\n", "bad-value 2:34"),
        (f"{TEXT}hooks: {{on_stage_complete: ['']}}\n", "bad-value 2:29"),
        (f"{TEXT}hooks: {{on_start: make}}\n", "warning unknown-key 2:9"),
        (f"{TEXT}required_context: [a b]\n", "bad-value 2:20"),
        (f"{TEXT}version: [1]\n", "bad-type 2:10"),
        (f"{TEXT}stage_config: {{red: {{enabled: false}}}}\n", "warning unknown-stage 2:16"),
        (f"{TEXT}stage_config: {{plan: {{execution: {{timeout_seconds: x}}}}}}\n", "bad-type 2:52"),
        (f"{TEXT}stage_config: {{plan: {{enabeld: false}}}}\n", "unknown-key 2:23"),
        (f"{TEXT}stage_config: {{plan: {{tool: {{}}}}}}\n", "unknown-key 2:23"),
        (f"{TEXT}stage_config: {{plan: {{tools: {{}}, depth: 3}}}}\n", "warning no-effect 2:23"),
        (f"{TEXT}sandbox: bwrap\n", "misplaced-key 2:1"),
        (f"{TEXT}limits: {{cost_usd: 3}}\n", "misplaced-key 2:1"),
        (f"{TEXT}owner: me\n", "warning unknown-key 2:1"),
        (
            "stages: [plan, red]\nstage_config: {plan: {enabled: false}, red: {enabled: false}}\n",
            "empty-pipeline 1:1",
        ),
        (
            "stages: [plan, red]\ndefaults: {exit_after: plan}\nstage_config: {plan: {enabled: false}}\n",
            "conflict 2:24",
        ),
    ],
)
def test_every_mistake_has_a_place(text: str, expected: str) -> None:
    assert expected in problems(text)


def test_a_sound_template_has_none() -> None:
    text = (
        "stages: [plan, red, green]\ndefaults: {exit_after: green}\nstage_config: {green: {enabled: false}}\n"
    )
    assert problems(text) == []


def test_a_later_stage_that_needs_a_stage_that_is_left_out_is_refused() -> None:
    files = {
        "plan": "artifact: {schema: {required: [steps], properties: {steps: {}}}}\n",
        "green": "artifact: {schema: {properties: {a: {}}}}\n",
        "red": "inputs: {artifact: steps}\n",
    }
    text = "stages: [plan, green, red]\n"
    assert problems(text, **files) == []
    assert "unknown-field 1:20" in problems(f"{text}stage_config: {{plan: {{enabled: false}}}}\n", **files)


def test_list_of_mappings_is_read_as_nodes() -> None:
    assert problems("stages: [{name: n, loop: plan}]\n") == ["warning deprecated-key 1:1"]
    assert "bad-type 1:9" in problems("nodes: [plan]\n")


class TestPlaces:
    NAMES = (
        ".claude/pipelines",
        ".agentforge/pipelines",
        ".agentforge/pipelines/custom",
        "/more",
        "/builtin/pipelines",
    )

    @pytest.mark.parametrize("first", range(len(NAMES)))
    def test_are_searched_in_order(self, first: int) -> None:
        files = {f"{root}/design.yaml": f"description: {root}\n{TEXT}" for root in self.NAMES[first:]}
        world = TextWorld({**files, **STAGES}, PIPELINES_DIR="/more")
        assert compile_pipeline(world, "design", "s").plan.pipeline.description == self.NAMES[first]
        assert [one.name for one in available_pipelines(world)] == ["design"]

    def test_stages_are_also_beside_the_template(self) -> None:
        files = {
            ".agentforge/pipelines/mine.yaml": "stages: [own]\n",
            **stage("own", root=".agentforge/pipelines/stages"),
        }
        assert compile_pipeline(TextWorld(files), "mine", "s").plan.only_stage.prompt == "do it"


class TestNested:
    OUTER = "nodes:\n  - {id: inner, pipeline: inner.yaml}\n"

    def nested(self, inner: str) -> list[str]:
        return [one.message for one in found(self.OUTER, {"inner.yaml": inner, **STAGES})]

    def test_template_is_a_pipeline_like_any_other(self) -> None:
        assert self.nested("stages: [plan, red]\n") == []

    def test_what_it_says_of_the_run_has_no_effect(self) -> None:
        (message,) = self.nested("stages: [plan, red]\ndefaults: {timeout_seconds: 5}\n")
        assert message == "`guardrails.max_runtime_seconds` of a nested pipeline has no effect"
