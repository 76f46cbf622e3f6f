"""Counters, health and the latest past: bounded, and the same whenever they are folded."""

from datetime import UTC, timedelta

import pytest
from hypothesis import given
from msgspec import json
from msgspec.structs import replace
from tests.engine.any_log import PLAN, any_log
from tests.engine.plans import NOON, event, plan_of, stage, started

from agentforge.engine.evolve.run import evolve
from agentforge.model import facts as f
from agentforge.model.changes import MAX_LEFT, LeftInGit
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.failure import FailureKind
from agentforge.model.result import Decision, Result, Signals, WorkReport
from agentforge.model.state import Between
from agentforge.ports.event_log import BufferHealth, Head
from agentforge.views.files.block import branch_file
from agentforge.views.files.state import StateSnapshot, state_file
from agentforge.views.history import KEPT, MAX_LIGHT, MAX_LISTED, MAX_TEXT, History
from agentforge.views.lines.events import event_line, run_line
from agentforge.views.run_model import Summary, fold, health
from agentforge.views.stage_progress import stage_progress
from agentforge.views.text import counted, duration_text

ERROR = f.ErrorOccurred(FailureKind.PROVIDER_CRASHED, "boom", "plan", 1)


def completed(summary: str = "done", *, plateau: bool = False, **changes: object) -> f.IterationCompleted:
    result = Result(summary=summary, signals=Signals(plateau_suspected=plateau))
    given = {"duration_ms": 5, "output": "output.md", **changes}
    return f.IterationCompleted("plan", 1, Decision.CONTINUE, "", "result.json", result, **given)  # type: ignore[arg-type]


def folded(*facts: f.AnyFact) -> Summary:
    summary = Summary()
    for seq, fact in enumerate(facts, 1):
        summary = fold(summary, event(seq, fact))
    return summary


def test_summary_counts_events() -> None:
    summary = folded(
        started(plan_of(stage())),
        f.AttemptStarted(1, 2, "claude", "opus"),
        f.SessionRecovered(1, "here"),
        f.AttemptReattached(1, 7),
        f.AttemptLost(1, "died", started=True),
        f.AttemptStarted(2, 2, "claude", "opus"),
        ERROR,
        f.AttemptStarted(3, 2, "claude", "opus"),
        completed(),
    )
    assert (summary.events, summary.iterations, summary.attempts) == (9, 1, 3)
    assert (summary.reattached, summary.lost, summary.recoveries, summary.errors) == (1, 1, 1, 1)
    assert (summary.last_type, summary.last_at) == ("iteration_complete", NOON)


def test_summary_keeps_the_latest_that_is_left_for_git() -> None:
    items = tuple(LeftInGit(f"{number}/.git", "repository") for number in range(MAX_LEFT + 1))
    summary = folded(f.GitLeft(items[:2]), f.GitLeft(items[1:MAX_LEFT], 3), ERROR, f.GitLeft(items[-1:]))
    assert summary.git_left == items[1:]
    assert summary.git_omitted == 4


def test_consecutive_errors_count_recent_error_events_until_non_error() -> None:
    retry = f.RetryScheduled(2, 2, NOON, "again")
    attempt = f.AttemptStarted(2, 2, "claude", "opus")
    row = (ERROR, retry, f.TimerFired("retry"), attempt, ERROR)
    assert folded(*row).consecutive_errors == 2
    failed = f.SessionFailed(FailureKind.PROVIDER_CRASHED, "boom", "plan")
    assert folded(*row, failed).consecutive_errors == 2
    assert folded(*row, completed()).consecutive_errors == 0


def test_time_in_which_a_run_is_stopped_is_counted_until_it_is_continued() -> None:
    stops = (f.SessionPaused("requested"), f.AwaitingApproval(("r-1",)), failed())
    continues = (f.SessionContinued(("r-1",)), f.SessionResumed("person"), f.SessionRecovered(1, "here"))
    summary = Summary()
    for hour, fact in enumerate([one for pair in zip(stops, continues, strict=True) for one in pair]):
        at = NOON + timedelta(hours=hour**2)
        summary = fold(summary, replace(event(hour, fact), at=at))
        summary = fold(summary, replace(event(hour, ERROR), at=at + timedelta(minutes=5)))
    # From hour 0 to 1, from 4 to 9 and from 16 to 25.
    assert summary.waited_seconds == (1 + 5 + 9) * 3600
    assert summary.stopped_at is None
    late = fold(fold(summary, event(9, f.AwaitingApproval(("r-1",)))), event(10, f.SessionAborted("person")))
    assert late.waited_seconds == summary.waited_seconds
    assert duration_text(16 * 3600, summary.waited_seconds) == "1h 00m, stopped for 15h 00m"
    assert duration_text(22, 0.4) == "22s"


