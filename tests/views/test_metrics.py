"""What the stages of a run took: durations, tokens, retries, steps, cycles and approvals."""

from datetime import UTC
from typing import Any

import pytest
from tests.views.item_runs import PLAN, ItemStory, at, used
from tests.views.test_work import Story

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.facts import AnyFact
from agentforge.model.facts.judge import JudgeResult
from agentforge.model.failure import FailureKind
from agentforge.model.result import Usage
from agentforge.views.lines.entries import Shown
from agentforge.views.lines.metrics import metrics_entry, metrics_lines
from agentforge.views.metrics import StageMetrics, metrics_of

SPENT = Usage(1000, 200)
CRASHED = FailureKind.PROVIDER_CRASHED


def metrics(story: Story) -> dict[str, StageMetrics]:
    return {one.stage: one for one in metrics_of(story.fold)}


def only(story: Story) -> StageMetrics:
    (found,) = metrics_of(story.fold)
    return found


def attempt(number: int, where: Cursor, story: Story, *, usage: Usage | None = None) -> Story:
    """One that fails."""
    story.add(f.AttemptStarted(number, 3, "claude", "opus"), where)
    return story.add(f.ErrorOccurred(CRASHED, "it died", "plan", number, usage=usage), where)


def entered() -> ItemStory:
    return ItemStory().enter("0")


def judged(status: Any = "success", usage: Usage | None = None) -> f.JudgeCompleted:
    return f.JudgeCompleted(status=status, result=JudgeResult(True, "enough"), usage=usage)


def lines(story: Story) -> list[str]:
    return list(metrics_lines(metrics_of(story.fold)))


def rows(story: Story, status: str = "running") -> list[tuple[str, str]]:
    entry = metrics_entry(only(story), Shown("/runs/auth", status, UTC))
    return [(entry.mark, entry.title), *((row.label, row.value) for row in entry.rows)]


def test_a_run_without_visits_has_none() -> None:
    assert metrics_of(ItemStory().fold) == []
    assert lines(ItemStory()) == ["Stage Metrics:"]


@pytest.mark.requirement("FR-023", "FR-077", "FR-079", "FR-080", "FR-081")
def test_stages_with_steps_cycles_and_verdicts() -> None:
    story = entered().iteration(at("0", 1), usage=Usage(2000, 450), context=used(900))
    story.add(f.NodeCompleted("plan", "enough", 1), at("0", 1))
    story.items().item(1, "s1", usage=SPENT).item(2, "s2", status="failed", usage=SPENT)
    story.add(f.NodeCompleted("build", "enough", 2), at("1", 2))
    story.enter("2").iteration(at("2", 1), usage=SPENT)
    story.add(f.StageVerdictReached("fail", "a test fails"), at("2", 1))
    story.add(f.NodeCompleted("verify", "enough", 1, verdict="fail"), at("2", 1))
    story.enter("2", 2).iteration(at("2", 1, 2), usage=SPENT)
    story.add(f.StageVerdictReached("pass"), at("2", 1, 2))
    story.add(f.NodeCompleted("verify", "enough", 1, verdict="pass"), at("2", 1, 2))
    assert lines(story) == [
        "Stage Metrics:",
        "  Plan:",
        "    Duration: 4.0s",
        "    Tokens: 2,450 / 1,000",
        "    Retries: 0",
        "",
        "  Build:",
        "    Duration: 10.0s",
        "    Tokens: 2,400",
        "    Retries: 0",
        "    Steps: 1 / 3",
        "",
        "  Verify:",
        "    Duration: 10.0s",
        "    Tokens: 2,400",
        "    Retries: 0",
        "    Cycles: 2",
        "    Approved: true",
    ]
    found = metrics(story)
    assert (found["plan"].tokens_given, found["build"].tokens_given) == (900, None)
    assert (found["build"].steps, found["build"].steps_done, found["build"].visits[0].steps) == (3, 1, 2)
    verify = found["verify"]
    assert [(one.visit, one.verdict, one.approved) for one in verify.visits] == [
        (1, "fail", False),
        (2, "pass", True),
    ]
    assert (verify.visit, verify.cycles, verify.verdict, verify.is_over) == (2, 2, "pass", True)
    entry = metrics_entry(verify, Shown("/runs/auth", "running", UTC))
    assert (entry.mark, entry.title) == ("done", "verify")
    assert [row.value for row in entry.rows if row.label.startswith("Visit")] == [
        "5.0s, 1,200 tokens, 0 retries, fail",
        "5.0s, 1,200 tokens, 0 retries, pass",
    ]


def test_all_steps_are_one_number_once_they_are_done() -> None:
    story = ItemStory().planned().items()
    for number, id in enumerate(("s1", "s2", "s3"), 1):
        story.item(number, id)
    assert "    Steps: 3" in lines(story)
    story.items(2)
    entry = metrics_entry(metrics(story)["build"], Shown("/runs/auth", "paused", UTC))
    assert entry.mark == "stopped"
    assert entry.rows[-1].value == "1.0s, 0 tokens, 0 retries, 0 steps, not finished"


