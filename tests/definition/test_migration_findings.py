"""The parts of a definition that mean something else than they meant to the shell engine, place by place."""

import pytest

from agentforge.legacy.migration import Finding, pipeline_findings, refusal, stage_findings
from agentforge.model.diagnostic import Diagnostic, SourcePlace

from .world import PROJECT, TextWorld, stage

JUDGED = stage("judged", "termination: {type: judgment}\n")
SLOW = stage("slow", "guardrails: {max_runtime_seconds: 5}\n")
FOUR = stage("four", "model: opus\ndelay: 2\ntermination: {type: fixed, iterations: 4}\n")
HERE = SourcePlace("p.yaml", 1, 1)


def findings(nodes: str, head: str = "", **files: str) -> list[Finding]:
    text = f"name: p\n{head}nodes:\n{nodes}"
    world = TextWorld({"p.yaml": text, **stage(), **JUDGED, **SLOW, **FOUR, **files})
    return pipeline_findings(world, f"{PROJECT}/p.yaml")


def found(nodes: str, head: str = "", **files: str) -> set[tuple[int, str]]:
    """Line and rule of what the pipeline itself says; line 1 is the first of the nodes."""
    before = 2 + head.count("\n")
    told = findings(nodes, head, **files)
    return {(one.place.line - before, one.rule) for one in told if one.place.file == "p.yaml"}


def rules(told: list[Finding]) -> set[str]:
    return {one.rule for one in told}


def test_definition_that_means_the_same_has_no_findings() -> None:
    assert (
        found("  - {id: a, stage: s, runs: 2, delay: 2}\n  - {id: b, stage: s, inputs: {from: a}}\n") == set()
    )


def test_file_that_cannot_be_read_is_left_to_the_compiler() -> None:
    world = TextWorld({"p.yaml": "nodes:\n\t- x\n"})
    assert pipeline_findings(world, f"{PROJECT}/p.yaml") == []
    assert pipeline_findings(world, f"{PROJECT}/missing.yaml") == []


def test_limit_and_unsorted_inputs_of_the_pipeline() -> None:
    head = "guardrails: {max_runtime_seconds: 60}\ninputs: [b.md, a.md]\n"
    files = {"a.md": "x", "b.md": "x"}
    node = "  - {id: a, stage: s}\n"
    assert found(node, head=head, **files) == {(-2, "runtime-limit"), (-1, "sorted-inputs")}
    assert found(node, head="inputs: [a.md, b.md]\n", **files) == set()


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("{id: a, stage: four, runs: 2}", {"runs-win"}),
        ("{id: a, stage: four, runs: 4}", set()),
        ("{id: a, stage: four, termination: {type: fixed, iterations: 2}}", set()),
        ("{id: a, stage: four, provider: codex}", {"own-model"}),
        ("{id: a, stage: four, provider: claude}", set()),
        ("{id: a, stage: four, provider: codex, model: o3}", set()),
        ("{id: a, stage: judged, runs: 3, delay: 2}", {"judge-counts"}),
        ("{id: a, stage: slow}", {"runtime-limit"}),
        ("{id: a, stage: slow, guardrails: {max_runtime_seconds: 9}}", {"runtime-limit"}),
        ("{id: a, stage: s, runs: 2}", {"delays-count"}),
        ("{id: a, stage: s, runs: 2, delay: 5}", {"delays-count"}),
        ("{id: a, stage: s, inputs: {from_parallel: x}}", {"one-source-is-an-object"}),
        ("{id: a, stage: s, inputs: {from_parallel: [x]}}", set()),
        ("{id: a, stage: nowhere}", set()),
        ("{id: a, prompt: 'write ${OUTPUT}'}", {"output-per-iteration"}),
        ("{id: a, prompt: 'jq .inputs.from_parallel[0]'}", {"one-source-is-an-object"}),
        ("{stage: s}", set()),
        ("{id: a, pipeline: nowhere}", set()),
    ],
)
def test_node(node: str, expected: set[str]) -> None:
    assert rules(findings(f"  - {node}\n")) == expected


def test_model_of_a_stage_that_names_its_provider() -> None:
    ours = stage("ours", "provider: codex\nmodel: o3\n")
    assert {rule for _, rule in found("  - {id: a, stage: ours, provider: claude}\n", **ours)} == {
        "own-model"
    }
    assert found("  - {id: a, stage: ours, provider: codex}\n", **ours) == set()


def test_nested_pipeline_runs_now() -> None:
    inner = {"inner.yaml": "name: inner\nnodes: [{id: a, stage: s}]\n"}
    assert found("  - {id: in, pipeline: inner.yaml}\n", **inner) == {(1, "nested-pipelines-run")}


def test_source_whose_name_another_ends_in() -> None:
    nodes = (
        "  - {id: re-plan, stage: s}\n  - {id: plan, stage: s}\n  - {id: c, stage: s, inputs: {from: plan}}\n"
    )
    assert found(nodes) == {(3, "exact-stages")}


BLOCK = """\
  - id: first
    stage: s
  - id: both
    %s
    parallel:
      providers:
        - {name: claude, inputs: {from_parallel: x}}
        - codex
      stages:
        - {id: x, stage: slow}
        - {id: y, stage: s, inputs: {from: x}}
        - {id: z, stage: s, inputs: {from_parallel: x}}
        - {id: w, pipeline: inner.yaml}
"""


def test_inputs_within_and_of_a_block_count() -> None:
    without = {
        (7, "one-source-is-an-object"),
        (11, "stage-inputs-in-blocks"),
        (12, "stage-inputs-in-blocks"),
    }
    assert found(BLOCK % "description: two") == without
    assert "runtime-limit" in rules(findings(BLOCK % "description: two"))
    assert found(BLOCK % "inputs: {from: first}") == {*without, (4, "stage-inputs-in-blocks")}


def test_stage_by_itself() -> None:
    prompt = {".claude/stages/judged/prompt.md": "Do it.\nKeep ${OUTPUT}.\n"}
    judge, output = stage_findings(TextWorld({**JUDGED, **prompt}), "judged")
    assert (judge.rule, output.rule) == ("judge-counts", "output-per-iteration")
    assert (output.place.file, output.place.line) == (".claude/stages/judged/prompt.md", 2)
    assert stage_findings(TextWorld(), "nowhere") == []


@pytest.mark.parametrize(
    ("code", "rule", "says"),
    [
        ("unknown-node", "sources-exist", "continued without it"),
        ("unknown-key", "checked-definition", "(did you mean `runs`?); agent-pipelines ignored it"),
        ("bad-value", "checked-definition", "bad-value: it is wrong"),
    ],
)
def test_refusal_is_told_beside_what_the_original_did(code: str, rule: str, says: str) -> None:
    error = Diagnostic(code, "error", "it is wrong", HERE, hint="did you mean `runs`?")
    finding = refusal(error, HERE)
    assert (finding.rule, finding.level, finding.place) == (rule, "refused", HERE)
    assert finding.message.endswith(says)
