"""What the caller says of a whole run; it overrides the files."""

from typing import Any

import pytest

from agentforge.definition.compiler import compile_pipeline, compile_stage
from agentforge.model.plan import Approval, Guardrails, Overrides, Plan, Route, StageNode

from .world import TextWorld, found, plan, stage, where

TEXT = """\
nodes:
  - {id: a, stage: s}
  - {id: b, stage: s, approve: {rounds: 5, by: agent}}
"""
ROUTED = """\
nodes:
  - {id: a, stage: s, on: {pass: end, fail: b}}
  - {id: b, stage: s, on: {pass: c, fail: a}}
  - {id: c, stage: s}
"""
NESTED = "nodes:\n  - {id: a, stage: s}\n  - {id: inner, pipeline: inner.yaml}\n"
BLOCK = """\
nodes:
  - id: duel
    parallel: {providers: [claude, codex], stages: [{id: x, stage: s}]}
"""


def overridden(text: str, **given: Any) -> Plan:
    world = TextWorld({"p.yaml": text, **stage()})
    return compile_pipeline(world, "p.yaml", "session", Overrides(**given)).plan


def approvals(text: str, **given: Any) -> list[Approval | None]:
    return [one.approve for one in overridden(text, **given).stages]


def test_without_overrides_the_files_count() -> None:
    assert approvals(TEXT) == [None, Approval(rounds=5, by="agent")]


def test_in_a_supervised_run_a_person_approves_every_stage() -> None:
    assert approvals(TEXT, supervised=True) == [Approval(), Approval(rounds=5, by="agent")]
    assert approvals(BLOCK, supervised=True) == [Approval(), Approval()]


def test_an_unsupervised_run_has_no_approvals() -> None:
    assert approvals(TEXT, supervised=False) == [None, None]


def test_rounds_and_feedback_count_where_approvals_are_on() -> None:
    changed = Approval(rounds=2, by="agent", feedback=False)
    assert approvals(TEXT, rounds=2, iterate=False) == [None, changed]
    assert approvals(TEXT, supervised=True, rounds=2)[0] == Approval(rounds=2)
    assert approvals(TEXT, supervised=False, rounds=2) == [None, None]
    assert approvals("approve: {feedback: false}\n" + TEXT, iterate=True)[0] == Approval()


def test_a_single_stage_is_supervised_too() -> None:
    world = TextWorld(stage())
    given = Overrides(supervised=True, exit_after="s", max_runtime=9)
    compiled = compile_stage(world, "s", overrides=given).plan
    assert compiled.only_stage.approve == Approval()
    assert compiled.only_stage.routes == (Route("pass", "end"),)
    assert compiled.pipeline.guardrails == Guardrails(9)


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("a", ["pass→end fail→b", "pass→c fail→a", ""]),
        ("b", ["fail→b", "fail→a pass→end", ""]),
        ("c", ["fail→b", "pass→c fail→a", "pass→end"]),
    ],
)
def test_the_run_ends_after_a_stage_and_nowhere_else(last: str, expected: list[str]) -> None:
    routes = [one.routes for one in overridden(ROUTED, exit_after=last).stages]
    texts = [" ".join(f"{r.verdict}→{r.to or r.action}" for r in some) for some in routes]
    assert [set(text.split()) for text in texts] == [set(text.split()) for text in expected]


@pytest.mark.parametrize(
    ("last", "expected"), [("a", "clear→end pass→end"), ("b", "clear→end"), ("c", "clear→c")]
)
def test_no_route_leads_past_the_last_stage(last: str, expected: str) -> None:
    text = ROUTED.replace("on: {pass: end, fail: b}", "verdicts: [clear], on: {clear: c}")
    first = overridden(text, exit_after=last).stages[0]
    assert " ".join(f"{one.verdict}→{one.to or one.action}" for one in first.routes) == expected


