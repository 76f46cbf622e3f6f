"""A run in the words of pipelines: its state file, and those of its artifacts."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import plan_of, stage
from tests.engine.playbook import Play

from agentforge.model import facts as f
from agentforge.model.artifact import Artifact, ArtifactRule
from agentforge.model.event import Event
from agentforge.model.plan import Approval, Guardrails, Plan, Route, StageNode
from agentforge.model.result import JSONObject, Usage
from agentforge.views.files.pipeline import PipelineView, pipeline_settings
from agentforge.views.record import record_of

RULE = ArtifactRule({"title": "notes"}, fill={"wanted": "request"})
TWO = plan_of(
    stage("plan", approve=Approval(rounds=2), artifact=RULE), stage("build", artifact=ArtifactRule({}))
)
BEGUN = ("start", "prepared")
SHOWN = (*BEGUN, "completed")
REJECTED = (*SHOWN, "answer approval-6 reject Shorter.")
BUILDING = (*SHOWN, "answer approval-6 approve")


def events_of(plan: Plan, *happenings: str) -> list[Event]:
    conversation = Play(plan)
    for happening in happenings:
        conversation.happens(happening)
    return conversation.events


def read(artifact: Artifact) -> JSONObject:
    return artifact.value or {}


def view_of(plan: Plan, *happenings: str, **value: Any) -> PipelineView:
    """Each iteration leaves these values, and was started with a request."""
    events = []
    for event in events_of(plan, *happenings):
        fact = event.fact
        if isinstance(fact, f.SessionStarted):
            given = Artifact("artifact.json", 9, "0", value={"ticket": 7, "_x": 1})
            fact = replace(fact, user_request="add notes", artifact=given)
        if isinstance(fact, f.IterationCompleted):
            left = Artifact("a/artifact.json", 9, "0", "1.1", value={"notes": "a", **value})
            fact = replace(fact, artifact=left, usage=Usage(10, 2, cost_usd=0.5))
        events.append(replace(event, fact=fact))
    return PipelineView(record_of(events), read)


def test_result_that_is_shown_is_pending() -> None:
    view = view_of(TWO, *SHOWN)
    found = view.document()
    assert (found["status"], found["current_stage"], found["current_stage_index"]) == (
        "awaiting_approval",
        "plan",
        0,
    )
    assert (found["user_request"], found["context"]) == ("add notes", {"ticket": 7})
    assert (found["completed_stages"], found["stage_artifacts"]) == ([], {})
    assert found["pending_artifact"] | {"request_id": ""} == {
        "request_id": "",
        "original_request": "add notes",
        "notes": "a",
        "wanted": "add notes",
    }
    assert (found["total_tokens_used"], found["total_cost_usd"]) == (12, 0.5)
    assert (found["completed_at"], found["error"], view.is_over) == (None, None, False)


def test_rejection_is_pending_until_the_stage_is_visited_again() -> None:
    events = events_of(TWO, *REJECTED)
    cut = next(i for i, one in enumerate(events) if isinstance(one.fact, f.RequestResolved)) + 1
    assert PipelineView(record_of(events[:cut]), read).document()["pending_feedback"] == "Shorter."
    assert PipelineView(record_of(events), read).document()["pending_feedback"] is None


def test_approved_stage_is_completed() -> None:
    found = view_of(TWO, *BUILDING).document()
    assert (found["status"], found["current_stage"], found["current_stage_index"]) == ("running", "build", 1)
    assert (found["completed_stages"], found["approved_stages"]) == (["plan"], ["plan"])
    assert found["stage_artifacts"]["plan"]["notes"] == "a"
    assert found["pending_artifact"] is None


@pytest.mark.parametrize(
    ("happening", "status", "error"),
    [
        ("asks Which?", "paused", None),
        ("error agent_error", "failed", "agent_error"),
        ("cancel enough", "aborted", "enough"),
    ],
)
def test_status_and_error(happening: str, status: str, error: str | None) -> None:
    ends = ("cancelled",) if status == "aborted" else ()
    view = view_of(plan_of(stage("plan")), *BEGUN, happening, *ends)
    assert (view.status, view.is_over) == (status, status != "paused")
    assert (view.error is None) == (error is None)
    assert view.document()["error"] == view.error


def test_failure_says_how_many_attempts_there_were() -> None:
    again = ("error provider_timeout", "fired retry", "error provider_timeout")
    view = view_of(plan_of(stage("plan")), *BEGUN, *again)
    assert (view.error or "").startswith("Stage failed after 2 attempts: ")


def test_artifacts_of_each_visit_have_files() -> None:
    happenings = (*REJECTED, "prepared", "completed")
    first, second = view_of(TWO, *happenings, spec_id="SPEC-1").artifacts()
    assert (first.file, first.spec_id) == ("00-plan.it0.yaml", "")
    assert (second.file, second.spec_id) == ("00-plan.yaml", "SPEC-1")
    meta, about = second.content["_artifact_meta"], second.content["_metadata"]
    assert (meta["stage_name"], meta["artifact_type"], meta["version"]) == ("plan", "notes", "1.1")
    assert (about["iteration"], about["tokens_used"]) == (1, 12)
    assert view_of(TWO, *happenings).document()["iteration_count"] == {"plan": 1}


def test_stage_without_an_artifact_has_none() -> None:
    events = events_of(TWO, *BUILDING)
    view = PipelineView(record_of(events), read)
    assert (view.artifact("plan"), list(view.artifacts())) == (None, [])
    assert view.document()["stage_artifacts"] == {}


def test_type_of_an_artifact_without_a_title_is_its_stage() -> None:
    (only,) = view_of(plan_of(stage("plan", artifact=ArtifactRule({}))), *SHOWN).artifacts()
    assert only.content["_artifact_meta"]["artifact_type"] == "plan"


def test_settings_are_those_of_the_plan() -> None:
    plan = plan_of(
        stage("a", approve=Approval(rounds=5, feedback=False), routes=(Route("pass", "end"),)),
        stage("b", approve=Approval(rounds=5)),
    )
    info = replace(plan.pipeline, guardrails=Guardrails(90))
    found = pipeline_settings(replace(plan, pipeline=info))
    assert (found.stages, found.exit_after, found.supervised) == (("a", "b"), "a", True)
    assert (found.iteration_enabled, found.max_iterations_per_stage, found.timeout_seconds) == (False, 5, 90)


def test_plan_without_approvals_is_not_supervised() -> None:
    node: StageNode = stage("a")
    found = pipeline_settings(plan_of(node))
    assert (found.supervised, found.exit_after, found.timeout_seconds) == (False, None, 3600)
