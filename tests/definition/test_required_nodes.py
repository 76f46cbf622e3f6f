"""Required nodes: which routes a pipeline with `require` may have."""

from collections.abc import Collection

import pytest

from agentforge.model.plan import NestedNode

from .world import found, plan, where

STAGES = ("planner", "executor", "verifier", "reviewer")
PLACES = {**{name: number for number, name in enumerate(STAGES)}, "end": len(STAGES)}
TRANSITIONS = {
    "planner": ("executor", "planner"),
    "executor": ("verifier", "executor"),
    "verifier": ("reviewer", "executor"),
    "reviewer": ("end", "planner"),
}
"""What the loop of four stages does: after each stage the next one, and the way back."""


def loop(require: str, *lines: str) -> str:
    return f"name: p\nrequire: {require}\nnodes:\n" + "".join(f"  - {line}\n" for line in lines)


def with_route(source: str, target: str, required: Collection[str] = STAGES) -> str:
    routes = {source: f", on: {{reject: {target}}}"}
    nodes = (f"{{id: {name}, prompt: do it{routes.get(name, '')}}}" for name in STAGES)
    return loop(f"[{', '.join(required)}]", *nodes)


@pytest.mark.parametrize("target", PLACES)
@pytest.mark.parametrize("source", STAGES)
def test_a_route_may_lead_to_the_next_stage_or_back_and_never_past_a_required_one(
    source: str, target: str
) -> None:
    text = with_route(source, target)
    passed = STAGES[PLACES[source] + 1 : PLACES[target]]
    codes = [(diagnostic.code, where(diagnostic).split()[1][0]) for diagnostic in found(text)]
    assert codes == ([("skips-required", str(PLACES[source] + 4))] if passed else [])
    if target in TRANSITIONS[source]:
        assert not passed
    elif passed:
        # Without the requirement, the same route is allowed.
        assert found(with_route(source, target, [name for name in STAGES if name not in passed])) == []


def test_the_loop_of_four_stages_is_allowed_as_a_whole() -> None:
    back = {"verifier": "executor", "reviewer": "planner"}
    routes = {name: f", on: {{fail: {to}, reject: {to}}}" for name, to in back.items()}
    nodes = (f"{{id: {name}, prompt: do it{routes.get(name, '')}}}" for name in STAGES)
    text = loop("[planner, executor, verifier, reviewer]", *nodes)
    assert found(text) == []
    assert plan(text).pipeline.require == STAGES


def test_a_route_past_a_required_node_is_reported_where_it_is() -> None:
    (diagnostic,) = found(with_route("executor", "end", ("verifier", "reviewer", "verifier")))
    assert where(diagnostic) == "skips-required 5:48"
    assert diagnostic.message == "the route to `end` skips required nodes: reviewer, verifier"
    assert diagnostic.hint == "lead it to `verifier` or to an earlier node, or change `require`"


INNER = {"inner.yaml": "name: i\nrequire: b\nnodes:\n  - {id: a, prompt: x}\n  - {id: b, prompt: x}\n"}
BLOCK = "{id: duel, parallel: {providers: [claude], stages: [{id: inside, prompt: x}]}}"


@pytest.mark.parametrize(
    ("required", "expected"),
    [
        (
            "[plam]",
            "unknown-node 2:11: no node has the id `plam`; did you mean `plan`? nodes: duel, in, plan",
        ),
        (
            "inside",
            "conflict 2:10: `inside` is a node of another pipeline or block; require it there, or the node",
        ),
        ("b", "conflict 2:10: `b` is a node of another pipeline or block; require it there, or the node"),
        ("[[plan]]", "bad-type 2:11"),
        ("[duel, in, plan]", ""),
    ],
)
def test_only_nodes_of_the_pipeline_itself_are_required(required: str, expected: str) -> None:
    text = loop(required, "{id: plan, prompt: x}", BLOCK, "{id: in, pipeline: inner.yaml}")
    shown = [f"{where(one)}: {one.message}; {one.hint}" for one in found(text, INNER)]
    assert [one[: len(expected)] for one in shown] == ([expected] if expected else [])


def test_a_nested_pipeline_keeps_its_requirement() -> None:
    outer = loop("in", "{id: in, pipeline: inner.yaml}")
    node = plan(outer, INNER).nodes[0]
    assert isinstance(node, NestedNode)
    assert node.plan.pipeline.require == ("b",)
    ends = {"inner.yaml": INNER["inner.yaml"].replace("a, prompt: x", "a, prompt: x, on: {fail: end}")}
    (diagnostic,) = found(outer, ends)
    assert (diagnostic.code, diagnostic.place.file) == ("skips-required", "inner.yaml")


def test_on_a_node_the_key_is_refused() -> None:
    (diagnostic,) = found(loop("a", "{id: a, prompt: x, require: b}"))
    assert diagnostic.hint == "put it at the top of the pipeline file"