@pytest.mark.parametrize("last", ["bb", "inner", "duel", "x"])
def test_a_run_ends_only_after_a_stage_of_its_pipeline(last: str) -> None:
    files = {"inner.yaml": "nodes: [{id: x, stage: s}]\n"}
    text = NESTED.replace("nodes:\n", BLOCK)
    (diagnostic,) = found(text, files, overrides=Overrides(exit_after=last))
    assert (where(diagnostic), diagnostic.place.file) == ("unknown-stage 1:1", "<arguments>")
    assert diagnostic.message == f"pipeline `p` has no stage `{last}` to end after"
    assert diagnostic.hint == "stages: a"
    assert diagnostic.text == f"--exit-after {last}"


def test_ending_early_skips_no_required_node() -> None:
    (diagnostic,) = found(f"require: [b]\n{TEXT}", overrides=Overrides(exit_after="a"))
    assert diagnostic.code == "skips-required"
    assert diagnostic.text == "--exit-after a"


def test_the_runtime_limit_replaces_that_of_the_pipeline() -> None:
    limited = f"guardrails: {{max_runtime_seconds: 60, on_timeout: fail}}\n{TEXT}"
    assert overridden(limited, max_runtime=5).pipeline.guardrails == Guardrails(5, "fail")
    assert overridden(TEXT, max_runtime=5).pipeline.guardrails == Guardrails(5)
    assert overridden(TEXT, max_runtime=5).stages[0].guardrails is None
    assert found(f"guardrails: {{on_timeout: fail}}\n{TEXT}", overrides=Overrides(max_runtime=5)) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"max_runtime": 0.0}, "bad-value: `--timeout` must be greater than 0"),
        ({"max_runtime": float("nan")}, "bad-type: `--timeout` must be a number of seconds"),
        ({"max_runtime": [1]}, "bad-type: `--timeout` must be a number of seconds"),
        ({"rounds": 0}, "bad-value: `rounds` must be from 1"),
        ({"supervised": "yes"}, "bad-type: `--supervised` must be true or false"),
        ({"iterate": 1}, "bad-type: `iterate` must be true or false"),
    ],
)
def test_bad_values_are_named(given: dict[str, Any], expected: str) -> None:
    (diagnostic,) = found(TEXT, overrides=Overrides(**given))
    assert f"{diagnostic.code}: {diagnostic.message}".startswith(expected)
    assert diagnostic.place.file == "<arguments>"


def test_overrides_are_kept_for_a_recompilation() -> None:
    given = {"supervised": True, "exit_after": "a", "rounds": 2, "iterate": False, "max_runtime": 5.0}
    assert overridden(TEXT, **given).pipeline.overrides == Overrides(**given)
    assert overridden(TEXT, rounds="2").pipeline.overrides == Overrides(rounds=2)


def limits(*lines: str, stage_yaml: str = "") -> Guardrails | None:
    text = "nodes:\n  - id: a\n    stage: s\n" + "".join(f"    {line}\n" for line in lines)
    node = plan(text, stage(body=stage_yaml)).only_stage
    assert isinstance(node, StageNode)
    return node.guardrails


def test_what_follows_the_runtime_limit_of_a_stage_may_be_said_elsewhere() -> None:
    fails = "guardrails: {on_timeout: fail}\n"
    assert limits("limits: {runtime: 5}", stage_yaml=fails) == Guardrails(5, "fail")
    assert limits("guardrails: {max_runtime_seconds: 5, on_timeout: ask}") == Guardrails(5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"guardrails: {{on_timeout: fail}}\n{TEXT}", "no-effect 1:26"),
        (f"guardrails: {{on_timeout: wait}}\n{TEXT}", "bad-value 1:26"),
        ("nodes:\n  - {id: a, stage: s, guardrails: {on_timeout: fail}}\n", "no-effect 2:48"),
    ],
)
def test_what_follows_no_limit_has_no_effect(text: str, expected: str) -> None:
    assert expected in list(map(where, found(text)))


def test_the_runtime_of_a_nested_pipeline_is_named_as_it_is_written() -> None:
    files = {"inner.yaml": "guardrails: {on_timeout: fail}\nnodes: [{id: x, stage: s}]\n"}
    (diagnostic,) = found(NESTED, files)
    assert diagnostic.message == "`guardrails.on_timeout` of a nested pipeline has no effect"
