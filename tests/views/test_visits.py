"""The visits of a run: their checks, verdicts and routes, as data and as text."""

from datetime import UTC, timedelta

import pytest
from msgspec.structs import replace
from tests.views.samples import NOON, history, plan

from agentforge.model import facts as f
from agentforge.model.check import CheckCounts
from agentforge.model.cursor import Cursor
from agentforge.model.facts import AnyFact
from agentforge.model.result import Decision, Result
from agentforge.views.lines.entries import RunEntry, Shown, check_entry, visit_entry
from agentforge.views.record import record_of
from agentforge.views.run_model import fold_events
from agentforge.views.visits import CheckRun, CheckRunStatus, StageVisit, checks_of

START: tuple[AnyFact, Cursor | None] = (
    f.SessionStarted("pipeline", "run-1", plan(), "1.0", format=f.LOG_FORMAT),
    None,
)
FAILED = f.CheckCompleted(
    "test",
    status="fail",
    exit_code=1,
    counts=CheckCounts(3, 1),
    signatures=("test_a",),
    failures=1,
    reason="1 failed",
    output="stage-01-build/checks/test-1-1/output.log",
    tree_after="a" * 40,
    duration_ms=1500,
)
DONE = f.IterationCompleted("build", 1, Decision.STOP, "", "/r", Result(summary="x"), 9)
JUDGED = f.StageVerdictReached("fail", "1 failed", failing=("test",), tree="a" * 40)
BACK = f.StageTransitioned("build", "plan", "fail", "1 failed", cycle=2, of=3)


def build(*facts: AnyFact, run: int = 1, iteration: int = 1) -> list[tuple[AnyFact, Cursor | None]]:
    return [(fact, Cursor("1", run, iteration)) for fact in facts]


FIRST = build(f.NodeStarted("build", "1"), f.IterationStarted("build", "build", "command", "opus", "1"), DONE)


def found(*facts: tuple[AnyFact, Cursor | None]) -> tuple[StageVisit, ...]:
    return record_of(history(START, *facts)).visits


def test_visit_has_its_checks_its_verdict_and_its_route() -> None:
    over = f.NodeCompleted("build", "its checks fail", 1, verdict="fail")
    (visit,) = found(*FIRST, *build(f.CheckStarted("test"), FAILED, JUDGED, BACK, over))
    assert (visit.stage, visit.path, visit.visit, visit.iterations) == ("build", "1", 1, 1)
    assert (visit.verdict, visit.reason, visit.failing, visit.tree) == (
        "fail",
        "1 failed",
        ("test",),
        "a" * 40,
    )
    assert (visit.to, visit.cycle, visit.of, visit.ended) == ("plan", 2, 3, "its checks fail")
    assert visit.ended_at == NOON + timedelta(seconds=8)
    (run,) = visit.checks
    assert (run.status, run.counts, run.signatures) == ("fail", CheckCounts(3, 1), ("test_a",))
    assert run.duration_seconds == 1.5


def test_check_runs_again_after_it_was_lost_or_void() -> None:
    void = replace(FAILED, changed=("a.py",))
    (visit,) = found(
        *build(
            f.CheckStarted("test"),
            f.CheckLost("test"),
            f.CheckStarted("test", 2),
            void,
            f.CheckStarted("test", 3),
        )
    )
    assert [(run.number, run.status) for run in visit.checks] == [(1, "lost"), (2, "void"), (3, "running")]


def test_baseline_is_listed_and_is_not_the_latest_run_of_the_check() -> None:
    (visit,) = found(
        *build(
            f.CheckStarted("test", baseline="test+1"),
            f.CheckCompleted("test", baseline="test+1"),
            f.CheckStarted("test"),
            f.CheckCompleted("test", baseline="test+1"),
        )
    )
    runs = [(run.check, run.baseline, run.status) for run in visit.checks]
    assert runs == [("test", True, "pass"), ("test", False, "running")]
    assert [run.baseline for run in visit.latest_checks] == [False]