def test_an_attempt_after_a_failed_one_is_a_retry() -> None:
    story = entered().add(f.IterationStarted("plan", "plan", "claude", "opus", "0"), at("0", 1))
    story.add(f.ErrorOccurred(FailureKind.PROMPT_UNREADABLE, "no file", "plan", 0), at("0", 1))
    attempt(2, at("0", 1), attempt(1, at("0", 1), story))
    story.add(f.AttemptStarted(3, 3, "claude", "opus"), at("0", 1))
    story.add(f.AttemptLost(3, "the host died", started=True), at("0", 1))
    story.add(f.AttemptStarted(4, 3, "claude", "opus"), at("0", 1)).complete(at("0", 1), attempt=4)
    assert only(story).retries == 2


def test_the_iteration_after_one_that_failed_counts_as_the_first_attempt() -> None:
    story = attempt(1, at("0", 1), entered()).complete(at("0", 1))
    story.add(f.IterationStarted("plan", "plan", "claude", "opus", "0"), at("0", 2))
    story.add(f.AttemptStarted(1, 3, "claude", "opus"), at("0", 2))
    assert only(story).retries == 0


@pytest.mark.requirement("FR-078")
def test_tokens_that_were_not_reported_are_unknown() -> None:
    story = attempt(1, at("0", 1), entered())
    assert rows(story)[2] == ("Tokens", "unknown")
    assert (only(story).tokens_used, only(story).tokens_unreported) == (None, 1)
    attempt(2, at("0", 1), story, usage=Usage(input_tokens=70))
    assert rows(story)[2] == ("Tokens", "70 + unknown")
    # An agent session without numbers reports none, and what never started uses none.
    attempt(3, at("0", 1), story, usage=Usage(agent_session="s-1"))
    story.add(f.AttemptLost(4, "gone", started=False), at("0", 1))
    assert only(story).tokens_unreported == 2
    assert rows(entered())[2] == ("Tokens", "0")


@pytest.mark.parametrize(
    ("fact", "used", "unreported"),
    [
        (judged(usage=Usage(5, 2)), 7, 0),
        (judged("failed"), None, 1),
        (judged("skipped"), 0, 0),
    ],
)
def test_tokens_of_the_judge_count(fact: AnyFact, used: int | None, unreported: int) -> None:
    one = only(entered().add(fact, at("0", 1)))
    assert (one.tokens_used, one.tokens_unreported) == (used, unreported)


def test_a_duration_leaves_out_what_the_run_waited() -> None:
    story = entered().iteration(at("0", 1))
    assert rows(story)[0] == ("current", "plan")
    story.add(f.SessionPaused("requested")).add(f.SessionResumed("ada"))
    story.add(f.IterationStarted("plan", "plan", "claude", "opus", "0"), at("0", 2))
    assert only(story).duration_seconds == 5.0
    story.add(f.NodeCompleted("plan", "enough", 1), at("0", 1))
    over = only(story)
    assert (over.duration_seconds, over.is_over) == (6.0, True)
    # What comes later is of no visit that is over.
    story.add(f.NoteAdded("ok", "ada")).add(f.CheckpointCleared("go", "ada"), at("0", 1))
    assert only(story) == over


def test_a_fact_of_a_stopped_run_adds_nothing_to_the_duration() -> None:
    story = entered().add(f.SessionPaused("requested"))
    story.add(f.NodeCompleted("plan", "enough", 1), at("0", 1))
    assert only(story).duration_seconds == 1.0


def test_long_durations_are_spans() -> None:
    story = entered()
    for _ in range(90):
        story.add(f.IterationStarted("plan", "plan", "claude", "opus", "0"), at("0", 1))
    assert rows(story)[1] == ("Duration", "1m 30s")


@pytest.mark.parametrize(("answer", "approved"), [("approve", True), ("reject", False)])
def test_an_approval_is_what_its_answer_says(answer: str, approved: bool) -> None:
    story = entered().iteration(at("0", 1))
    asked = f.RequestOpened("a-1", "approval", "k", "approval", "Good?", ("approve", "reject"))
    story.add(asked, at("0", 1))
    assert only(story).approved is None
    story.add(f.RequestAnswered("a-1", answer, "ada"), at("0", 1))
    assert only(story).approved is approved
    mark = {True: "current", False: "failed"}[approved]
    assert rows(story)[0] == (mark, "plan")
    assert rows(story)[-2:] == [("Cycles", "1"), ("Approved", str(approved).lower())]


def test_a_result_that_a_person_accepted_is_approved() -> None:
    story = entered().add(f.StageVerdictReached("fail"), at("0", 1))
    story.add(f.NodeCompleted("plan", "enough", 1, verdict="fail", overridden_by="ada"), at("0", 1))
    assert only(story).approved is True


def test_branches_of_a_block_are_listed_each() -> None:
    story = ItemStory()
    for provider in ("claude", "codex"):
        story.iteration(at("3.0", 1, branch=provider))
    assert [line for line in lines(story) if line.startswith("  ") and line.endswith(":")] == [
        "  Vote (claude):",
        "  Vote (codex):",
    ]


def test_metrics_follow_a_stage_under_a_new_plan() -> None:
    story = entered().iteration(at("0", 1), usage=SPENT)
    story.add(f.PlanChanged(PLAN, None, {"0": "2"}, {}))
    (found,) = metrics_of(story.fold)
    assert (found.path, found.tokens_used) == ("2", 1200)
