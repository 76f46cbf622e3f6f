"""Descriptions of courses."""

from typing import get_args

import pytest

from agentforge.engine.rehearsal.rehearse import Difference, Rehearsal
from agentforge.model import facts as f
from agentforge.model.artifact import PlannedItem
from agentforge.model.course import CourseStep, CourseStepKind
from agentforge.views.lines.course import course_lines, describe_difference


def words(was: CourseStep, now: CourseStep | None, *unrecorded: CourseStep) -> str:
    return describe_difference(Rehearsal((), (), Difference(was, now), unrecorded))


@pytest.mark.parametrize(
    ("was", "now", "sentence"),
    [
        (
            CourseStep("node_over", "review", iteration=3, detail="Agent requested stop at iteration 3"),
            CourseStep("iteration", "review", iteration=4),
            "stage 'review': the past run ended after iteration 3 (Agent requested stop at iteration 3); "
            "this pipeline would continue with iteration 4, which has no recorded outcome",
        ),
        (
            CourseStep("node_entered", "review"),
            CourseStep("node_entered", "plan"),
            "the past run entered stage 'review'; this pipeline would enter stage 'plan'",
        ),
        (
            CourseStep("attempt", "duel/draft", "codex", iteration=2, attempt=2, detail="codex"),
            CourseStep("run_failed", "duel", detail="provider_crashed"),
            "the past run started iteration 2 with codex, attempt 2 in stage 'duel/draft' of codex; "
            "this pipeline would fail (provider_crashed)",
        ),
        (
            CourseStep("attempt", "plan", iteration=1, attempt=1, detail="claude"),
            CourseStep("attempt", "plan", iteration=1, attempt=1, detail="codex"),
            "stage 'plan': the past run started iteration 1 with claude; "
            "this pipeline would start iteration 1 with codex",
        ),
        (
            CourseStep("run_completed", "plan", detail="all_loops_complete"),
            None,
            "the past run completed (reached the end of the pipeline); this pipeline would stop here",
        ),
    ],
)
def test_a_difference_is_one_sentence(was: CourseStep, now: CourseStep | None, sentence: str) -> None:
    assert words(was, now, CourseStep("attempt", "review", iteration=4, attempt=1)) == sentence


@pytest.mark.parametrize("what", get_args(CourseStepKind))
def test_every_step_has_phrases_for_both_sides(what: CourseStepKind) -> None:
    turn = CourseStep(what, "plan", "claude", 1, 2, 3, "because")
    assert "{" not in words(turn, turn)


def test_same_course_and_missing_node_are_described() -> None:
    assert describe_difference(Rehearsal((), ())) == "the course is the same"
    gone = Difference(CourseStep("resumed"), None, "node 'x' is gone")
    assert describe_difference(Rehearsal((), (), gone)) == "node 'x' is gone"


def test_a_course_is_a_line_for_each_stage_and_one_for_the_run() -> None:
    course = [
        CourseStep("node_entered", "duel", detail="claude, codex"),
        CourseStep("iteration", "duel/draft", "claude", 1, 1),
        CourseStep("stage_over", "duel/draft", "claude", 1, 1, detail="Completed 1 iterations\n(max: 1)"),
        CourseStep("person_asked", "duel", detail="attempts_lost"),
        CourseStep("run_paused", "duel", detail="attempts_lost"),
        CourseStep("resumed", "duel"),
        CourseStep("iteration", "plan", None, 2, 3),
    ]
    assert course_lines(course) == [
        "duel: not ended",
        "duel/draft @ claude: 1 iteration, Completed 1 iteration (max: 1)",
        "plan, visit 2: 3 iterations, not ended",
        "the run has not ended",
    ]
    assert (
        course_lines([*course, CourseStep("run_completed", detail="done")])[-1] == "the run completed (done)"
    )


def test_items_are_steps_of_a_course() -> None:
    items = (PlannedItem("a", "1"), PlannedItem("b", "2", status="done"))
    planned = f.ItemsPlanned(items).step()
    assert words(planned, None) == ("the past run planned its items (1 of 2); this pipeline would stop here")
    ended = f.ItemEnded("a", "failed")
    assert ended.is_progress
    assert "a: failed" in words(ended.step(), None)
