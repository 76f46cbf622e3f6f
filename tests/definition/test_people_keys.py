"""The keys that make a run wait for people: approvals, checkpoints and views."""

import msgspec
import pytest
from jsonschema import Draft7Validator

from agentforge.definition.compiler import compile_stage
from agentforge.definition.read.file_keys import pipeline_schema, stage_schema
from agentforge.model.plan import Approval, NestedNode, ParallelNode
from agentforge.model.plan_limits import MAX_MESSAGE

from .test_schema import loaded
from .world import TextWorld, found, only_node, plan, stage, where

HEAD = "name: p\nnodes:\n  - id: n\n    stage: s\n"
PIPELINE, STAGE = Draft7Validator(pipeline_schema()), Draft7Validator(stage_schema())

BLOCK = """\
nodes:
  - id: duel
    {block}
    parallel:
      providers: [claude, codex]
      stages:
        - id: draft
          stage: s
        - id: polish
          stage: t
          {last}
"""
INNER = {"inner.yaml": "nodes:\n  - {id: a, stage: s, checkpoint: go}\n"}


def node(*lines: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines)


def block(line: str = "x-none: 1", last: str = "x-none: 1", stage_yaml: str = "", head: str = "") -> str:
    """The approvals of the stages of each branch, which are the same in both."""
    files = stage("t", stage_yaml)
    (parallel,) = plan(head + BLOCK.format(block=line, last=last), files).nodes
    assert isinstance(parallel, ParallelNode)
    branches = [tuple(stage.approve for stage in branch.stages) for branch in parallel.branches]
    assert branches[0] == branches[1]
    return " ".join("-" if a is None else f"{a.by}:{a.rounds}" for a in branches[0])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("approve: true", Approval()),
        ("approve: false", None),
        ("approve: {}", Approval()),
        ("approve: {message: Ship it?, by: agent}", Approval("Ship it?", "agent")),
        ("approve: {timeout: 60, on_timeout: abort}", Approval(timeout=60, on_timeout="abort")),
        ("approve: {timeout: '1.5', on_timeout: wait}", Approval(timeout=1.5)),
        ("approve: {rounds: 1}", Approval(rounds=1)),
        ("approve: {feedback: false}", Approval(feedback=False)),
        ("approve: {when: always}", Approval()),
        ("approve: {when: supervised}", None),
    ],
)
def test_approval_is_in_the_plan(line: str, expected: Approval | None) -> None:
    assert only_node(node(line)).approve == expected
    assert found(node(line)) == []
    assert PIPELINE.is_valid(loaded(node(line)))


@pytest.mark.parametrize(
    ("defaults", "pipeline", "stage_yaml", "own", "expected"),
    [
        ("true", "", "", "", Approval()),
        ("", "true", "", "", Approval()),
        ("", "", "true", "", Approval()),
        ("true", "false", "", "", None),
        ("true", "", "false", "", None),
        ("", "true", "", "false", None),
        ("", "", "false", "true", Approval()),
        ("{by: agent}", "", "{rounds: 5}", "true", Approval(by="agent", rounds=5)),
        ("{by: agent}", "{by: person}", "", "", Approval()),
        ("{by: agent}", "false", "", "{rounds: 2}", Approval(rounds=2)),
        ("{when: supervised, rounds: 2}", "", "", "true", Approval(rounds=2)),
        ("", "{when: supervised, rounds: 2}", "{by: agent}", "", Approval(by="agent", rounds=2)),
        ("true", "{when: supervised, rounds: 2}", "", "", Approval(rounds=2)),
        ("false", "{when: supervised, rounds: 2}", "", "", None),
    ],
)
def test_approvals_merge_key_by_key_over_the_levels(
    defaults: str, pipeline: str, stage_yaml: str, own: str, expected: Approval | None
) -> None:
    text = node(*([f"approve: {own}"] if own else []))
    text = (f"approve: {pipeline}\n" if pipeline else "") + text
    text = (f"defaults: {{approve: {defaults}}}\n" if defaults else "") + text
    assert only_node(text, stage(body=f"approve: {stage_yaml}\n")).approve == expected