def failed() -> f.SessionFailed:
    return f.SessionFailed(FailureKind.PROVIDER_CRASHED, "boom", "plan")


@pytest.mark.parametrize(
    "fact",
    [
        f.RetryScheduled(2, 2, NOON, "again"),
        f.StageRetried(1, 2, NOON, FailureKind.PROVIDER_CRASHED, "again"),
        f.LimitMet(1, "claude", 0, NOON, NOON, "limit"),
        f.ProviderChanged(1, "claude", 0, "codex", 1, "limit"),
        f.TimerFired("retry"),
        f.SessionFailed(FailureKind.PROVIDER_CRASHED, "boom", "plan"),
        f.TreeTaken(2),
        f.HookStarted("review", "stage_end", "d-1", 2),
        f.HookRetryScheduled("review", "stage_end", "d-1"),
        f.HookLost("review", "stage_end", "d-1"),
        f.HookEnding("review", "stage_end", "d-1"),
        f.EffectIntended("d-1", "webhook", "u"),
        f.EffectDone("d-1", "webhook"),
        f.EffectReconciled("d-1", "webhook"),
    ],
    ids=lambda fact: fact.TYPE,
)
def test_what_follows_an_error_does_not_resolve_it(fact: f.AnyFact) -> None:
    assert folded(ERROR, fact, ERROR).consecutive_errors == 2


def test_a_failed_judge_counts_as_an_error() -> None:
    judged = f.JudgeCompleted("failed", f.JudgeResult(stop=False, reason="invoke_failed"), 1)
    assert folded(judged, judged).errors == 2
    assert folded(f.JudgeCompleted("skipped", judged.result)).errors == 0


def test_a_failed_hook_counts_as_an_error_until_it_answers() -> None:
    facts = (
        f.HookStarted("review", "iteration_end", "d-1", action="webhook"),
        f.HookFailed("review", "iteration_end", "d-1", message="HTTP 500"),
        f.HookRetryScheduled("review", "iteration_end", "d-1"),
        f.HookTimedOut("review", "iteration_end", "d-1", 2),
    )
    failed = folded(*facts)
    assert (failed.errors, failed.consecutive_errors) == (2, 2)
    answered = folded(*facts, f.HookCompleted("review", "iteration_end", "d-1", 3))
    assert (answered.errors, answered.consecutive_errors) == (2, 0)


def test_health_says_why_the_judge_failed() -> None:
    failed = f.JudgeCompleted(
        "failed", f.JudgeResult(stop=False, reason="invoke_failed"), 1, error="no login"
    )
    assert health(folded(failed)).warnings[-1] == "the judge failed once: no login"
    assert health(folded(failed, failed)).warnings[-1] == "the judge failed 2 times: no login"
    old = f.JudgeCompleted("failed", f.JudgeResult(stop=False, reason="invoke_failed"), 1)
    assert health(folded(old)).warnings[-1] == "the judge failed once: invoke_failed"


@pytest.mark.parametrize(
    ("fact", "stalled"),
    [
        (completed(), 0),
        (completed(plateau=True), 1),
        (completed(""), 1),
        (completed("  \n"), 1),
        (completed("", plateau=True), 1),
    ],
)
def test_iterations_without_progress_are_those_with_a_plateau_or_no_summary(
    fact: f.IterationCompleted, stalled: int
) -> None:
    assert folded(fact).without_progress == stalled


@pytest.mark.parametrize(
    ("errors", "stalled", "score", "label"),
    [
        (0, 0, 1.0, "ok"),
        (1, 0, 0.9, "ok"),
        (0, 1, 0.95, "ok"),
        (3, 4, 0.5, "ok"),
        (7, 0, 0.3, "ok"),
        (7, 1, 0.25, "warning"),
        (10, 0, 0.0, "warning"),
        (99, 99, 0.0, "warning"),
    ],
)
def test_health_score_formula_and_label(errors: int, stalled: int, score: float, label: str) -> None:
    result = health(Summary(consecutive_errors=errors, without_progress=stalled))
    assert (result.score, result.label) == (score, label)
    assert ("health below 0.30" in result.warnings) == (label == "warning")
    assert (f"{counted(errors, 'error')} in a row" in result.warnings) == bool(errors)
    assert (f"{counted(stalled, 'iteration')} without progress" in result.warnings) == bool(stalled)


