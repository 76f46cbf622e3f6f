"""The course of the pipeline `design`: which stages a request goes through, and what people decide."""

from pathlib import Path

from tests.design.story import REQUEST, UNCLEAR, Design, asks, leaves
from tests.sdk.approvals import events

from agentforge import Runs, RunWork
from agentforge.model.status import RunStatus


def test_a_clear_request_is_not_clarified_and_every_result_is_approved(tmp_path: Path) -> None:
    design = Design(tmp_path)
    result = design.run()
    for stage in ("intake", "analyze", "spec"):
        assert result.status is RunStatus.AWAITING_APPROVAL
        assert f"stage {stage!r}" in result.requests[0].question
        result = design.answer("approve")
    assert result.completed
    assert design.stages == ["intake", "analyze", "spec"]
    assert design.told("analyze")["artifact"]["clarified_requirements"] == REQUEST
    last = RunWork(Runs(tmp_path, {}), "s").artifacts()[-1]
    assert last.added["original_request"] == REQUEST
    assert last.added["spec_id"].startswith("SPEC-")


def test_blocking_questions_are_asked_and_the_answers_become_requirements(tmp_path: Path) -> None:
    design = Design(tmp_path, intake=[UNCLEAR], clarify=[asks("Which provider?")])
    result = design.run(approve=True)
    assert result.status is RunStatus.AWAITING_APPROVAL
    assert [request.question for request in result.requests] == ["Which provider?"]
    assert design.told("clarify")["artifact"]["initial_questions"][0]["priority"] == "blocking"
    assert design.answer("GitHub").completed
    assert design.stages == ["intake", "clarify", "clarify", "analyze", "spec"]
    assert design.told("clarify", 2)["answers"][0]["answer"] == "GitHub"
    # What clarify leaves counts, and not what the engine filled in for it.
    assert design.told("analyze")["artifact"]["clarified_requirements"] == "Log in with GitHub."


def test_a_fourth_round_of_questions_escalates(tmp_path: Path) -> None:
    rounds = [asks(f"Question {number}?") for number in range(4)]
    design = Design(tmp_path, intake=[UNCLEAR], clarify=rounds)
    design.run(approve=True)
    for _ in range(3):
        result = design.answer("yes")
    assert result.status is RunStatus.PAUSED
    assert [request.kind for request in result.requests] == ["escalation"]
    assert design.answer("1").status is RunStatus.AWAITING_APPROVAL
    assert design.answer("yes").completed


def test_a_rejected_stage_is_visited_again_with_the_feedback_and_its_previous_artifact(
    tmp_path: Path,
) -> None:
    design = Design(tmp_path, spec=[leaves("spec", title="The first"), leaves("spec", title="The second")])
    design.run()
    design.answer("approve")
    design.answer("approve")
    assert design.answer("reject", "Name the errors").status is RunStatus.AWAITING_APPROVAL
    again = design.told("spec", visit=2)
    assert again["feedback"]["text"] == "Name the errors"
    assert again["previous"]["title"] == "The first"
    assert design.answer("approve").completed
    assert design.stages == ["intake", "analyze", "spec", "spec"]
    ids = {
        one.added["spec_id"] for one in RunWork(Runs(tmp_path, {}), "s").artifacts() if one.stage == "spec"
    }
    assert len(ids) == 1


def test_a_record_that_contradicts_itself_is_corrected(tmp_path: Path) -> None:
    question = {"question": "Which provider?", "priority": "blocking"}
    design = Design(tmp_path, intake=[leaves("intake", initial_questions=[question]), UNCLEAR])
    assert design.run(approve=True).completed
    assert design.stages == ["intake", "intake", "clarify", "analyze", "spec"]
    assert [event.fact.kind for event in events(tmp_path, "error")] == ["artifact_invalid"]
