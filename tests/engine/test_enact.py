"""A cassette as the run that it is a recording of."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, nested, plan_of, stage

from agentforge.engine.rehearsal.rehearse import rehearse
from agentforge.engine.rehearsal.rehearsed_run import enact
from agentforge.model.cassette import Exchange, ExchangeOutcome
from agentforge.model.course import CourseStep
from agentforge.model.plan import Judgment, Plan, Queue

DONE: dict[str, Any] = {
    "stage": "x",
    "decision": "continue",
    "reason": "",
    "result_file": "result.json",
    "result": {},
    "duration_ms": 10,
}
CRASHED = {"type": "provider_crashed", "message": "no", "stage": "x"}


def work(stage: str, iteration: int = 1, attempt: int = 1, **more: Any) -> Exchange:
    fields: dict[str, Any] = {
        "node": f"stage-{stage}",
        "outcome": ExchangeOutcome("iteration_complete", DONE),
        **more,
    }
    return Exchange(stage, iteration, attempt=attempt, kind="work", **fields)


def course(plan: Plan, *exchanges: Exchange, **options: Any) -> list[CourseStep]:
    found = rehearse(plan, enact(plan, exchanges, **options))
    assert found.is_same
    return list(found.past)


def kinds(turns: list[CourseStep]) -> list[str]:
    return [turn.what for turn in turns]


def test_a_recorded_run_is_decided_again_to_its_end() -> None:
    plan = plan_of(stage("plan", runs=2), nested("polish", stage("plan")))
    turns = course(plan, work("plan"), work("plan", 2), work("plan", node="pipeline-polish/stage-plan"))
    assert [turn.stage for turn in turns if turn.what == "node_entered"] == ["plan", "polish/plan"]
    assert turns[-1].what == "run_completed"


def test_cap_of_the_day_does_not_count_for_what_is_past() -> None:
    plan = plan_of(stage("plan", max_iteration_cost_usd=0.5))
    plan = replace(plan, pipeline=replace(plan.pipeline, daily_usd=0.1))
    assert course(plan, work("plan"))[-1].what == "run_completed"


def test_failures_retries_branches_judges_and_queues_are_answered_by_their_exchanges() -> None:
    plan = plan_of(
        stage("plan"),
        block("claude codex", stage("draft")),
        stage("refine", termination=Judgment(3, 1, 1)),
        stage("sweep", termination=Queue(3, check_before=True)),
    )
    judged = ExchangeOutcome(
        "judge_complete", {"status": "success", "result": {"stop": True, "reason": "fine"}}
    )
    turns = course(
        plan,
        work("plan", outcome=ExchangeOutcome("error", CRASHED)),
        work("plan", attempt=2),
        *(work("draft", node="parallel-duel", branch=who) for who in ("claude", "codex")),
        work("refine"),
        Exchange("refine", 1, attempt=1, kind="judge", node="stage-refine", outcome=judged),
        Exchange("sweep", 0, kind="queue", node="stage-sweep", remaining=0),
    )
    assert kinds(turns).count("error") == 1
    assert {turn.branch for turn in turns if turn.what == "stage_over"} == {"claude", "codex"}
    assert [turn.detail for turn in turns if turn.what in ("judgment", "queue")] == ["stop", "0"]
    assert turns[-1].what == "run_completed"


def test_an_incomplete_recording_is_a_run_that_has_not_ended() -> None:
    turns = course(plan_of(stage("plan", runs=3)), work("plan"))
    assert turns[-1] == CourseStep("attempt", "plan", iteration=2, attempt=1, detail="claude")


def test_a_plateau_counts_as_in_the_recording() -> None:
    plateau = {**DONE, "result": {"signals": {"plateau_suspected": True}}}
    plan = plan_of(stage("plan", termination=Judgment(3, 1, 1)))
    recorded = work("plan", outcome=ExchangeOutcome("iteration_complete", plateau))
    assert course(plan, recorded, plateau_test=True)[-1].what == "run_completed"


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (None, "iteration 1 of 'plan' has no recorded outcome"),
        (ExchangeOutcome("dance", {}), "iteration 1 of 'plan' has no recorded outcome"),
        (ExchangeOutcome("iteration_complete", {}), "the outcome of iteration 1 of 'plan' is invalid"),
    ],
)
def test_an_exchange_without_an_outcome_cannot_be_enacted(outcome: ExchangeOutcome | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        enact(plan_of(stage("plan")), [work("plan", outcome=outcome)])