@given(any_log)
def test_views_are_total_on_any_log(log: list[Event]) -> None:
    summary, history, state = Summary(), History(), None
    for one in log:
        summary = fold(summary, one)
        history.apply(one)
        state = evolve(state, one)
        view = state_file(
            PLAN, state, summary, history, head=Head(0, "", 1), buffer=BufferHealth(0, 0, 0, 0.0)
        )
        assert json.decode(json.encode(view.snapshot), type=StateSnapshot).state == state
        assert len(stage_progress(PLAN, state)) == len(PLAN.steps)
        for branch in state.block.branches if state.block else ():
            branch_file(PLAN, state, branch)
        event_line(one, UTC)
        run_line(one, PLAN)
    assert summary.events == len(log)
    assert 0.0 <= health(summary).score <= 1.0
    assert len(history.entries) == summary.iterations


def remember(*said: tuple[f.AnyFact, Cursor | None]) -> History:
    history = History()
    for seq, (fact, cursor) in enumerate(said, 1):
        history.apply(event(seq, fact, cursor))
    return history


def test_history_keeps_the_last_thousand_and_counts_the_rest() -> None:
    said = [(completed(output=f"{n}.md"), Cursor("0", 1, n)) for n in range(1, KEPT + 501)]
    history = remember(*said)
    assert (len(history.entries), history.omitted) == (KEPT, 500)
    assert [history.entries[0].iteration, history.entries[-1].iteration] == [501, KEPT + 500]
    left = history.stage("0")
    assert (len(left.paths), left.omitted, left.iterations) == (KEPT, 500, KEPT + 500)
    assert (left.paths[0], left.paths[-1], left.latest) == ("501.md", f"{KEPT + 500}.md", f"{KEPT + 500}.md")


def test_history_has_results_in_brief() -> None:
    long, many = "x" * 100_000, tuple(f"src/{'y' * 2000}/{n}.py" for n in range(5000))
    result = Result(
        summary=long, work=WorkReport(many, many), signals=Signals(notes=long, risk=long), reason=long
    )
    fact = f.IterationCompleted("plan", 1, Decision.CONTINUE, long, "result.json", result, 5)
    (entry,) = remember((fact, Cursor("0", 1, 1))).entries
    assert len(json.encode(entry)) < 50_000
    assert (len(entry.summary), entry.summary[-1]) == (MAX_TEXT, "…")
    assert len(entry.files_touched) == MAX_LISTED


def test_outputs_are_those_of_one_stage_and_history_is_the_run_s() -> None:
    history = remember((completed(), Cursor("0", 1, 1)), (completed(output="b.md"), Cursor("1", 1, 1)))
    assert history.stage("0").paths == ["output.md"]
    assert history.stage("1").paths == ["b.md"]
    assert (history.stage("2").paths, history.stage("2").omitted, history.stage("2").latest) == ([], 0, None)
    assert len(history.entries) == 2


def test_outputs_and_manifests_follow_their_nodes_into_a_new_plan() -> None:
    history = remember(
        (completed(output="first.md"), Cursor("0", 1, 1)),
        (completed(output="claude.md"), Cursor("1.0", 1, 1, "claude")),
        (f.ManifestWritten("manifest.json"), Cursor("1", 1, 0)),
        (f.PlanChanged(PLAN, paths={"0": None, "1": "0", "1.0": "0.0"}), None),
    )
    assert history.manifests == {"0": "manifest.json"}
    assert list(history.stages) == ["0.0@claude"]


def test_manifest_of_a_damaged_log_belongs_to_no_block() -> None:
    assert remember((f.ManifestWritten("manifest.json"), None)).manifests == {}


def test_outputs_of_a_stage_are_those_of_its_latest_run_and_of_one_branch() -> None:
    history = remember(
        (completed(output="first.md"), Cursor("0", 1, 1)),
        (completed(output="again.md"), Cursor("0", 2, 1)),
        (completed(output="claude.md"), Cursor("1.0", 1, 1, "claude")),
        (completed(output="codex.md"), Cursor("1.0", 1, 1, "codex")),
    )
    assert history.stage("0").paths == history.stage("0", run=2).paths == ["again.md"]
    assert history.stage("0", run=1).paths == []
    assert [history.stage("1.0", who).latest for who in ("claude", "codex")] == ["claude.md", "codex.md"]


