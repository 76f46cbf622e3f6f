"""Judgment, queue and the older completion: what node and stage.yaml come to together."""

import pytest

from agentforge.definition.compiler import compile_stage
from agentforge.model.plan import Fixed, Judgment, Queue, Termination

from .world import TextWorld, found, only_node, plan, stage, where

HEAD = "nodes:\n  - id: n\n    stage: s\n"


def of(stage_yaml: str, node: str = "") -> Termination:
    return only_node(f"{HEAD}    {node}\n", stage("s", stage_yaml)).termination


@pytest.mark.parametrize(
    ("stage_yaml", "node", "expected"),
    [
        ("termination: {type: judgment, min_iterations: 3, consensus: 2, max: 9}\n", "", Judgment(9, 3, 2)),
        ("termination: {type: judgment, max: 5}\n", "", Judgment(5)),
        ("termination: {type: judgment, iterations: 5}\n", "", Judgment(5)),
        ("termination: {type: judgment, min_iterations: 0, max: 2}\n", "", Judgment(2, 0)),
        ("", "termination: {type: judgment, consensus: '3'}", Judgment(1, None, 3)),
        ("", "runs: {type: judgment, max: 8}", Judgment(8)),
        ("completion: plateau\nmin_iterations: 4\nconsensus: 3\nruns: 6\n", "", Judgment(6, 4, 3)),
        ("termination: {type: queue, max: 4, command: bd ready}\n", "", Queue(4, False, "bd ready")),
        ("termination: {type: queue, check_before: true, max: 2}\n", "", Queue(2, True)),
        ("termination: {type: queue, max: 2}\ncheck_before: true\n", "", Queue(2, True)),
        ("completion: beads-empty\ncheck_before: true\n", "runs: 7", Queue(7, True)),
        ("completion: fixed-n\nmin_iterations: 3\n", "runs: 2", Fixed(2)),
    ],
)
def test_types_of_termination(stage_yaml: str, node: str, expected: Termination) -> None:
    assert of(stage_yaml, node) == expected


@pytest.mark.parametrize(
    ("stage_yaml", "node", "expected"),
    [
        # `runs` in a node overrides what stage.yaml says.
        ("termination: {type: judgment, max: 5}\n", "runs: 3", Judgment(3)),
        ("termination: {type: queue, iterations: 5}\n", "runs: 3", Queue(3)),
        # Key by key.
        ("termination: {type: judgment, min_iterations: 3}\n", "termination: {max: 6}", Judgment(6, 3)),
        (
            "termination: {type: judgment, consensus: 3, max: 9}\n",
            "termination: {consensus: 1}",
            Judgment(9, None, 1),
        ),
        ("termination: {type: queue, check_before: true, max: 3}\n", "check_before: false", Queue(3)),
        # A change of type drops the settings of the other type; how often is common to all.
        (
            "termination: {type: judgment, consensus: 2}\n",
            "termination: {type: fixed, iterations: 2}",
            Fixed(2),
        ),
        ("termination: {type: fixed, iterations: 4}\n", "termination: {type: judgment}", Judgment(4)),
        ("termination: {type: queue, command: x, max: 3}\n", "termination: {type: judgment}", Judgment(3)),
        (
            "termination: {type: judgment, min_iterations: 2, max: 3}\n",
            "termination: {type: queue}",
            Queue(3),
        ),
        ("completion: fixed-n\nmin_iterations: 2\n", "completion: plateau\n    runs: 2", Judgment(2, 2)),
    ],
)
def test_node_over_stage_yaml(stage_yaml: str, node: str, expected: Termination) -> None:
    assert of(stage_yaml, node) == expected


def test_unsaid_settings_have_their_defaults() -> None:
    judgment = Judgment(5)
    assert (judgment.judged_from, judgment.required_stops) == (1, 2)


def test_single_stage_judgment_runs_to_25() -> None:
    world = TextWorld(stage("s", "termination: {type: judgment}\n"))
    assert compile_stage(world, "s", "x").plan.only_stage.termination == Judgment(25)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{HEAD}    runs: 2\n", False),
        (f"{HEAD}    completion: beads-empty\n", True),
        (
            "nodes:\n  - id: b\n    parallel:\n      providers: [claude]\n      stages:\n"
            "        - {id: a, stage: s, termination: {type: queue, max: 2}}\n",
            True,
        ),
        ("nodes: [{id: p, pipeline: inner.yaml}]\n", True),
    ],
)
def test_bd_dependency_for_a_queue_anywhere(text: str, expected: bool) -> None:
    inner = {"inner.yaml": "nodes: [{id: n, stage: s, termination: {type: queue, max: 2}}]\n"}
    assert plan(text, inner).dependencies["bd"] is expected


@pytest.mark.parametrize(
    ("line", "expected", "word"),
    [
        ("termination: {type: judgment, max: 3, consensus: 0}", "bad-value 4:54", "termination.consensus"),
        (
            "termination: {type: judgment, max: 3, min_iterations: -1}",
            "bad-value 4:59",
            "termination.min_",
        ),
        (
            "termination: {type: judgment, max: 3, min_iterations: x}",
            "bad-type 4:59",
            "termination.min_",
        ),
        ("termination: {type: queue, max: 3, check_before: 1}", "bad-type 4:54", "true or false"),
        ("termination: {type: queue, max: 3, command: [x]}", "bad-type 4:49", "`termination.command`"),
        ("completion: plateau\n    consensus: 0\n    runs: 2", "bad-value 5:16", "`consensus`"),
        ("check_before: maybe", "bad-type 4:19", "true or false"),
    ],
)
def test_bad_settings(line: str, expected: str, word: str) -> None:
    (diagnostic,) = found(f"{HEAD}    {line}\n")
    assert where(diagnostic) == expected
    assert word in diagnostic.message
    assert diagnostic.is_error


@pytest.mark.parametrize(
    ("line", "expected", "word"),
    [
        ("termination: {type: judgment}", "no-maximum 2:5", "one iteration"),
        ("termination: {type: queue}", "no-maximum 2:5", "one iteration"),
        ("termination: {type: judgment, min_iterations: 4, max: 3}", "never-judged 4:51", "never judged"),
        ("consensus: 3", "ignored-key 4:5", "`completion`"),
        ("termination: {max: 2}\n    min_iterations: 3", "ignored-key 5:5", "`completion`"),
    ],
)
def test_settings_that_surprise_are_warned_of(line: str, expected: str, word: str) -> None:
    (diagnostic,) = found(f"{HEAD}    {line}\n")
    assert where(diagnostic) == expected
    assert word in diagnostic.message
    assert not diagnostic.is_error


def test_runs_as_a_mapping_beside_termination_is_refused_at_its_place() -> None:
    node = "{id: a, stage: s, runs: {type: fixed, iterations: 2}, termination: {type: fixed, iterations: 3}}"
    assert [where(one) for one in found(f"nodes: [{node}]")] == ["bad-type 1:33"]


@pytest.mark.parametrize(("minimum", "warned"), [(2, False), (3, False), (4, True)])
def test_a_stage_that_is_judged_after_its_last_iteration_is_judged(minimum: int, warned: bool) -> None:
    judged = f"{{type: judgment, min_iterations: {minimum}, max: 3}}"
    codes = [d.code for d in found(f"nodes:\n  - {{id: a, prompt: x, termination: {judged}}}\n")]
    assert ("never-judged" in codes) is warned
