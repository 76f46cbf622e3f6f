"""The course of the loop: what goes back where, how often, and when a person is asked."""

from pathlib import Path
from typing import Any

import pytest
from tests.loop.story import Story, plan, report, review, step
from tests.sdk.approvals import events
from tests.sdk.projects import load, run_dir

from agentforge.model.status import RunStatus
from agentforge.testing.scripted_provider import crashes, says


def steps_done(project: Path) -> list[str]:
    return [event.fact.item for event in events(project, "iteration_start") if event.fact.item]


@pytest.mark.requirement(
    "FR-001", "FR-002", "FR-003", "FR-004", "FR-006", "FR-008", "FR-019", "FR-020", "FR-021"
)
def test_should_complete_full_pipeline(tmp_path: Path) -> None:
    story = Story(tmp_path)
    # The request alone: the loop is the default pipeline.
    result = story.run(pipeline=None)
    assert result.completed
    assert story.stages == ["planner", "executor", "executor", "verifier", "reviewer"]
    assert steps_done(tmp_path) == ["s1", "s2"]
    assert [(visit.stage, visit.verdict) for visit in result.visits][-2:] == [
        ("verifier", "pass"),
        ("reviewer", "pass"),
    ]


@pytest.mark.requirement("FR-024", "FR-026", "FR-029")
def test_only_the_steps_that_the_verifier_names_are_repeated(tmp_path: Path) -> None:
    story = Story(tmp_path, planner=[plan("s1", "s2", "s3")], verifier=[report("s2")])
    assert story.run().completed
    # A step that needs a repeated one is not repeated with it.
    assert steps_done(tmp_path) == ["s1", "s2", "s3", "s2"]
    (back,) = events(tmp_path, "stage_transition")
    assert (back.fact.source, back.fact.to, back.fact.cycle, back.fact.of) == ("verifier", "executor", 2, 3)
    again = load(run_dir(tmp_path) / "stage-01-executor/run-002/iterations/001/context.json")
    assert "it is wrong" in again["feedback"]["text"]


@pytest.mark.requirement("FR-025", "FR-026")
def test_a_new_plan_keeps_the_steps_that_stay_the_same(tmp_path: Path) -> None:
    story = Story(
        tmp_path,
        planner=[plan("s1", "s2"), plan("s1", "s2", "s3", changes=["s3 is new"])],
        reviewer=[review("reject")],
    )
    assert story.run().completed
    assert steps_done(tmp_path) == ["s1", "s2", "s3"]
    assert [event.fact.to for event in events(tmp_path, "stage_transition")] == ["planner"]


@pytest.mark.requirement("FR-027", "FR-028", "FR-032", "FR-034", "NFR-007", "NFR-009")
@pytest.mark.parametrize(("stage", "act"), [("verifier", report("s1")), ("reviewer", review("reject"))])
def test_third_failure_asks_and_a_number_grants_more_cycles(tmp_path: Path, stage: str, act: Any) -> None:
    story = Story(tmp_path, **{stage: [act] * 3})
    asked = story.run()
    assert asked.status is RunStatus.PAUSED
    (request,) = asked.requests
    assert "cycle 3 of 3" in request.question
    assert story.stages.count(stage) == 3
    assert story.answer(request.id, "1").completed
    assert story.stages.count(stage) == 4


@pytest.mark.requirement("FR-035", "FR-036", "FR-037", "FR-038", "FR-039", "FR-058", "FR-059", "FR-060")
def test_step_that_always_fails_is_tried_six_times_and_then_a_person_is_asked(tmp_path: Path) -> None:
    story = Story(tmp_path, executor=[step(), *[crashes()] * 6])
    asked = story.run()
    assert asked.status is RunStatus.PAUSED
    assert [request.reason for request in asked.requests] == ["retries_exhausted"]
    assert story.stages.count("executor") == 1 + 6
    assert story.resume().completed
    assert steps_done(tmp_path) == ["s1", "s2"]


@pytest.mark.requirement("FR-061")
def test_step_that_cannot_be_done_goes_to_the_next_pass(tmp_path: Path) -> None:
    story = Story(tmp_path, executor=[step(), step("fail", "no idea"), step()])
    assert story.run().completed
    assert steps_done(tmp_path) == ["s1", "s2", "s2"]
    again = load(run_dir(tmp_path) / "stage-01-executor/run-002/iterations/001/context.json")
    assert "s2" in again["feedback"]["text"]


def test_plan_that_does_not_match_is_corrected(tmp_path: Path) -> None:
    story = Story(tmp_path, planner=[says("planned", artifact={"goal": "x", "steps": []})])
    assert story.run().completed
    assert story.stages[:3] == ["planner", "planner", "executor"]
    assert [event.fact.kind.value for event in events(tmp_path, "error")] == ["artifact_invalid"]


FAILED = {"name": "x", "status": "fail", "reason": "it is wrong", "suggestion": "do it right"}


@pytest.mark.parametrize(
    ("stage", "wrong"),
    [
        ("verifier", {"verdict": "pass", "checks": [FAILED]}),
        ("verifier", {"verdict": "fail", "checks": [{"name": "x", "status": "pass"}]}),
        ("reviewer", {"verdict": "pass", "summary": "s", "tried": ["x"], "dimensions": {}}),
        ("executor", {"verdict": "fail", "summary": "s"}),
    ],
)
def test_report_that_contradicts_itself_is_corrected(tmp_path: Path, stage: str, wrong: Any) -> None:
    story = Story(tmp_path, **{stage: [says("done", artifact=wrong)]})
    assert story.run().completed
    assert [event.fact.kind.value for event in events(tmp_path, "error")] == ["artifact_invalid"]


def test_planner_may_ask_and_continues_with_the_answer(tmp_path: Path) -> None:
    question = {"id": "which", "question": "Which alphabet?", "options": ["latin", "any"]}
    story = Story(tmp_path, planner=[says("unclear", decision="ask", questions=[question])])
    (request,) = story.run().requests
    assert "Which alphabet?" in request.question
    assert story.answer(request.id, "latin").completed
    assert "latin" in (run_dir(tmp_path) / "stage-00-planner/iterations/002/prompt.md").read_text()