def test_reason_of_a_stage_is_why_it_ended() -> None:
    history = remember(
        (completed(), Cursor("0", 1, 1)),
        (f.NodeCompleted("plan", "max_iterations", 1), Cursor("0", 1, 1)),
        (f.StageCompleted("draft", "enough", 1), Cursor("1.0", 1, 1, "claude")),
        (f.NodeCompleted("odd", "nowhere", 1), None),
    )
    assert history.stage("0").reason == "max_iterations"
    assert history.stage("1.0", "claude").reason == "enough"
    assert history.stage("1.0", "codex").reason == ""


def test_imported_run_starts_with_the_outputs_of_its_stages() -> None:
    left = (f.ImportedStage("0", 3, ("2.md", "3.md"), omitted=1, reason="enough"),)
    history = remember(
        (f.LogImported(9, "0" * 64, "pipeline", "r", PLAN, "1.0", NOON, Between(None), left=left), None)
    )
    stage = history.stage("0")
    assert (stage.paths, stage.omitted, stage.reason) == (["2.md", "3.md"], 1, "enough")


def test_iteration_without_output_has_no_file() -> None:
    history = remember(
        (completed(output=None), Cursor("0", 1, 1)), (completed(output="2.md"), Cursor("0", 1, 2))
    )
    assert history.stage("0").paths == ["2.md"]
    assert [entry.iteration for entry in history.entries] == [1, 2]


def test_iteration_without_a_place_is_in_the_history_but_not_an_input() -> None:
    history = remember((completed(), None))
    assert [entry.iteration for entry in history.entries] == [0]
    assert history.stage("0").paths == []


def test_the_latest_iterations_without_files_are_kept_per_stage_and_branch() -> None:
    places = [("0", None), ("1.0", "claude"), ("1.0", "codex")]
    said = [
        (completed(text=f"{path} {provider} {number}"), Cursor(path, 1, number, provider))
        for path, provider in places
        for number in range(1, MAX_LIGHT + 3)
    ]
    history = remember(*said, (completed(), Cursor("0", 1, 99)))
    kept = [[fact.text for fact in facts] for facts in history.light.values()]
    assert kept == [
        [f"{path} {provider} {number}" for number in range(3, MAX_LIGHT + 3)] for path, provider in places
    ]


def test_history_has_the_latest_summary_of_each_place() -> None:
    history = History()
    assert history.summary(None) == ""
    facts = (
        ("one", Cursor("0", 1, 1)),
        ("two", Cursor("0", 1, 2)),
        ("claude plans", Cursor("1.0", 1, 1, "claude")),
        ("claude builds", Cursor("1.1", 1, 1, "claude")),
        ("codex plans", Cursor("1.0", 1, 1, "codex")),
    )
    for seq, (summary, at) in enumerate(facts, 1):
        history.apply(event(seq, completed(summary), at))
    assert history.summary(None) == "codex plans"
    assert history.summary(Cursor("0", 1, 2)) == "two"
    assert history.summary(Cursor("0", 2, 0)) == "", "another visit"
    assert history.summary(Cursor("1", 1, 0, "claude")) == "claude builds"
    assert history.summary(Cursor("1.0", 1, 1, "claude")) == "claude plans"
    assert history.summary(Cursor("1", 1, 0, "gemini")) == ""
    assert history.summary(Cursor("1", 1, 0)) == ""


def test_result_of_a_branch_is_that_of_the_stage_which_completed_an_iteration_last() -> None:
    first, second, branch = (Cursor(path, 1, n, "claude") for path, n in (("1.0", 1), ("1.1", 1), ("1", 0)))
    history = History()
    assert history.result(branch) is None
    for seq, (summary, at) in enumerate((("a", first), ("b", second), ("c", first)), 1):
        history.apply(event(seq, completed(summary), at))
    latest = history.result(branch)
    assert latest is not None
    assert latest.summary == history.summary(branch) == "c"
    history.apply(event(4, f.PlanChanged(plan_of(stage()), None, {"1": "0", "1.0": "0.0", "1.1": "0.1"})))
    moved = history.result(replace(branch, node_path="0"))
    assert moved is not None
    assert moved.summary == "c"
