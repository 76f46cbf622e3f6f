"""The executors of the built-in stages: what they ask a model, and what they make of its answer."""

from pathlib import Path
from typing import Any

import pytest
from tests.design.story import ARTIFACTS, QUESTION, REQUEST
from tests.unit.pipeline.scripted_stages import Analyze, Clarify, Intake, Spec, yaml_of
from tests.unit.pipeline.states import state

from agentforge import artifact_id, read_yaml
from agentforge.core.pipeline.results import StageResult, StageStatus
from agentforge.core.pipeline.stages.analyze import INCOMPLETE, AnalyzeExecutor, create_analyze_executor
from agentforge.core.pipeline.stages.clarify import ClarifyExecutor, create_clarify_executor
from agentforge.core.pipeline.stages.intake import IntakeExecutor, create_intake_executor
from agentforge.core.pipeline.stages.packaged import PackagedStage
from agentforge.core.pipeline.stages.spec import SpecExecutor, create_spec_executor

IDS = {"request_id": "REQ-20260102T153000Z-0a1b2c3d", "original_request": REQUEST}
OPEN = {**QUESTION, "priority": "blocking"}
SUBMITTED = {
    "analysis_summary": "There is no login.",
    "complexity": "low",
    "affected_files": ["app.py"],
    "components": [{"name": "login"}],
}


def run(executor: Any, folder: Path, given: dict[str, Any], **changes: Any) -> StageResult:
    result = executor.execute({**IDS, **given}, state(**changes), folder)
    assert isinstance(result, StageResult)
    return result


@pytest.mark.parametrize(
    ("executor", "artifact_type", "required", "left"),
    [
        (create_intake_executor(), "intake_record", (), ("request_id", "detected_scope", "priority")),
        (
            create_clarify_executor(),
            "clarified_requirements",
            ("request_id", "detected_scope"),
            ("request_id", "clarified_requirements", "scope_confirmed"),
        ),
        (
            create_analyze_executor(),
            "analysis_result",
            ("request_id", "clarified_requirements"),
            ("request_id", "analysis", "affected_files", "components"),
        ),
        (
            create_spec_executor({"llm": {}}),
            "specification",
            ("request_id", "analysis", "components"),
            ("spec_id", "request_id", "components", "test_cases"),
        ),
    ],
)
def test_what_each_executor_needs_and_leaves(
    executor: PackagedStage, artifact_type: str, required: Any, left: Any
) -> None:
    assert executor.artifact_type == artifact_type
    assert (executor.required_input_fields, executor.output_fields) == (required, left)
    assert executor.stage_name == executor.contract.name


def test_intake_records_with_defaults_and_ids_that_no_model_gives(tmp_path: Path) -> None:
    intake = Intake().answers(
        yaml_of(request_id="REQ-1", detected_scope="bug_fix", priority=None, keywords=["login"])
    )
    result = run(intake, tmp_path, {})
    assert result.status is StageStatus.COMPLETED, result.error
    assert result.artifact == {
        **IDS,
        "detected_scope": "bug_fix",
        "priority": "medium",
        "keywords": ["login"],
        "initial_questions": [],
        "detected_components": [],
    }
    (asked,) = intake.asked
    assert "# Record the request" in asked
    assert "${" not in asked
    assert '"request_id"' not in asked


def test_without_a_run_a_request_gets_an_id(tmp_path: Path) -> None:
    intake = Intake().answers(yaml_of(detected_scope="testing"))
    result = intake.execute({}, state(user_request=REQUEST), tmp_path)
    assert result.artifact is not None
    assert result.artifact["request_id"].startswith("REQ-2")
    assert result.artifact["original_request"] == REQUEST


def test_an_answer_that_does_not_match_is_sent_back_once(tmp_path: Path) -> None:
    wrong, right = yaml_of(detected_scope="large"), yaml_of(detected_scope="testing", priority="soon")
    intake = Intake().answers(wrong, right)
    result = run(intake, tmp_path, {})
    assert result.success
    assert result.warnings == ["Invalid priority: soon"]
    assert "detected_scope" in intake.asked[1].partition("can't be used:")[2]
    failed = run(Intake().answers(wrong), tmp_path, {})
    assert failed.status is StageStatus.FAILED
    assert "detected_scope" in str(failed.error)


@pytest.mark.parametrize(
    ("executor", "artifact", "errors", "warnings"),
    [
        (IntakeExecutor(), {"detected_scope": "huge", "priority": "low"}, 1, 0),
        (IntakeExecutor(), {"detected_scope": "unclear", "priority": "low"}, 0, 1),
        (IntakeExecutor(), {"detected_scope": "unclear"}, 1, 0),
        (ClarifyExecutor(), {**ARTIFACTS["clarify"], "clarified_requirements": ""}, 1, 0),
        (ClarifyExecutor(), {**ARTIFACTS["clarify"], "ready_for_analysis": False}, 0, 1),
        (AnalyzeExecutor(), {**ARTIFACTS["analyze"], "affected_files": [], "components": []}, 0, 2),
        (SpecExecutor(), {"spec_id": "S", **ARTIFACTS["spec"], "test_cases": []}, 0, 2),
        (SpecExecutor(), {"spec_id": "S", **ARTIFACTS["spec"], "components": []}, 1, 0),
    ],
)
def test_what_is_an_error_of_an_artifact_and_what_a_warning(
    executor: PackagedStage, artifact: dict[str, Any], errors: int, warnings: int
) -> None:
    found = executor.validate_output({**IDS, **artifact})
    assert (found.valid, len(found.errors), len(found.warnings)) == (not errors, errors, warnings)
    assert executor.validate_output(None).errors == ["No artifact produced"]


