"""Caps on spending in definitions. A bad value never means that there is no cap."""

import pytest
from jsonschema import Draft7Validator

from agentforge.definition.read.file_keys import pipeline_schema
from agentforge.model.plan import Overrides
from agentforge.model.spending import Amount

from .test_schema import loaded
from .world import found, where

PIPELINE = Draft7Validator(pipeline_schema())
STAGE = "nodes: [{{id: n, prompt: x, {}}}]\n"
BLOCK = "nodes: [{{id: n, parallel: {{providers: [codex], stages: [{{id: s, prompt: x}}]}}, {}}}]\n"
PLACES = {
    "pipeline": "{}\nnodes: [{{id: n, prompt: x}}]\n",
    "stage": STAGE,
    "block": BLOCK,
    "stage of a block": "nodes:\n- id: n\n  parallel: {{providers: [p], stages: [{{id: s, prompt: x, {}}}]}}",
    "defaults": "defaults: {{ {} }}\nnodes: [{{id: n, prompt: x}}]\n",
}
LIMITS = ("limits: {{cost_usd: {} }}", "limits: {{tokens: {} }}")
FIGURES = ("max_iteration_cost_usd: {}", "max_iteration_tokens: {}")
BAD = ("0", "-1", ".nan", ".inf", "-.inf", "1e99", "true", "ten", "[1]", "", "null", "~", "{}")


@pytest.mark.parametrize(
    ("place", "cap"),
    [
        *((place, cap) for place in PLACES for cap in LIMITS if place != "defaults"),
        *((place, cap) for place in PLACES for cap in FIGURES if place != "block"),
    ],
)
def test_bad_value_is_an_error_that_says_what_to_do(place: str, cap: str) -> None:
    good = PLACES[place].format(cap.format("2"))
    assert found(good) == []
    assert PIPELINE.is_valid(loaded(good))
    for bad in (*BAD, *(["1.5"] if "tokens" in cap else [])):
        text = PLACES[place].format(cap.format(bad))
        (problem,) = found(text)
        assert (problem.is_error, problem.hint) == (True, "omit the key for no limit"), bad
        assert not PIPELINE.is_valid(loaded(text)), bad


@pytest.mark.parametrize(
    ("text", "at", "hint"),
    [
        (STAGE.format("limits: {cost_usd: 0}"), "bad-value 1:47", "omit the key for no limit"),
        (STAGE.format("limits: {cost_usd: }"), "bad-type 1:47", "omit the key for no limit"),
        (STAGE.format("limits: {cost: 5}"), "unknown-key 1:37", "did you mean `cost_usd`?"),
        (STAGE.format("limits: {money: 5}"), "unknown-key 1:37", "known keys: cluster, cost_usd"),
        (BLOCK.format("limits: {usd: 5}"), "unknown-key 1:88", "known keys: cost_usd, tokens"),
        (BLOCK.format("limits: {cycles: 5}"), "misplaced-key 1:88", "put it on a stage"),
        (BLOCK.format("max_iteration_cost_usd: 5"), "misplaced-key 1:79", "put it on a stage"),
        (
            "nodes: [{id: n, pipeline: q, max_iteration_tokens: 5}]\n",
            "misplaced-key 1:30",
            "put it on a stage of that pipeline",
        ),
        (
            "nodes:\n- id: n\n  parallel: {limits: {tokens: 1}, providers: [p], stages: [{id: s, stage: s}]}",
            "misplaced-key 3:14",
            "put it beside `parallel`",
        ),
        *(
            (
                "nodes:\n- id: n\n  parallel:\n    providers:\n    - {name: claude, " + cap + "}\n"
                "    stages: [{id: s, prompt: x}]\n",
                "misplaced-key 5:22",
                "put it on the block or its stages, for all branches together",
            )
            for cap in ("limits: {cost_usd: 1}", "max_iteration_cost_usd: 1", "max_iteration_tokens: 1")
        ),
        (
            STAGE.format("provider: {type: codex, limits: {tokens: 1}}"),
            "misplaced-key 1:52",
            "put it beside `provider`",
        ),
    ],
)
def test_cap_that_would_be_ignored_is_an_error(text: str, at: str, hint: str) -> None:
    (problem,) = found(text, {"q.yaml": "nodes: [{id: m, prompt: x}]\n"})
    assert (where(problem), problem.is_error) == (at, True)
    assert problem.hint.startswith(hint)
    assert not PIPELINE.is_valid(loaded(text))


HIGHER = """\
limits: {cost_usd: 1, tokens: 10}
max_iteration_cost_usd: 2
nodes:
- {id: a, prompt: x, limits: {cost_usd: 1, tokens: 11}}
- id: b
  limits: {cost_usd: 0.5}
  parallel:
    providers: [claude]
    stages: [{id: s, prompt: x, limits: {cost_usd: 0.7}, max_iteration_tokens: 12}]
- {id: c, pipeline: q, limits: {tokens: 9, cost_usd: 3}}
- {id: d, pipeline: missing}
"""
INNER = (
    "limits: {tokens: 10}\nnodes: [{id: m, prompt: x, max_iteration_cost_usd: 0.1, limits: {tokens: 99}}]\n"
)


def test_higher_cap_than_one_around_it_is_a_warning_at_its_place() -> None:
    given = [one for one in found(HIGHER, {"q.yaml": INNER}) if one.code == "higher-cap"]
    assert [(one.place.file, one.place.line, one.place.col, one.message) for one in given] == [
        (
            "p.yaml",
            2,
            25,
            "`max_iteration_cost_usd` is above the cap in p.yaml:1:20: no attempt fits below it",
        ),
        ("p.yaml", 4, 52, "`limits.tokens` has no effect: the cap in p.yaml:1:31 is lower"),
        ("p.yaml", 9, 52, "`limits.cost_usd` has no effect: the cap in p.yaml:6:22 is lower"),
        (
            "p.yaml",
            9,
            80,
            "`max_iteration_tokens` is above the cap in p.yaml:1:31: no attempt fits below it",
        ),
        ("p.yaml", 10, 54, "`limits.cost_usd` has no effect: the cap in p.yaml:1:20 is lower"),
        ("q.yaml", 1, 18, "`limits.tokens` has no effect: the cap in p.yaml:10:41 is lower"),
        ("q.yaml", 2, 74, "`limits.tokens` has no effect: the cap in p.yaml:10:41 is lower"),
    ]
    assert {(one.is_error, one.hint) for one in given} == {(False, "lower it, or raise the other one")}


def test_caps_of_the_caller_are_not_compared() -> None:
    """They count in place of those of the pipeline."""
    text = "limits: {cost_usd: 1, tokens: 5}\nnodes: [{id: n, prompt: x, limits: {cost_usd: 2, tokens: 6}}]\n"
    given = Overrides(caps=Amount(cost_usd=9.0))
    assert [where(one) for one in found(text, overrides=given)] == ["higher-cap 2:58"]
