"""Pipelines within pipelines: found, embedded, linked, never endless."""

from collections import Counter

import msgspec
import pytest

from agentforge.definition.compiler import compile_pipeline
from agentforge.model.errors import DefinitionError
from agentforge.model.plan import (
    FromParallel,
    FromStage,
    InputSources,
    NestedNode,
    Overrides,
    ParallelNode,
    Plan,
)

from .world import TextWorld, found, plan, stage, where

OUTER = "nodes:\n  - {id: a, prompt: x}\n  - id: sub\n    pipeline: inner.yaml\n"
INNER = {
    "inner.yaml": "name: in\nnodes:\n  - {id: a, prompt: y}\n  - {id: b, prompt: y, inputs: {from: a}}\n"
}


def nested(text: str, files: dict[str, str]) -> NestedNode:
    return next(node for node in plan(text, files).nodes if isinstance(node, NestedNode))


def test_plan_of_a_nested_pipeline() -> None:
    text = f"{OUTER}    runs: 3\n    description: D\n"
    data = msgspec.to_builtins(nested(text, INNER))
    inner = data.pop("plan")
    assert data == {
        "kind": "pipeline",
        "path": "1",
        "id": "sub",
        "runs": 3,
        "inputs": {},
        "ref": "inner.yaml",
        "description": "D",
    }
    assert (inner["version"], inner["mode"], inner["pipeline"]["name"]) == (1, "pipeline", "in")
    assert inner["source"]["path"] == "inner.yaml"
    assert inner["session"]["name"] == "session"
    assert [node["path"] for node in inner["nodes"]] == ["0", "1"]


def test_a_plan_with_nested_pipelines_survives_its_own_json() -> None:
    written = plan(OUTER, INNER)
    assert msgspec.json.decode(msgspec.json.encode(written), type=Plan) == written


def test_steps_of_a_nested_pipeline_have_the_paths_that_sources_name() -> None:
    compiled = plan(OUTER, INNER)
    assert [step.path for step in compiled.steps] == ["0", "1.0", "1.1"]
    assert compiled.steps[2].stages[0].sources == InputSources((FromStage("a", "1.0"),))


@pytest.mark.parametrize(
    ("ref", "path"),
    [
        ("inner.yaml", "inner.yaml"),
        ("named", ".claude/pipelines/named.yaml"),
        ("shipped", "/builtin/pipelines/shipped.yaml"),
        ("./team/own.yaml", "team/own.yaml"),
    ],
)
def test_found_like_any_pipeline(ref: str, path: str) -> None:
    body = INNER["inner.yaml"]
    files = {
        ".claude/pipelines/named.yaml": body,
        "/builtin/pipelines/shipped.yaml": body,
        "team/own.yaml": body,
    }
    node = nested(f"nodes: [{{id: n, pipeline: {ref}}}]\n", {**files, **INNER})
    assert node.plan.source.path == path


def test_nested_pipeline_is_found_beside_the_including_file_with_its_own_stages() -> None:
    files = {
        "team/outer.yaml": "nodes: [{id: n, pipeline: inner}]\n",
        "team/inner.yaml": "nodes: [{id: m, stage: own}]\n",
        "team/stages/own/prompt.md": "do it",
    }
    compiled = compile_pipeline(TextWorld(files), "team/outer.yaml", "x").plan
    node = compiled.nodes[0]
    assert isinstance(node, NestedNode)
    assert node.plan.only_stage.prompt_path == "team/stages/own/prompt.md"


def test_from_inside_sees_the_own_nodes_only() -> None:
    files = {
        "inner.yaml": "nodes:\n  - {id: x, prompt: y}\n  - {id: y, prompt: y, inputs: {from: outside}}\n"
    }
    text = OUTER.replace("id: a", "id: outside")
    (diagnostic,) = found(text, files)
    assert (diagnostic.place.file, where(diagnostic)) == ("inner.yaml", "unknown-node 3:39")


def test_blocks_inside_have_full_paths() -> None:
    inner = (
        "nodes:\n  - id: b\n    parallel:\n      providers: [claude]\n      stages:\n"
        "        - {id: s1, prompt: x}\n        - {id: s2, prompt: x, inputs: {from: s1}}\n"
        "  - {id: m, prompt: x, inputs: {from_parallel: s2}}\n"
    )
    node = nested(OUTER, {"inner.yaml": inner})
    block, merge = node.plan.nodes
    assert isinstance(block, ParallelNode)
    assert block.branches[0].stages[1].path == "0.1"
    assert block.branches[0].stages[1].sources == InputSources(
        (FromStage("s1", "1.0.0", "latest", "claude"),)
    )
    assert merge.sources == InputSources((), (FromParallel("s2", "b", "1.0", ("claude",)),))