def test_approval_of_a_single_stage_comes_from_its_file() -> None:
    world = TextWorld(stage(body="approve: {rounds: 2}\n"))
    assert compile_stage(world, "s").plan.only_stage.approve == Approval(rounds=2)
    assert STAGE.is_valid({"approve": {"rounds": 2}})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "- -"),
        ({"line": "approve: true"}, "- person:3"),
        ({"last": "approve: true"}, "- person:3"),
        ({"line": "approve: {by: agent}", "last": "approve: {rounds: 1}"}, "- agent:1"),
        ({"line": "approve: true", "last": "approve: false"}, "- -"),
        ({"line": "approve: true", "stage_yaml": "approve: false\n"}, "- -"),
        ({"head": "approve: true\n"}, "person:3 person:3"),
        ({"head": "approve: true\n", "line": "approve: {by: agent}"}, "person:3 agent:3"),
        ({"head": "approve: true\n", "line": "approve: false"}, "- -"),
        ({"head": "approve: true\n", "line": "approve: false", "last": "approve: true"}, "- person:3"),
    ],
)
def test_approval_of_a_block_is_that_of_the_last_stage_of_each_branch(
    arguments: dict[str, str], expected: str
) -> None:
    assert block(**arguments) == expected


def test_checkpoints_of_stages_blocks_and_nested_pipelines_are_in_the_plan() -> None:
    text = (
        "nodes:\n  - {id: a, stage: s, checkpoint: start}\n"
        "  - {id: b, checkpoint: v1.2_b, parallel: {providers: [claude], stages: [{id: x, stage: s}]}}\n"
        "  - {id: c, checkpoint: 7, pipeline: inner.yaml}\n"
    )
    compiled = plan(text, INNER)
    assert [item.checkpoint for item in compiled.nodes] == ["start", "v1.2_b", "7"]
    nested = compiled.nodes[2]
    assert isinstance(nested, NestedNode)
    assert nested.plan.only_stage.checkpoint == "go"
    assert compiled.checkpoints("2.0") == ("7", "go")
    assert PIPELINE.is_valid(loaded(text))


def test_views_are_in_the_plan_each_once() -> None:
    assert plan(HEAD).pipeline.views == ()
    for text in ("views: escalations\n", "views: [escalations, escalations]\n"):
        assert plan(text + HEAD).pipeline.views == ("escalations",)
        assert PIPELINE.is_valid(loaded(text + HEAD))
    both = plan("views: [escalations, controller]\n" + HEAD).pipeline
    assert (both.has_escalations, both.has_controller_view) == (True, True)
    assert not plan("views: [escalations]\n" + HEAD).pipeline.has_controller_view


def test_plan_without_these_keys_has_none_of_them() -> None:
    text = msgspec.json.encode(plan(HEAD)).decode()
    assert not any(f'"{key}"' in text for key in ("approve", "checkpoint", "views"))


@pytest.mark.parametrize(
    ("line", "expected", "word"),
    [
        ("approve: maybe", "bad-type 5:14", "true, false or a mapping"),
        ("approve: [person]", "bad-type 5:14", "true, false or a mapping"),
        ("approve: {by: robot}", "bad-value 5:19", "`robot`"),
        ("approve: {by: [person]}", "bad-type 5:19", "approve.by"),
        ("approve: {timeout: 0, on_timeout: wait}", "bad-value 5:24", "approve.timeout"),
        ("approve: {timeout: 1h, on_timeout: wait}", "bad-type 5:24", "number of seconds"),
        ("approve: {timeout: 9, on_timeout: later}", "bad-value 5:39", "`later`"),
        ("approve: {rounds: 0}", "bad-value 5:23", "approve.rounds"),
        ("approve: {rounds: 1.5}", "bad-type 5:23", "whole number"),
        (f"approve: {{message: {'x' * (MAX_MESSAGE + 1)}}}", "bad-value 5:24", "2,001 characters"),
        ("approve: {message: [x]}", "bad-type 5:24", "approve.message"),
        ("approve: {mesage: x}", "unknown-key 5:15", "`mesage`"),
        ("aprove: true", "unknown-key 5:5", "`aprove`"),
        ("approval: true", "unknown-key 5:5", "`approval`"),
        ("checkpoint: true", "bad-type 5:17", "a name"),
        ("checkpoint: [a]", "bad-type 5:17", "a name"),
        ("checkpoint: before release", "bad-value 5:17", "a name"),
        (f"checkpoint: {'x' * 101}", "bad-value 5:17", "a name"),
        ("checkpiont: a", "unknown-key 5:5", "`checkpiont`"),
        ("views: [escalations]", "misplaced-key 5:5", "`views` in node"),
    ],
)
def test_bad_values_are_refused_by_the_compiler_and_the_schema(line: str, expected: str, word: str) -> None:
    (diagnostic,) = found(node(line))
    assert where(diagnostic) == expected
    assert word in diagnostic.message
    assert diagnostic.is_error
    if "approval" not in line:  # More than one letter differs: JSON Schema can't see that.
        assert not PIPELINE.is_valid(loaded(node(line)))


