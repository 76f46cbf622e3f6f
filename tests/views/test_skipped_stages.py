"""What later stages need of the stages that a person skips."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, nested, plan_of, stage

from agentforge.model.artifact import ArtifactRule
from agentforge.model.plan import ArtifactSource, FromStage, InputSources, Items, Plan, StageNode
from agentforge.views.skipped_stages import lacking, skippable

NAMED = {"type": "object", "properties": {"steps": {}, "goal": {}}, "required": ["steps", "request"]}
CLOSED = {"type": "object", "additionalProperties": False}
OPEN = {"type": "object"}


def leaving(id: str, schema: dict[str, Any], **changes: Any) -> StageNode:
    return stage(id, artifact=ArtifactRule(schema, fill={"request": "request"}), **changes)


def needing(*fields: str, **sources: Any) -> StageNode:
    return stage("ship", sources=InputSources(artifact=fields, **sources))


OVER_ITEMS = Items(9, "plan.steps")
BY_ITEMS = stage("build", termination=OVER_ITEMS, sources=InputSources(items=ArtifactSource("0")))
OUTPUT = (FromStage("plan", "0"),)


def found(plan: Plan, skipped: str, value: dict[str, Any] | None = None) -> str:
    return "; ".join(f"{id}: {why}" for id, why in lacking(plan, skipped.split(), value or {}))


@pytest.mark.parametrize(
    ("first", "last", "value", "expected"),
    [
        (
            leaving("plan", NAMED),
            needing("steps"),
            {},
            "plan: 'ship' needs the field 'steps' of its artifact",
        ),
        (leaving("plan", NAMED), needing("steps"), {"steps": []}, ""),
        (
            leaving("plan", NAMED),
            needing("steps"),
            {"steps": None},
            "plan: 'ship' needs the field 'steps' of",
        ),
        (leaving("plan", NAMED), needing("request"), {}, "plan: 'ship' needs the field 'request' of"),
        (leaving("plan", NAMED), needing("request_id"), {}, ""),
        (leaving("plan", OPEN), needing("any"), {}, "plan: 'ship' needs the field 'any' of its artifact"),
        (leaving("plan", CLOSED), needing("initial"), {}, ""),
        (leaving("plan", NAMED), stage("ship"), {}, ""),
        (stage("plan"), needing("initial"), {}, ""),
        (
            leaving("plan", NAMED, termination=OVER_ITEMS),
            needing("plan"),
            {"steps": []},
            "plan: 'ship' needs the field 'plan' of its artifact",
        ),
        (leaving("plan", NAMED, termination=OVER_ITEMS), needing("plan"), {"plan": {}}, ""),
        (leaving("plan", NAMED), BY_ITEMS, {}, "plan: 'build' needs the field 'steps' of its artifact"),
        (leaving("plan", NAMED), BY_ITEMS, {"steps": []}, ""),
        (stage("plan"), needing(from_stage=OUTPUT), {}, "plan: 'ship' has its output as an input"),
        (leaving("plan", NAMED), needing(from_stage=OUTPUT), {}, "plan: 'ship' has its output as an input"),
        (leaving("plan", NAMED), needing(from_stage=OUTPUT), {"steps": [1]}, ""),
        (leaving("plan", OPEN), needing(from_stage=OUTPUT), {}, ""),
        (leaving("plan", NAMED, termination=OVER_ITEMS), needing(from_stage=OUTPUT), {"plan": {}}, ""),
    ],
)
def test_what_a_later_stage_needs_must_be_given(
    first: StageNode, last: StageNode, value: dict[str, Any], expected: str
) -> None:
    plan = plan_of(first, last)
    text = found(plan, "plan", value)
    assert text.startswith(expected) if expected else not text
    assert not found(plan, "")
    # Nothing is needed by a stage that is skipped, too.
    assert not found(plan, f"plan {last.id}")


def test_another_stage_may_leave_the_field() -> None:
    plan = plan_of(leaving("plan", NAMED), leaving("replan", NAMED), needing("steps"))
    assert not found(plan, "plan")
    assert found(plan, "plan replan").startswith("plan: ")


def test_the_stages_of_a_block_are_never_skipped() -> None:
    inside = (
        leaving("plan", NAMED),
        needing("steps", from_stage=(FromStage("plan", "0.0", provider="claude"),)),
    )
    plan = plan_of(block("claude", *inside), nested("n", stage("polish")), stage("polish"))
    assert skippable(plan) == ["polish"]
    assert not found(plan, "plan ship")
    before = plan_of(leaving("plan", NAMED), block("claude", replace(needing("steps"), id="plan")))
    assert found(before, "plan").startswith("plan: 'plan' needs the field 'steps'")