def test_from_a_nested_pipeline_is_from_its_last_stage() -> None:
    files = {**INNER, "deep.yaml": "nodes: [{id: d, prompt: x}, {id: e, pipeline: inner.yaml}]\n"}
    text = f"{OUTER}  - {{id: deep, pipeline: deep.yaml}}\n"
    text += "  - {id: n, prompt: x, inputs: {from: [sub, deep]}}\n"
    sources = plan(text, files).nodes[3].sources
    assert sources == InputSources((FromStage("sub", "1.1"), FromStage("deep", "2.1.1")))


def test_from_a_nested_pipeline_that_ends_with_a_block() -> None:
    inner = "nodes:\n  - {id: b, parallel: {providers: [claude], stages: [{id: s, prompt: x}]}}\n"
    (diagnostic,) = found(f"{OUTER}  - {{id: n, prompt: x, inputs: {{from: sub}}}}\n", {"inner.yaml": inner})
    assert diagnostic.code == "wrong-kind"


class TestInputsOfTheNode:
    def test_go_to_the_first_stage(self) -> None:
        first, second = nested(f"{OUTER}    inputs: {{from: a, select: all}}\n", INNER).plan.nodes
        assert first.sources == InputSources((FromStage("a", "0", "all"),))
        assert second.sources == InputSources((FromStage("a", "1.0"),))

    def test_of_every_branch_of_a_block_and_of_a_pipeline_deeper(self) -> None:
        files = {
            "inner.yaml": "nodes: [{id: i, pipeline: block.yaml}]\n",
            "block.yaml": (
                "nodes:\n  - id: b\n    parallel:\n      providers: [claude, codex]\n"
                "      stages: [{id: s1, prompt: x}, {id: s2, prompt: x}]\n"
            ),
        }
        (step,) = plan(f"{OUTER}    inputs: {{from: a}}\n", files).steps[1:]
        expected = InputSources((FromStage("a", "0"),))
        assert [(stage.id, stage.sources) for stage in step.stages] == [("s1", expected), ("s2", None)] * 2

    def test_are_checked_outside(self) -> None:
        (diagnostic,) = found(f"{OUTER}    inputs: {{from: b}}\n", INNER)
        assert (diagnostic.place.file, where(diagnostic)) == ("p.yaml", "unknown-node 5:20")


def test_commands_of_the_pipeline_around_are_weaker_than_the_own() -> None:
    files = {
        "inner.yaml": "commands: {b: inner, c: inner}\nnodes: [{id: n, prompt: x, commands: {c: node}}]\n"
    }
    node = nested(f"commands: {{a: outer, b: outer}}\n{OUTER}", files)
    assert node.plan.only_stage.commands == {"a": "outer", "b": "inner", "c": "node"}
    assert node.plan.pipeline.commands == {"b": "inner", "c": "inner"}


def test_overrides_reach_nested_stages_and_defaults_stay_outside() -> None:
    files = {"p.yaml": f"defaults: {{provider: mock}}\n{OUTER}", **INNER}
    compiled = compile_pipeline(TextWorld(files), "p.yaml", "x", Overrides(context="c")).plan
    stage = compiled.steps[1].stages[0]
    assert (stage.context, stage.provider.type) == ("c", "claude")


def test_inputs_of_a_nested_pipeline_are_inputs_of_the_run() -> None:
    files = {"inner.yaml": f"inputs: [doc.md]\n{INNER['inner.yaml']}", "doc.md": ""}
    compiled = plan(OUTER, files)
    assert compiled.session.inputs == ("/project/doc.md",)
    assert nested(OUTER, files).plan.session == compiled.session