def test_outcome_of_a_check_that_was_not_started_is_left_out() -> None:
    assert found(*build(FAILED))[0].checks == ()
    assert found(*build(f.CheckStarted("lint"), FAILED))[0].checks[0].status == "running"


def test_each_visit_is_listed_also_a_rejected_one() -> None:
    again = f.NodeRestarted("build", "rejected", "use tabs", "me", 1)
    first, second = found(*FIRST, *build(again), *build(f.NodeStarted("build", "1", 2), run=2))
    assert (first.visit, first.ended, second.visit, second.ended_at) == (1, "use tabs", 2, None)


def test_places_that_are_not_stages_of_the_plan_are_left_out() -> None:
    nowhere = (f.CheckStarted("test"), Cursor("7", 1, 0))
    assert found(nowhere, (f.CheckStarted("test"), None)) == ()
    assert fold_events(history(START, nowhere, (JUDGED, None))).summary.visits == ()


def test_summary_keeps_the_latest_visit_of_each_stage_with_a_verdict() -> None:
    passed = replace(FAILED, status="pass", signatures=())
    facts = [
        *FIRST,
        *build(f.NodeCompleted("build", "done", 1)),
        *build(f.CheckStarted("test"), f.CheckLost("test"), f.CheckStarted("test", 2), FAILED, JUDGED, BACK),
        *build(f.CheckStarted("test"), passed, f.StageVerdictReached("pass"), run=2),
        (f.StageVerdictReached("reject", "no"), Cursor("0", 1, 1)),
    ]
    build_, plan_ = fold_events(history(START, *facts)).summary.visits
    assert (build_.visit, build_.verdict, plan_.stage, plan_.verdict) == (2, "pass", "plan", "reject")
    (first,) = fold_events(history(START, *facts[:9])).summary.visits
    assert [(run.number, run.status, run.signatures) for run in first.checks] == [(2, "fail", ())]


def test_summary_has_the_start_and_the_iterations_of_a_visit() -> None:
    events = list(history(START, *FIRST, *build(JUDGED)))
    (visit,) = fold_events(events).summary.visits
    assert (visit,) == record_of(events).visits
    assert visit.iterations == 1


def test_summary_follows_the_stages_of_a_new_plan() -> None:
    changed = f.PlanChanged(plan(), paths={"1": "0", "0": None})
    facts = [*build(JUDGED), (JUDGED, Cursor("0", 1, 1)), (changed, None)]
    (visit,) = fold_events(history(START, *facts)).summary.visits
    assert (visit.stage, visit.path) == ("build", "0")


# -- text


def rows(entry: RunEntry) -> list[str]:
    return [f"{row.label}: {row.value}" for row in entry.rows]


def shown(*, details: bool) -> Shown:
    return Shown("/runs/s", "running", UTC, details)


def check_of(run: CheckRun, *, failures: bool) -> RunEntry:
    (check,) = checks_of([replace(VISIT, checks=(run,))])
    return check_entry(check, shown(details=failures))


VISIT = StageVisit("build", "1", None, 2, NOON)
RUN = CheckRun("test", 1, 1, NOON)


