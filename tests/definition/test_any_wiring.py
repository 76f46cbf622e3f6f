"""Pipelines whose references are sound always compile, and every source leads back to what ran before."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import heavy

from agentforge.definition.compiler import compile_pipeline
from agentforge.model.plan import InputSources, ParallelNode, Plan, Step

from .world import TextWorld

PROVIDERS = ("claude", "codex", "mock")


class Earlier:
    """What a stage may take from: the nodes so far, and the stages of the blocks so far."""

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self.blocks: list[tuple[str, list[str], list[str]]] = []

    def inputs(self, draw: st.DrawFn, own: list[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        stages = self.nodes + own
        if stages and draw(st.booleans()):
            found["from"] = draw(st.lists(st.sampled_from(stages), min_size=1, max_size=2))
        if self.blocks and draw(st.booleans()):
            refs = [self._block_ref(draw) for _ in range(draw(st.integers(1, 2)))]
            found["from_parallel"] = refs if len(refs) > 1 or draw(st.booleans()) else refs[0]
        return found

    def _block_ref(self, draw: st.DrawFn) -> dict[str, Any]:
        block, stages, providers = draw(st.sampled_from(self.blocks))
        ref: dict[str, Any] = {"block": block, "stage": draw(st.sampled_from(stages))}
        if draw(st.booleans()):
            ref["providers"] = draw(st.lists(st.sampled_from(providers), min_size=1, unique=True))
        return ref


@st.composite
def sound(draw: st.DrawFn, *, nesting: bool) -> list[dict[str, Any]]:
    earlier, nodes = Earlier(), list[dict[str, Any]]()
    kinds = ("stage", "block", "pipeline") if nesting else ("stage", "block")
    for index in range(draw(st.integers(1, 5))):
        node: dict[str, Any] = {"id": f"n{index}"}
        kind = draw(st.sampled_from(kinds))
        if kind == "block":
            node |= _block(draw, earlier, f"n{index}")
        else:
            node |= (
                {"prompt": "x"}
                if kind == "stage"
                else {"pipeline": "q.yaml", "runs": draw(st.integers(1, 2))}
            )
            node["inputs"] = earlier.inputs(draw, [])
            earlier.nodes.append(f"n{index}")
        nodes.append(node)
    if not nesting:
        nodes.append({"id": "last", "prompt": "x"})
    return nodes


def _block(draw: st.DrawFn, earlier: Earlier, name: str) -> dict[str, Any]:
    providers = draw(st.lists(st.sampled_from(PROVIDERS), min_size=1, unique=True))
    written = [
        {"name": provider, "inputs": earlier.inputs(draw, [])} if draw(st.booleans()) else provider
        for provider in providers
    ]
    ids = [f"s{index}" for index in range(draw(st.integers(1, 3)))]
    stages = [
        {"id": stage, "prompt": "x", "inputs": earlier.inputs(draw, ids[:position])}
        for position, stage in enumerate(ids)
    ]
    earlier.blocks.append((name, ids, providers))
    return {"parallel": {"providers": written, "stages": stages}}


@heavy
@given(sound(nesting=True), sound(nesting=False), st.integers(1, 2))
def test_sound_references_compile_and_lead_back(
    outer: list[dict[str, Any]], inner: list[dict[str, Any]], passes: int
) -> None:
    world = TextWorld({"p.yaml": json.dumps({"nodes": outer}), "q.yaml": json.dumps({"nodes": inner})})
    plan = compile_pipeline(world, "p.yaml", "x", passes=passes).plan
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
    done: dict[str, set[str]] = {}
    for step in plan.steps:
        assert_sources_lead_back(step, done)
        branches = step.node.branches if isinstance(step.node, ParallelNode) else ()
        done[step.path] = {branch.provider for branch in branches}


def assert_sources_lead_back(step: Step, done: dict[str, set[str]]) -> None:
    prefix = step.path.removesuffix(step.node.path)
    for asking in step.stages:
        sources = asking.sources or InputSources()
        for source in sources.from_stage:
            if source.provider:
                assert f"{step.path}.0" <= source.path < f"{prefix}{asking.path}"
            else:
                assert source.path in done
        for parallel in sources.from_parallel:
            assert set(parallel.providers) <= done[parallel.path]
        wanted = asking.inputs.get("from_parallel")
        if wanted:
            assert sources.parallel_list == isinstance(wanted, list)