class TestRecursion:
    def test_a_pipeline_that_includes_itself(self) -> None:
        (diagnostic,) = found("nodes: [{id: n, pipeline: p.yaml}]\n")
        assert where(diagnostic) == "recursive-pipeline 1:27"
        assert diagnostic.message == "the pipeline includes itself: p.yaml → p.yaml"

    def test_a_longer_circle_is_named_in_full(self) -> None:
        files = {
            "a.yaml": "nodes: [{id: n, pipeline: b.yaml}]\n",
            "b.yaml": "nodes: [{id: n, pipeline: ./a.yaml}]\n",
        }
        (diagnostic,) = found("nodes: [{id: n, pipeline: a.yaml}]\n", files)
        assert diagnostic.place.file == "b.yaml"
        assert diagnostic.message.endswith("p.yaml → a.yaml → b.yaml → a.yaml")

    def test_the_same_pipeline_twice_is_not_recursive(self) -> None:
        text = "nodes: [{id: n, pipeline: inner.yaml}, {id: m, pipeline: inner.yaml}]\n"
        assert [step.path for step in plan(text, INNER).steps] == ["0.0", "0.1", "1.0", "1.1"]

    def test_doubling_is_bounded(self) -> None:
        double = "nodes: [{id: n, pipeline: l%d.yaml}, {id: m, pipeline: l%d.yaml}]\n"
        files = {f"l{i}.yaml": double % (i + 1, i + 1) for i in range(30)}
        files["l30.yaml"] = "nodes: [{id: n, prompt: x}]\n"
        world = CountedReads({"p.yaml": "nodes: [{id: n, pipeline: l0.yaml}]\n", **files})
        with pytest.raises(DefinitionError) as refused:
            compile_pipeline(world, "p.yaml", "session")
        assert {diagnostic.code for diagnostic in refused.value.diagnostics} == {"too-large"}
        assert max(world.reads.values()) <= 2, "to find it and to read it, however often it is included"

    def test_stage_of_a_pipeline_that_is_included_often_is_read_once(self) -> None:
        nodes = ", ".join(f"{{id: n{i}, pipeline: inner.yaml}}" for i in range(20))
        files = {"p.yaml": f"nodes: [{nodes}]\n", "inner.yaml": "nodes: [{id: n, stage: s}]\n", **stage()}
        world = CountedReads(files)
        assert len(compile_pipeline(world, "p.yaml", "session").plan.steps) == 20
        assert world.reads["/project/.claude/stages/s/stage.yaml"] <= 2


class CountedReads(TextWorld):
    def __init__(self, files: dict[str, str]) -> None:
        super().__init__(files)
        self.reads: Counter[str] = Counter()

    def read(self, path: str) -> str | None:
        self.reads[path] += 1
        return super().read(path)


@pytest.mark.parametrize(
    ("node", "expected", "word"),
    [
        ("{id: n, pipeline: nowhere}", "unknown-pipeline 1:27", "`nowhere`"),
        ("{id: n, pipeline: }", "missing-key 1:17", "`pipeline` is empty"),
        ("{id: n, pipeline: [x]}", "bad-type 1:27", "`pipeline`"),
        ("{id: n, pipeline: inner.yaml, runs: 0}", "bad-value 1:45", "`runs`"),
        ("{id: n, pipeline: inner.yaml, runs: {max: 3}}", "bad-type 1:45", "`runs`"),
        ("{id: n, pipeline: inner.yaml, stage: s}", "conflict 1:39", "`stage`"),
        ("{id: n, pipeline: inner.yaml, prompt: s}", "conflict 1:39", "`prompt`"),
        ("{id: n, pipeline: inner.yaml, runs: 1000000}", "too-large 1:1", "2,000,000 steps"),
        ("{pipeline: inner.yaml}", "missing-key 1:9", "no `id`"),
        ("{id: n, pipeline: broken.yaml}", "syntax 2:1", ""),
        ("{id: n, pipeline: empty.yaml}", "empty-pipeline 1:8", ""),
        ("{id: n, pipeline: bad.yaml}", "unsupported 1:1", "workspace"),
    ],
)
def test_nested_pipelines_that_cannot_be(node: str, expected: str, word: str) -> None:
    files = {
        **INNER,
        "broken.yaml": "nodes: [\n",
        "empty.yaml": "nodes: []\n",
        "bad.yaml": "workspace: {}\nnodes: [{id: n, prompt: x}]\n",
    }
    (diagnostic,) = found(f"nodes: [{node}]\n", files)
    assert where(diagnostic) == expected
    assert word in diagnostic.message
    assert diagnostic.is_error


def test_guardrails_of_a_nested_pipeline_are_warned_of() -> None:
    files = {"inner.yaml": f"guardrails: {{max_runtime_seconds: 5}}\n{INNER['inner.yaml']}"}
    (diagnostic,) = found(OUTER, files)
    assert (diagnostic.code, diagnostic.severity) == ("ignored-key", "warning")


class TestPasses:
    """`pipeline FILE SESSION RUNS`: how often all of it runs."""

    def test_are_in_the_plan(self) -> None:
        world = TextWorld({"p.yaml": OUTER, **INNER})
        compiled = compile_pipeline(world, "p.yaml", "x", passes=2).plan
        assert compiled.passes == 2
        assert [step.path for step in compiled.steps] == ["0", "1.0", "1.1"]
        assert compile_pipeline(world, OUTER, "x", passes=3).plan.passes == 3

    @pytest.mark.parametrize("passes", [0, -1, 10_000_000])
    def test_out_of_range(self, passes: int) -> None:
        with pytest.raises(DefinitionError) as refused:
            compile_pipeline(TextWorld(INNER), OUTER, "x", passes=passes)
        assert [d.code for d in refused.value.diagnostics] == ["bad-value"]

    def test_too_many_steps(self) -> None:
        (diagnostic,) = found(OUTER, INNER, passes=100_000)
        assert diagnostic.code == "too-large"