@pytest.mark.parametrize(
    ("run", "failures", "mark", "title", "told"),
    [
        (RUN, True, "current", "build, visit 2, iteration 1: test is running", []),
        (replace(RUN, status="lost", iteration=0), False, "warning", "build, visit 2: test was lost", []),
        (
            replace(RUN, status="pass", duration_seconds=2.0, counts=CheckCounts(4), tree="b" * 40),
            False,
            "done",
            "build, visit 2, iteration 1: test passed in 2.0s: 4 passed",
            ["Tree: bbbbbbbbbbbb"],
        ),
        (
            replace(
                RUN,
                status="fail",
                reason="exit status 1",
                output="o.log",
                failures=3,
                signatures=("a", "b\x1b"),
            ),
            True,
            "failed",
            "build, visit 2, iteration 1: test failed: exit status 1",
            [
                "Output: /runs/s/o.log",
                "Failure: a",
                "Failure: b\ufffd",
                "Failure: 3 failures in all: see the output",
            ],
        ),
        (
            replace(RUN, status="pass", tree_problem="git is not installed"),
            False,
            "done",
            "build, visit 2, iteration 1: test passed (no tree: git is not installed)",
            [],
        ),
        (
            replace(RUN, status="pass", baseline=True),
            False,
            "done",
            "build, visit 2, iteration 1: baseline of test passed",
            [],
        ),
        (
            replace(RUN, status="fail", reason="2 new failures (1,700 failed before too)", before=1_700),
            False,
            "failed",
            "build, visit 2, iteration 1: test failed: 2 new failures (1,700 failed before too)",
            [],
        ),
        (
            replace(RUN, status="pass", before=1_700),
            False,
            "done",
            "build, visit 2, iteration 1: test passed: 1,700 failed before too",
            [],
        ),
        (
            replace(RUN, status="fail", reason="exit status 1", baseline=True, unusable="it is red"),
            False,
            "failed",
            "build, visit 2, iteration 1: baseline of test failed: exit status 1",
            ["Not used: before the first agent, it is red"],
        ),
        (
            replace(RUN, status="void", changed=tuple("abcdefg")),
            True,
            "warning",
            "build, visit 2, iteration 1: test was discarded because files changed",
            ["Changed: a, b, c, d, e and 2 more"],
        ),
    ],
)
def test_text_of_a_check(run: CheckRun, failures: bool, mark: str, title: str, told: list[str]) -> None:
    text = check_of(run, failures=failures)
    assert (text.mark, text.title, rows(text)) == (mark, title, told)


@pytest.mark.parametrize("status", ["pass", "fail", "error", "timeout"])
def test_every_outcome_has_a_text(status: CheckRunStatus) -> None:
    assert check_of(replace(RUN, status=status), failures=False).title


@pytest.mark.parametrize(
    ("visit", "mark", "title", "told"),
    [
        (VISIT, "current", "build, visit 2: not finished", []),
        (
            replace(VISIT, ended_at=NOON, iterations=3, ended="max_iterations"),
            "done",
            "build, visit 2: 3 iterations",
            ["Ended: reached the maximum number of iterations"],
        ),
        (
            replace(VISIT, verdict="fail", reason="1 failed", tree="c" * 40, to="plan", cycle=2, of=3),
            "failed",
            "build, visit 2: fail on tree cccccccccccc",
            ["Reason: 1 failed", "Route: back to plan, cycle 2 of 3"],
        ),
        (
            replace(VISIT, branch="codex", verdict="pass", waived=("lint",), to="last", skipped=("a", "b")),
            "done",
            "build (codex), visit 2: pass (waived: lint)",
            ["Route: on to last, skipping a, b"],
        ),
        (
            replace(VISIT, verdict="reject", accepted_by="me", accept_reason="flaky", to="", checks=(RUN,)),
            "warning",
            "build, visit 2: reject, accepted by me",
            ["Check: test is running", "Accepted: flaky", "Route: to the end"],
        ),
        (
            replace(VISIT, verdict="pass", reason="not today", ended="skipped", skipped_by="Ada"),
            "warning",
            "build, visit 2: skipped by Ada",
            ["Reason: not today", "Ended: skipped"],
        ),
        (replace(VISIT, verdict="pass", to="next"), "done", "build, visit 2: pass", ["Route: on to next"]),
    ],
)
def test_text_of_a_visit(visit: StageVisit, mark: str, title: str, told: list[str]) -> None:
    text = visit_entry(visit, shown(details=True))
    assert (text.mark, text.title, rows(text)) == (mark, title, told)
    assert visit_entry(visit, shown(details=False)).rows == ()