# -- clarify

RECORD = {"detected_scope": "feature_addition", "priority": "high", "keywords": ["login"]}


def test_a_request_without_blocking_questions_is_passed_through(tmp_path: Path) -> None:
    optional = {**QUESTION, "priority": "optional"}
    clarify = Clarify().answers("")
    result = run(clarify, tmp_path, {**RECORD, "initial_questions": [optional]})
    assert result.artifact == {
        **IDS,
        "clarified_requirements": REQUEST,
        "scope_confirmed": True,
        "ready_for_analysis": True,
        "refined_scope": "feature_addition",
        "refined_components": [],
        "answered_questions": [],
        "remaining_questions": [],
        "priority": "high",
        "keywords": ["login"],
    }
    assert clarify.asked == []
    always = Clarify({"auto_skip_if_no_blocking_questions": False})
    always.answers(yaml_of(**ARTIFACTS["clarify"]))
    assert run(always, tmp_path, RECORD).success
    assert len(always.asked) == 1


def test_blocking_questions_escalate_until_they_are_answered(tmp_path: Path) -> None:
    clarify = Clarify().answers(
        yaml_of(**ARTIFACTS["clarify"], remaining_questions=[{"question": "Who?", "priority": "blocking"}]),
        yaml_of(**ARTIFACTS["clarify"]),
    )
    given = {**RECORD, "initial_questions": [OPEN]}
    first = run(clarify, tmp_path, given)
    reason = "Blocking questions require answers:\n  - Which provider? (context: it decides the flow)"
    assert (first.escalation_reason, first.status) == (reason, StageStatus.PENDING)
    assert first.artifact == {
        "request_id": IDS["request_id"],
        "blocking_questions": [OPEN],
        "status": "awaiting_answers",
    }
    answered = {**given, "question_answers": {"Which provider?": "GitHub"}}
    second = run(clarify, tmp_path, answered)
    assert second.escalation_reason == "Blocking questions require answers:\n  - Who?"
    third = run(clarify, tmp_path, given, pending_feedback="Everyone, with GitHub")
    assert third.success, third.error
    assert third.artifact is not None
    assert third.artifact["clarified_requirements"] == "Log in with GitHub."
    assert third.artifact["priority"] == "high"
    assert '"blocking"' in clarify.asked[0]


# -- analyze

NEEDED = {"clarified_requirements": "Log in with GitHub.", "priority": "high"}


@pytest.mark.parametrize("reply", [SUBMITTED, yaml_of(**ARTIFACTS["analyze"])])
def test_the_analysis_is_submitted_or_in_the_text(tmp_path: Path, reply: Any) -> None:
    analyze = Analyze().answers(reply)
    result = run(analyze, tmp_path, NEEDED)
    assert result.success, result.error
    assert result.artifact is not None
    assert result.artifact["analysis"]["summary"].startswith("There is no login")
    assert result.artifact["components"] == [{"name": "login"}]
    assert {name: result.artifact[name] for name in NEEDED} == NEEDED
    assert analyze.tools_given[-1] == "submit_analysis"


def test_an_analysis_that_is_not_submitted_is_marked_as_incomplete(tmp_path: Path) -> None:
    analyze = Analyze().answers("The login is in app.py.")
    result = run(analyze, tmp_path, NEEDED)
    assert result.artifact is not None
    assert result.artifact["analysis"] == {"summary": "The login is in app.py."}
    assert [risk["description"] for risk in result.artifact["risks"]] == [INCOMPLETE]
    assert any(INCOMPLETE in warning for warning in result.warnings)
    assert len(analyze.asked) == 2
    assert run(Analyze().answers(""), tmp_path, NEEDED).status is StageStatus.FAILED


# -- spec


def test_a_specification_has_the_id_that_the_engine_gives_and_a_file(tmp_path: Path) -> None:
    spec = Spec().answers(yaml_of(**{**ARTIFACTS["spec"], "spec_id": "SPEC-1"}))
    result = run(spec, tmp_path, ARTIFACTS["analyze"])
    assert result.success, result.error
    assert result.artifact is not None
    id = artifact_id("spec_id", "spec", IDS["request_id"])
    assert (result.artifact["spec_id"], result.artifact["version"]) == (id, "1.0")
    assert result.artifact["created_at"]
    saved = read_yaml(tmp_path / ".agentforge/specs" / f"{id}.yaml")
    assert saved == result.artifact
