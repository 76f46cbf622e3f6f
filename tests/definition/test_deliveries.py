"""Stages that deliver: their keys, and the delivery that the caller or the settings ask for."""

import pytest

from agentforge.definition.compiler import compile_pipeline
from agentforge.definition.machine import Machine
from agentforge.model.delivery import DeliverRule, DeliveryMode
from agentforge.model.plan import NestedNode, Overrides, ParallelNode, Plan, StageNode

from .world import TextWorld, found, plan, stage

SHIPS = "name: p\nnodes:\n  - {id: n, stage: s}\n  - {id: ship, deliver: patch}\n"
PLAIN = "name: p\nnodes:\n  - {id: n, stage: s}\n"
SETTINGS = {".agentforge/config/settings.yaml": "delivery: patch\n"}


def asked(text: str, mode: DeliveryMode, **files: str) -> Plan:
    world = TextWorld({"p.yaml": text, **stage(), **files})
    return compile_pipeline(world, "p.yaml", "session", Overrides(delivery=mode), Machine()).plan


def rules(compiled: Plan) -> dict[str, str]:
    nodes = [one for one in compiled.nodes if isinstance(one, StageNode)]
    return {one.id: one.deliver.mode for one in nodes if one.deliver}


def messages(node: str) -> list[str]:
    return [one.message for one in found(f"name: p\nnodes:\n  - {node}\n")]


def test_keys_of_a_delivery() -> None:
    text = "{mode: pr, message: Add it, branch_prefix: work/, run_hooks: false}"
    node = plan(f"name: p\nnodes: [{{id: ship, deliver: {text}}}]\n").only_stage
    assert node.deliver == DeliverRule("pr", message="Add it", branch_prefix="work/")


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("{id: a, deliver: {run_hooks: true}}", "`deliver.run_hooks` is not supported"),
        ("{id: a, deliver: {branch_prefix: a..b}}", "`deliver.branch_prefix` must be the beginning"),
        ('{id: a, deliver: {message: "a\\nb"}}', "`deliver.message` is the subject of the commit"),
        ("{id: a, deliver: patch, model: opus}", "`provider` doesn't go with `deliver`"),
        ("{id: a, deliver: patch, prompt: do it}", "`prompt` doesn't go with `deliver`"),
        ("{id: a, deliver: patch, checks: [{name: t, run: t}]}", "`checks` doesn't go with `deliver`"),
    ],
)
def test_what_a_delivery_does_not_take(node: str, message: str) -> None:
    assert any(one.startswith(message) for one in messages(node)), messages(node)


def test_delivery_is_not_possible_in_a_parallel_block() -> None:
    block = "{name: b, parallel: {providers: [codex], stages: [{id: ship, deliver: patch}]}}"
    assert any("not possible in a parallel block" in one for one in messages(block))


def test_settings_add_a_delivery_only_to_a_pipeline_without_one() -> None:
    assert rules(plan(PLAIN, SETTINGS)) == {"deliver": "patch"}
    assert rules(plan(PLAIN.replace("id: n", "id: deliver"), SETTINGS)) == {"deliver-2": "patch"}
    assert rules(plan(SHIPS.replace("patch", "commit"), SETTINGS)) == {"ship": "commit"}
    assert rules(plan(PLAIN, {next(iter(SETTINGS)): "delivery: files\n"})) == {}


def test_callers_mode_replaces_what_stages_say_also_in_nested_pipelines() -> None:
    assert rules(asked(SHIPS, "pr")) == {"ship": "pr"}
    assert rules(asked(PLAIN, "files")) == {"deliver": "files"}
    block = "  - {name: b, parallel: {providers: [codex], stages: [{id: t, stage: s}]}}\n"
    outer = f"name: p\nnodes:\n{block}  - {{id: inner, pipeline: inner.yaml}}\n"
    _, nested = asked(outer, "pr", **{"inner.yaml": SHIPS}).nodes
    assert isinstance(nested, NestedNode)
    assert [one.deliver.mode for one in nested.plan.nodes if isinstance(one, StageNode) and one.deliver] == [
        "pr"
    ]
    first, *_ = asked(f"name: p\nnodes:\n{block}", "patch").nodes
    assert isinstance(first, ParallelNode)


def test_route_to_the_end_leads_to_the_added_delivery_except_for_rejected_work() -> None:
    text = f"{PLAIN}  - {{id: m, stage: s, on: {{pass: end, fail: end}}}}\n"
    node = asked(text, "commit").nodes[1]
    assert isinstance(node, StageNode)
    assert {one.verdict: one.to for one in node.routes} == {"pass": "deliver", "fail": ""}
