"""What `dry-run` shows of the worst case, and of earlier runs."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, plan_of, stage, started
from tests.views.samples import history

from agentforge.engine.worst_case import Unbounded, worst_case
from agentforge.model.hook import Hook
from agentforge.model.plan import Approval, Judgment, Plan, RetryPolicy
from agentforge.model.state import RunSettings, Spending
from agentforge.model.status import RunStatus
from agentforge.views.earlier_runs import EarlierRuns, Percentiles, earlier_runs, is_earlier_run
from agentforge.views.lines.forecast import MAX_NAMED, earlier_lines, worst_case_lines
from agentforge.views.results import RunInfo
from agentforge.views.run_model import Summary, fold_events

ONCE = RetryPolicy(1)


def shown(plan: Plan) -> list[str]:
    return list(worst_case_lines(worst_case(plan)))


def test_the_worst_case_is_a_table_of_the_stages_and_their_sum() -> None:
    bounded = stage("a|b", retry=ONCE, timeout=60.0, max_iteration_cost_usd=0.5)
    refine = stage("refine", termination=Judgment(1_000), retry=ONCE, timeout=60.0)
    lines = shown(plan_of(refine, block("claude", bounded)))
    assert lines[4:11] == [
        "| stage       | visits | iterations | attempts | judge calls |   time |     cost |",
        "| ----------- | -----: | ---------: | -------: | ----------: | -----: | -------: |",
        "| refine      |      1 |      1,003 |    1,003 |       2,000 | 7d 15h | no bound |",
        "| claude: a/b |      1 |          4 |        4 |           0 | 4m 00s |    $2.00 |",
        "| all         |        |      1,007 |    1,007 |       2,000 | 7d 15h | no bound |",
        "",
        "- Exact, as a run can reach them: iterations, attempts, judge calls; other numbers are upper bounds",
    ]
    assert lines[12:14] == [
        "- No bound for the cost: stage 'refine' with claude: no cap; set `max_iteration_cost_usd`",
        "- Not enforced: stage 'a|b' with claude: an attempt may spend more than its figure",
    ]
    assert len(lines) == 15
    again = shown(plan_of(replace(bounded, approve=Approval(rounds=2))))
    assert "- Visits: also after routes back, rejections, and up to 10 restarts by hooks" in again


def test_what_has_no_bound_is_said_once_with_its_reason() -> None:
    hook = Hook("gate", "stage_end", "script", stage="n0")
    lines = shown(plan_of(*(stage(f"n{number}") for number in range(MAX_NAMED + 2)), hooks=(hook,)))
    assert "| all   |        |         72 |      144 | no bound | no bound |" in lines
    assert "- All numbers are upper bounds" in lines
    names = ", ".join(f"stage 'n{number}'" for number in range(MAX_NAMED))
    fix = "set `timeout`, or `limits.runtime` of the pipeline"
    assert f"- No bound for the time: {names} and 2 more: no time limit; {fix}" in lines


def test_tokens_are_shown_where_something_is_known_of_them() -> None:
    lines = shown(plan_of(stage("a", retry=ONCE, max_iteration_tokens=5_000), stage("b")))
    assert "| a     |      1 |          4 |        4 | no bound | no bound |   20,000 |" in lines
    fix = "set `max_iteration_tokens`"
    assert f"- No bound for the tokens: stage 'b' with claude: no cap; {fix}" in lines
    assert not any("tokens" in line for line in shown(plan_of(stage("a"))))


def test_what_is_about_the_whole_run_names_no_stage() -> None:
    why = Unbounded("iterations", "", "it would be too much", "do less")
    found = replace(worst_case(plan_of(stage("a"))), iterations=None, unbounded=(why,))
    assert "- No bound for the iterations: it would be too much; do less" in worst_case_lines(found)


@pytest.mark.parametrize(
    ("earlier", "lines"),
    [
        (EarlierRuns(), ["- None of this pipeline was completed in this project"]),
        (
            EarlierRuns(1, Percentiles(1, 61.0, 61.0)),
            ["- Time: p50 1m 01s, p90 1m 01s (1 run)", "- Cost: unknown for 1 run"],
        ),
        (
            EarlierRuns(9, Percentiles(9, 61.0, 7300.0), Percentiles(9, 0.4, 1.25)),
            ["- Time: p50 1m 01s, p90 2h 01m (9 runs)", "- Cost: p50 $0.40, p90 $1.25 (9 runs)"],
        ),
        (
            EarlierRuns(9, Percentiles(9, 61.0, 7300.0), Percentiles(7, 0.4, 1.25)),
            [
                "- Time: p50 1m 01s, p90 2h 01m (9 runs)",
                "- Cost: p50 $0.40, p90 $1.25 (7 runs); unknown for 2 runs",
            ],
        ),
    ],
)
def test_earlier_runs_are_shown_with_their_number(earlier: EarlierRuns, lines: list[str]) -> None:
    assert list(earlier_lines(earlier)) == ["", "## Earlier runs", *lines]


def ended(plan: Plan, seconds: float = 10.0, spent: Spending | None = None, waited: float = 0.0) -> RunInfo:
    state = fold_events(history((started(plan), None))).state
    assert state is not None
    done = replace(
        state,
        status=RunStatus.COMPLETED,
        updated_at=state.started_at + timedelta(seconds=seconds),
        spending=spent or Spending(),
    )
    return RunInfo("auth", "completed", "/run", plan, done, Summary(waited_seconds=waited))


def test_percentiles_are_values_that_were_measured() -> None:
    plan = plan_of(stage("a"))
    assert earlier_runs([]) == EarlierRuns()
    found = earlier_runs([ended(plan, 10.0 * n, Spending(float(n)), waited=5.0) for n in range(10, 0, -1)])
    assert found == EarlierRuns(10, Percentiles(10, 45.0, 85.0), Percentiles(10, 5.0, 9.0))
    for unknown in (Spending(1.0, unpriced=("gpt",)), Spending(1.0, assumed_usd=1.0), Spending()):
        assert earlier_runs([ended(plan, 10.0, unknown)]) == EarlierRuns(1, Percentiles(1, 10.0, 10.0))


def test_only_completed_runs_of_agents_on_the_same_pipeline_count() -> None:
    plan = plan_of(stage("a"))
    run = ended(plan)
    assert is_earlier_run(run, plan)
    assert is_earlier_run(run, plan_of(stage("b"), stage("c"))), "its definition may have changed since"
    other = replace(plan, pipeline=replace(plan.pipeline, name="other"))
    assert not is_earlier_run(run, other)
    assert not is_earlier_run(run, replace(plan, mode="loop"))
    for settings in (RunSettings(mock=True), RunSettings(replay=1.0)):
        assert not is_earlier_run(replace(run, state=replace(run.state, settings=settings)), plan)
    assert not is_earlier_run(replace(run, state=replace(run.state, status=RunStatus.FAILED)), plan)