@pytest.mark.parametrize(
    ("text", "expected", "hint"),
    [
        (f"checkpoint: a\n{HEAD}", "misplaced-key 1:1", "put it on a node"),
        (f"defaults: {{checkpoint: a}}\n{HEAD}", "misplaced-key 1:12", "put it on a node"),
        (f"defaults: {{views: [escalations]}}\n{HEAD}", "misplaced-key 1:12", "top of the pipeline"),
        (f"views: [escalation]\n{HEAD}", "bad-value 1:9", "did you mean `escalations`?"),
        (f"views: {{escalations: on}}\n{HEAD}", "bad-type 1:8", ""),
        (BLOCK.format(block="views: x", last="x-a: 1"), "misplaced-key 3:5", "top of the pipeline"),
        (BLOCK.format(block="x-a: 1", last="checkpoint: a"), "misplaced-key 11:11", "on the block"),
        (
            "nodes: [{id: n, parallel: {approve: true, providers: [claude], stages: [{id: a, stage: s}]}}]",
            "misplaced-key 1:28",
            "beside `parallel`",
        ),
        ("nodes: [{id: n, pipeline: inner.yaml, approve: true}]", "misplaced-key 1:39", "on a stage of that"),
    ],
)
def test_misplaced_keys_are_refused_with_their_place(text: str, expected: str, hint: str) -> None:
    (diagnostic,) = found(text, {**INNER, **stage("t")})
    assert where(diagnostic) == expected
    assert hint in diagnostic.hint
    assert diagnostic.is_error
    assert not PIPELINE.is_valid(loaded(text))


@pytest.mark.parametrize(("key", "hint"), [("checkpoint", "on the node"), ("views", "top of the pipeline")])
def test_stage_file_refuses_keys_of_nodes_and_pipelines(key: str, hint: str) -> None:
    (diagnostic,) = found(HEAD, stage(body=f"{key}: a\n"))
    assert where(diagnostic) == "misplaced-key 2:1"
    assert hint in diagnostic.hint
    assert not STAGE.is_valid({key: "a"})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("approve: {timeout: 60}", "no-effect 5:24"),
        ("approve: {on_timeout: approve}", "no-effect 5:27"),
    ],
)
def test_half_of_a_timeout_is_a_warning(line: str, expected: str) -> None:
    (diagnostic,) = found(node(line))
    assert where(diagnostic) == expected
    assert not diagnostic.is_error
    assert found(f"approve: {{timeout: 5, on_timeout: abort}}\n{node(line)}") == []


def test_half_of_a_timeout_in_a_block_is_a_warning() -> None:
    text = BLOCK.format(block="approve: {on_timeout: abort}", last="x-a: 1")
    (diagnostic,) = found(text, stage("t"))
    assert where(diagnostic) == "no-effect 3:27"


def test_checkpoint_of_the_same_name_is_refused_in_a_file_and_a_warning_across_files() -> None:
    text = "nodes:\n  - {id: a, stage: s, checkpoint: x}\n  - {id: b, stage: s, checkpoint: x}\n"
    (diagnostic,) = found(text)
    assert where(diagnostic) == "duplicate-checkpoint 3:35"
    assert "line 2" in diagnostic.message
    assert diagnostic.is_error
    text = "nodes:\n  - {id: a, stage: s, checkpoint: go}\n  - {id: b, pipeline: inner.yaml}\n"
    (diagnostic,) = found(text, INNER)
    assert where(diagnostic) == "duplicate-checkpoint 2:35"
    assert "p.yaml" in diagnostic.message
    assert not diagnostic.is_error


def test_checkpoint_of_a_pipeline_that_is_used_twice_is_asked_once_without_a_warning() -> None:
    text = "nodes:\n  - {id: a, pipeline: inner.yaml}\n  - {id: b, pipeline: inner.yaml}\n"
    assert found(text, INNER) == []


def test_views_of_a_nested_pipeline_are_a_warning() -> None:
    files = {"inner.yaml": "views: [escalations]\nnodes: [{id: a, stage: s}]\n"}
    (diagnostic,) = found("nodes: [{id: a, pipeline: inner.yaml}]\n", files)
    assert where(diagnostic) == "ignored-key 1:9"
    assert not diagnostic.is_error
