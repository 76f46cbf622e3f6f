"""What `status` shows of a run, in every status."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, nested, plan_of, stage
from tests.views.samples import NOON, history, plan

from agentforge.engine.evolve.run import evolve
from agentforge.model import facts as f
from agentforge.model.check import Baseline, CheckCounts
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.delivery import DeliveredWork
from agentforge.model.facts import AnyFact
from agentforge.model.failure import FailureKind, StopReason
from agentforge.model.hook import Hook
from agentforge.model.plan import Plan
from agentforge.model.request import Request
from agentforge.model.result import Decision, Result, Usage
from agentforge.model.state import (
    Between,
    BlockState,
    BranchState,
    CycleCount,
    Position,
    RunState,
    StageState,
    Waiver,
)
from agentforge.model.status import RunStatus
from agentforge.ports.event_log import BufferHealth, Damage
from agentforge.views.lines.status import status_rows, verbose_rows
from agentforge.views.results import RunInfo, ShownStatus
from agentforge.views.run_model import Summary, fold
from agentforge.views.stage_progress import stage_progress
from agentforge.views.status import (
    CycleStatus,
    StatusView,
    resume_command,
    resume_command_of,
    status_view,
)
from agentforge.views.text import reason_text, shown_reason
from agentforge.views.visits import CheckRun, StageVisit

STARTED = (f.SessionStarted("pipeline", "run-1", plan(), "1.0", format=f.LOG_FORMAT), Cursor("0", 0, 0))
NODE = (f.NodeStarted("plan", "0", type="plan", provider="command", model="opus", runs=2), Cursor("0", 1, 0))
ITERATION = (f.IterationStarted("plan", "plan", "command", "opus", "0"), Cursor("0", 1, 1))
ATTEMPT = (f.AttemptStarted(1, 2, "command", "opus"), Cursor("0", 1, 1))
USAGE = Usage(input_tokens=1200, output_tokens=34, cost_usd=0.25)
COMPLETED = (
    f.IterationCompleted("plan", 1, Decision.CONTINUE, "", "/r", Result(summary="x"), 9, usage=USAGE),
    Cursor("0", 1, 1),
)
NODE_DONE = (f.NodeCompleted("plan", "stopped early", 1), Cursor("0", 1, 1))


def info_of(state: RunState, status: ShownStatus, of: Plan | None = None, **known: Any) -> RunInfo:
    given = {"summary": Summary(), "state_file_seq": state.seq, **known}
    return RunInfo("auth", status, "/runs/auth", of or plan(), state, **given)


def seen(
    *facts: tuple[AnyFact, Cursor | None],
    status: ShownStatus,
    now: datetime = NOON + timedelta(seconds=90),
    of: Plan | None = None,
    **known: Any,
) -> StatusView:
    state: RunState | None = None
    summary = Summary()
    for event in history(*facts):
        state, summary = evolve(state, event), fold(summary, event)
    assert state is not None
    return status_view(info_of(state, status, of, summary=summary, **known), now)


def shown(view: StatusView) -> dict[str, str]:
    return {row.label: row.value for row in status_rows(view, NOON + timedelta(seconds=90), UTC)}


def test_a_running_run() -> None:
    buffer = BufferHealth(events_buffered=2, slowest_flush_ms=12.4)
    known = {"state_file_seq": 1, "buffer": buffer, "driver_pid": 99}
    view = seen(STARTED, NODE, ITERATION, ATTEMPT, status="running", **known)
    assert shown(view) == {
        "Session": "auth",
        "Status": "running (PID 99)",
        "Pipeline": "ship",
        "Node": "0 (plan)",
        "Iteration": "1/2",
        "Attempt": "1",
        "Provider": "command (opus)",
        "Started": "2026-01-31 12:00:00",
        "Last event": "attempt_start (1m ago)",
        "Health": "ok (1.00)",
        "Errors": "0",
        "Duration": "1m 30s",
        "Events": "4 written, 2 buffered, slowest flush 12 ms, state.json is 3 events behind",
    }


def test_an_interrupted_run_lasted_until_its_last_event() -> None:
    damage = (Damage(3, "garbage"),)
    view = seen(STARTED, NODE, status="interrupted", state_file_seq=None, damage=damage)
    rows = shown(view)
    assert rows["Status"] == "interrupted (no engine running)"
    assert rows["Duration"] == "1.0s"
    assert rows["Events"] == "2 written, no usable state.json"
    assert rows["Damage"] == "line 3: garbage"
    assert rows["Resume"] == "agentforge recover auth"


def test_what_was_delivered_is_shown() -> None:
    work = DeliveredWork("commit", "committed", commit="1a2b3c4d5e6f", branch="main", count=2)
    delivered = (f.Delivered(work), Cursor("0", 1, 0))
    rows = shown(seen(STARTED, NODE, delivered, status="running"))
    assert rows["Delivered"] == "committed 2 paths as 1a2b3c4d5e6f on main"


def test_cost_and_tokens_are_shown_if_known() -> None:
    rows = shown(seen(STARTED, NODE, ITERATION, ATTEMPT, COMPLETED, status="running"))
    assert rows["Cost"] == "$0.25"
    assert rows["Tokens"] == "1,200 in, 34 out"
    assert rows["Iteration"] == "1/2"


def test_more_is_shown_on_request() -> None:
    wanted = (replace(STARTED[0], user_request="Add a\nlogin"), STARTED[1])
    more = {
        row.label: row.value for row in verbose_rows(seen(wanted, NODE, COMPLETED, status="running"), UTC)
    }
    assert more == {
        "Request": "Add a login",
        "Created": "2026-01-31 12:00:00",
        "Updated": "2026-01-31 12:00:02",
        "Tokens Used": "1,234",
    }
    idle = {row.label: row.value for row in verbose_rows(seen(STARTED, status="running"), UTC)}
    assert (idle["Tokens Used"], idle["Cost"]) == ("0", "unknown")
    assert "Request" not in idle


def test_a_cost_that_no_agent_reported_is_shown_as_unknown() -> None:
    other = Usage(input_tokens=5, output_tokens=1, model="gpt-5")
    unpriced = (replace(COMPLETED[0], usage=other), Cursor("0", 1, 2))
    idle = (replace(COMPLETED[0], usage=Usage(model="gpt-6")), Cursor("0", 1, 3))
    events = (STARTED, NODE, COMPLETED, unpriced, unpriced, idle)
    assert shown(seen(*events, status="running"))["Cost"] == "$0.25 + unknown (gpt-5 reported none)"
    unnamed = (replace(COMPLETED[0], usage=replace(other, model=None)), Cursor("0", 1, 2))
    assert (
        shown(seen(STARTED, NODE, unnamed, status="running"))["Cost"]
        == "unknown (unnamed model reported none)"
    )
    begun = (replace(COMPLETED[0], usage=Usage(model="gpt-7", agent_session="s1")), Cursor("0", 1, 2))
    assert (
        shown(seen(STARTED, NODE, COMPLETED, begun, status="running"))["Cost"]
        == "$0.25 + unknown (gpt-7 reported none)"
    )


@pytest.mark.parametrize(
    ("end", "status", "outcome"),
    [
        (f.SessionCompleted("all_loops_complete"), "completed", "1 stage completed, 1 not run"),
        (f.SessionCompleted("max_iterations"), "completed", "reached the maximum number of iterations"),
        (f.SessionFailed(FailureKind.RESULT_MISSING, "x", "plan"), "failed", "failed in plan, iteration 1"),
        (f.SessionAborted("by a person"), "aborted", "cancelled: by a person"),
        (f.SessionAborted(""), "aborted", "cancelled"),
        (f.PauseRequested("x"), "interrupted", "the engine stopped during plan, iteration 1"),
    ],
)
def test_a_run_that_is_over_shows_its_outcome_instead_of_its_health(
    end: AnyFact, status: str, outcome: str
) -> None:
    rows = shown(seen(STARTED, NODE, ITERATION, ATTEMPT, (end, Cursor("0", 1, 1)), status=status))
    assert rows["Outcome"] == outcome
    assert "Health" not in rows
    if status == "aborted":
        assert rows["Status"] == "cancelled"


def test_a_failed_run_shows_the_error_and_the_last_completed_iteration() -> None:
    error = (f.ErrorOccurred(FailureKind.RESULT_MISSING, "nothing\nwritten", "plan", 1), Cursor("0", 1, 2))
    failed = (f.SessionFailed(FailureKind.RESULT_MISSING, "nothing\nwritten", "plan"), Cursor("0", 1, 2))
    view = seen(STARTED, NODE, ITERATION, ATTEMPT, COMPLETED, error, failed, status="failed")
    rows = shown(view)
    assert rows["Error"] == "result_missing: nothing written"
    assert rows["Last completed iteration"] == "1"
    assert rows["Resume"] == "agentforge resume auth"
    assert view.stages[0].mark == "failed"


def test_a_paused_run_shows_its_reason_and_its_questions() -> None:
    asked = (f.RequestOpened("r-1", "escalation", "k", "lost", "Go on?", ("resume",)), Cursor("0", 1, 0))
    paused = (f.SessionPaused("runtime_limit"), Cursor("0", 1, 0))
    view = seen(STARTED, NODE, asked, paused, status="paused")
    rows = shown(view)
    assert rows["Pause reason"] == "reached the runtime limit"
    assert rows["Question"] == "Go on? [resume]"
    assert rows["Waits for"].startswith("a person; asked ")
    assert rows["Inspect"] == "agentforge inbox show auth"
    assert view.stages[0].mark == "stopped"


def test_reasons_that_the_engine_names_are_text_for_people() -> None:
    assert reason_text("machine_shutdown") == "the machine was shut down"
    assert reason_text("signal_interrupt") == "stopped by a signal, such as Ctrl-C"
    assert reason_text("hook_pause") == "a hook paused the run"
    assert reason_text("it is\nlate") == "it is late"
    assert reason_text("Completed 1 iterations (max: 1)") == "Completed 1 iteration (max: 1)"
    assert shown_reason("Completed 1 iterations (max: 1)") == "Completed 1 iteration (max: 1)"
    assert reason_text("Completed 11 iterations (max: 11)") == "Completed 11 iterations (max: 11)"
    assert reason_text("awaiting_approval") == "an answer is needed"
    assert reason_text("max_iterations") == "reached the maximum number of iterations"


def test_the_latest_refused_files_are_shown() -> None:
    refused = [(f.FileRefused(f"control/{n}.json", "empty", f"{n}.json.refused"), None) for n in range(5)]
    view = seen(STARTED, NODE, *refused, status="running")
    assert len(view.refused) == 5
    rows = [row.value for row in status_rows(view, NOON, UTC) if row.label == "Refused"]
    assert rows == [f"control/{n}.json: empty; moved to {n}.json.refused" for n in (2, 3, 4)]


def test_a_run_with_hooks_of_a_program_is_continued_by_that_program() -> None:
    hooked = with_hook(plan(), Hook("iteration_end-review", "iteration_end", "call"))
    view = seen(STARTED, NODE, status="interrupted", of=hooked)
    assert (view.resume_command, view.program_hooks) == (None, ("iteration_end-review",))
    (row,) = (row for row in status_rows(view, NOON, UTC) if row.label == "Resume")
    assert row.value == "with the program that registers its hooks (iteration_end-review)"
    assert seen(STARTED, NODE, status="running", of=hooked).program_hooks == ()


def with_hook(found: Plan, hook: Hook) -> Plan:
    return replace(found, pipeline=replace(found.pipeline, hooks=(hook,)))


def test_a_completed_run_has_no_resume_command() -> None:
    ended = (f.SessionCompleted("all_loops_complete"), Cursor("1", 1, 3))
    built = (f.NodeCompleted("build", "max_iterations", 3), Cursor("1", 1, 3))
    view = seen(STARTED, NODE, ITERATION, ATTEMPT, COMPLETED, NODE_DONE, built, ended, status="completed")
    assert view.resume_command is None
    assert shown(view)["Outcome"] == "all stages completed"
    assert [(stage.id, stage.mark, stage.completed, stage.reason) for stage in view.stages] == [
        ("plan", "done", 1, "stopped early"),
        ("build", "done", 3, "max_iterations"),
    ]


def test_outcome_counts_skipped_stages() -> None:
    routed = (f.StageTransitioned("plan", "", "small", skipped=("build",)), Cursor("0", 1, 1))
    ended = (f.SessionCompleted("all_loops_complete"), Cursor("0", 1, 1))
    view = seen(STARTED, NODE, COMPLETED, routed, NODE_DONE, ended, status="completed")
    assert shown(view)["Outcome"] == "1 stage completed, 1 skipped"


def test_health_warnings_have_rows_of_their_own() -> None:
    error = (f.ErrorOccurred(FailureKind.RESULT_MISSING, "nothing", "plan", 1), Cursor("0", 1, 1))
    view = seen(STARTED, NODE, *[error] * 8, status="running")
    rows = [(row.label, row.tone) for row in status_rows(view, NOON, UTC)]
    assert ("Health", "warn") in rows
    assert rows.count(("Warning", "warn")) == 2


@pytest.mark.parametrize("status", ["running", "completed"])
def test_a_judge_that_failed_is_shown_also_after_the_end(status: str) -> None:
    judged = f.JudgeCompleted(
        "failed", f.JudgeResult(stop=False, reason="invoke_failed"), 1, error="no\nlogin"
    )
    view = seen(STARTED, NODE, ITERATION, ATTEMPT, COMPLETED, (judged, Cursor("0", 1, 1)), status=status)
    assert (view.judge_failures, view.judge_error) == (1, "no\nlogin")
    assert shown(view)["Warning"] == "the judge failed once: no login"


def test_a_node_that_is_entered_again_shows_which_visit_it_is() -> None:
    view = seen(STARTED, (NODE[0], Cursor("0", 3, 0)), status="running")
    assert shown(view)["Visit"] == "3"
    assert "Visit" not in shown(seen(STARTED, NODE, status="running"))


def test_a_plan_without_nodes_is_shown() -> None:
    empty = replace(plan(), nodes=())
    state = evolve(None, history(STARTED)[0])
    view = status_view(info_of(state, "running", empty), NOON)
    assert view.node is None
    assert list(shown(view)) == ["Session", "Status", "Started", "Health", "Errors", "Duration", "Events"]


@pytest.mark.parametrize(
    ("status", "command"),
    [
        ("paused", "agentforge resume auth"),
        ("failed", "agentforge resume auth"),
        ("awaiting_approval", None),
        ("interrupted", "agentforge recover auth"),
        ("running", None),
        ("completed", None),
        ("aborted", None),
    ],
)
def test_the_exact_resume_command(status: str, command: str | None) -> None:
    assert resume_command("auth", status) == command


def test_resume_is_offered_beside_an_approval_if_there_is_an_escalation() -> None:
    asked = Request("r-1", "escalation", "k", "lost", "Retry?", ("resume", "cancel"), NOON)
    command = "agentforge resume auth"
    assert resume_command("auth", "awaiting_approval", requests=(asked,)) == command
    assert resume_command("auth", "paused", requests=(asked,), reason=asked.reason) == command
    assert resume_command("auth", "paused", requests=(asked,), reason="interrupted") is not None


@pytest.mark.parametrize(
    ("kind", "options", "status", "reason", "is_offered"),
    [
        ("approval", ("approve", "reject"), "awaiting_approval", "awaiting_approval", False),
        ("question", (), "awaiting_approval", "awaiting_approval", False),
        ("escalation", ("yes", "no"), "paused", "lost", False),
        ("escalation", ("resume", "no"), "paused", "lost", True),
        ("pause", ("continue",), "paused", "lost", True),
        ("approval", ("approve", "reject"), "paused", "lunch", True),
    ],
)
def test_resume_is_offered_if_it_answers_what_the_run_waits_for(
    kind: Any, options: tuple[str, ...], status: str, reason: str, is_offered: bool
) -> None:
    asked = Request("r-1", kind, "k", "lost", "?", options, NOON)
    assert (resume_command("auth", status, requests=(asked,), reason=reason) is not None) is is_offered


def test_archived_runs_and_those_of_the_shell_engine_are_not_recovered() -> None:
    state = evolve(None, history(STARTED)[0])
    named = {
        session: resume_command_of(session, known, "interrupted")
        for session, known in {
            state.session: state,
            "auth.1": state,
            "old": replace(state, session="old", run_id=""),
        }.items()
    }
    assert named == {
        state.session: f"agentforge recover {state.session}",
        "auth.1": "agentforge resume auth.1",
        "old": "agentforge resume old",
    }


def test_a_name_that_looks_like_an_option_is_set_apart() -> None:
    assert resume_command("-x", "paused", "agentforge -C /p") == "agentforge -C /p resume -- -x"


@pytest.mark.parametrize(
    ("status", "mark"),
    [(RunStatus.COMPLETED, "done"), (RunStatus.ABORTED, "failed"), (RunStatus.RUNNING, "current")],
)
def test_the_mark_of_the_current_stage_follows_the_run(status: RunStatus, mark: str) -> None:
    state: RunState | None = None
    for event in history(STARTED, NODE):
        state = evolve(state, event)
    assert state is not None
    assert stage_progress(plan(), replace(state, status=status))[0].mark == mark


LIMITED = (
    f.ErrorOccurred(FailureKind.PROVIDER_QUOTA, "5-hour limit reached", "plan", 1),
    Cursor("0", 1, 1),
)


def test_status_shows_which_stage_waits_for_which_limit() -> None:
    until = NOON + timedelta(hours=2)
    met = (f.LimitMet(1, "command", 0, until, until, "5-hour limit reached"), Cursor("0", 1, 1))
    view = seen(STARTED, NODE, ITERATION, ATTEMPT, LIMITED, met, status="running", now=NOON)
    assert [(w.stage, w.provider, w.until) for w in view.waiting] == [("plan", "command", until)]
    assert shown(view)["Waiting"] == "plan: command, for another 1h 58m: 5-hour limit reached"


def test_status_shows_that_a_check_waits_for_its_retry() -> None:
    until = NOON + timedelta(hours=2)
    again = (f.StageRetried(1, 2, until, FailureKind.CHECK_ERROR, "a signal"), Cursor("0", 1, 0))
    view = seen(STARTED, NODE, again, status="running", now=NOON)
    assert shown(view)["Waiting"].startswith("plan: checks, for another 1h 5")


def test_status_names_the_hook_that_is_called() -> None:
    call = (f.HookStarted("review", "stage_start", "d-1", action="script"), Cursor("0", 1, 0))
    view = seen(STARTED, NODE, call, status="running", now=NOON + timedelta(seconds=9))
    assert [(one.hook, one.key) for one in view.hooks] == [("review", "d-1")]
    assert shown(view)["Hook"].startswith("review (stage_start of plan), for ")
    interrupted = seen(STARTED, NODE, call, status="interrupted")
    assert shown(interrupted)["Hook"] == "review (stage_start of plan), no answer yet"


def test_status_shows_unavailable_and_current_provider() -> None:
    until = NOON + timedelta(hours=2)
    changed = (
        f.ProviderChanged(1, "command", 0, "mock", 1, "5-hour limit reached", until),
        Cursor("0", 1, 1),
    )
    again = (f.AttemptStarted(2, 2, "mock", "", choice=1), Cursor("0", 1, 1))
    view = seen(STARTED, NODE, ITERATION, ATTEMPT, LIMITED, changed, again, status="running", now=NOON)
    assert shown(view)["Unavailable"] == "plan: command, for another 1h 58m: 5-hour limit reached"
    assert view.waiting == ()


def test_status_shows_provider_without_login_as_unavailable_until_resume() -> None:
    changed = (f.ProviderChanged(1, "command", 0, "mock", 1, "not logged in"), Cursor("0", 1, 1))
    view = seen(STARTED, NODE, ITERATION, ATTEMPT, LIMITED, changed, status="running", now=NOON)
    assert shown(view)["Unavailable"] == "plan: command, until you resume: not logged in"


def test_status_shows_whose_limit_is_awaited() -> None:
    until = NOON + timedelta(hours=2)
    here = Cursor("0", 1, 1)
    changed = (f.ProviderChanged(1, "command", 0, "mock", 1, "5-hour limit reached", until), here)
    again = (f.AttemptStarted(2, 2, "mock", "", choice=1), here)
    no_login = (f.ErrorOccurred(FailureKind.PROVIDER_AUTH, "not logged in", "plan", 2), here)
    back = (f.ProviderChanged(2, "mock", 1, "command", 0, "not logged in", None, until), here)
    view = seen(
        STARTED, NODE, ITERATION, ATTEMPT, LIMITED, changed, again, no_login, back, status="running", now=NOON
    )
    (waiting,) = view.waiting
    assert (waiting.provider, waiting.until, waiting.message) == ("command", until, "5-hour limit reached")


def test_provider_whose_rest_is_over_is_not_shown_as_resting() -> None:
    until = NOON + timedelta(hours=2)
    changed = (f.ProviderChanged(1, "command", 0, "mock", 1, "limit", until), Cursor("0", 1, 1))
    view = seen(STARTED, NODE, ITERATION, ATTEMPT, LIMITED, changed, status="running", now=until)
    assert view.resting == ()


def test_stage_that_the_plan_does_not_have_is_left_out() -> None:
    """As a damaged log may name one."""
    elsewhere = Cursor("7", 1, 1)
    facts = (
        (f.NodeStarted("gone", "7", type="gone"), Cursor("7", 1, 0)),
        (f.IterationStarted("gone", "gone", "command", "opus", "0"), elsewhere),
    )
    view = seen(STARTED, *facts, status="running")
    assert (view.waiting, view.resting) == ((), ())


def test_place_without_a_known_maximum_shows_no_iteration() -> None:
    view = seen(STARTED, NODE, ITERATION, ATTEMPT, status="running")
    assert "Iteration" in shown(view)
    assert "Iteration" not in shown(replace(view, iterations_max=0))


def test_reason_why_the_engine_in_the_background_stopped() -> None:
    reason = StopReason("auth", NOON + timedelta(seconds=30), "storage_failed", "no\nspace", "free some")
    rows = shown(seen(STARTED, status="interrupted", stopped=reason))
    assert rows["Engine"] == "stopped 1m ago: no space"
    assert rows["Hint"] == "free some"
    bare = StopReason("auth", NOON, "error", "no space")
    assert "Hint" not in shown(seen(STARTED, status="interrupted", stopped=bare))


def test_status_shows_the_latest_checks_and_cycles() -> None:
    view = seen(STARTED, NODE, status="running")
    run = CheckRun("test", 1, 1, NOON, "fail", counts=CheckCounts(3, 1), tree="a" * 40)
    passed = CheckRun("lint", 1, 1, NOON, "pass")
    judged = StageVisit("build", "1", None, 1, NOON, verdict="fail", waived=("lint",), checks=(run, passed))
    judged = replace(judged, accepted_by="Ada")
    started = StageVisit("plan", "0", None, 1, NOON, checks=(passed,))
    skipped = StageVisit("docs", "2", None, 1, NOON, verdict="pass", skipped_by="Ada")
    waived = (Waiver("lint", "no\ntime", "Ada"), Waiver("", "later", "Ada", "docs"))
    cycles = (CycleStatus("build", "plan", 2, 3),)
    view = replace(view, visits=(judged, started, skipped), cycles=cycles, waivers=waived)
    rows = status_rows(view, NOON, UTC)
    assert [row.value for row in rows if row.label in ("Cycle", "Check", "Verdict", "Waived")] == [
        "2 of 3, back from build to plan",
        "build: test failed: 1 failed, 3 passed, tree aaaaaaaaaaaa",
        "build: lint passed",
        "build: fail, accepted by Ada (waived: lint)",
        "plan: lint passed",
        "docs: skipped by Ada",
        "lint by Ada: no time",
        "stage docs by Ada: later",
    ]


def test_checks_that_are_not_used_are_shown() -> None:
    outcomes = (
        f.CheckCompleted("lint", baseline="lint+1", found=Baseline(("k",))),
        f.CheckCompleted("test", baseline="test+1", found=Baseline(unusable="it fails")),
    )
    view = seen(STARTED, NODE, *((fact, Cursor("0", 1, 0)) for fact in outcomes), status="running")
    assert view.unused == {"test": "it fails"}
    assert shown(view)["Check"] == "test is not used in this run: before the first agent, it fails"


def test_check_that_runs_shows_since_when() -> None:
    running = StageVisit("build", "1", None, 1, NOON, checks=(CheckRun("test", 1, 1, NOON),))
    view = replace(seen(STARTED, NODE, status="running"), visits=(running,))
    assert shown(view)["Check"] == "build: test is running, 1m 30s"
    assert shown(replace(view, status="interrupted"))["Check"] == "build: test was interrupted"


def cycles_at(at: Position, cycles: dict[str, CycleCount], of: Plan) -> tuple[CycleStatus, ...]:
    state = replace(next(evolve(None, event) for event in history(STARTED)), at=at, cycles=cycles)
    return status_view(info_of(state, "running", of), NOON).cycles


def test_cycles_are_shown_while_the_run_is_in_them() -> None:
    of = plan_of(stage("plan"), stage("build"), stage("check"), stage("last"))
    cycles = {"2>1": CycleCount(1, 5), "7>0": CycleCount(1, 3)}
    current = (CycleStatus("check", "build", 2, 5),)
    assert cycles_at(StageState("1", 2), cycles, of) == current
    assert cycles_at(StageState("2", 2), cycles, of) == current
    assert cycles_at(Between(Destination("1")), cycles, of) == current
    assert cycles_at(StageState("3", 1), cycles, of) == ()
    assert cycles_at(StageState("0", 1), cycles, of) == ()
    assert cycles_at(Between(None), cycles, of) == ()


def test_cycles_of_a_branch_and_of_a_nested_pipeline() -> None:
    of = plan_of(block("claude", stage("draft"), stage("check")), nested("inner", stage("one"), stage("two")))
    branch = BranchState("claude", stage=StageState("0.0", 2))
    inside = BlockState("0", 1, branches=(branch,))
    cycles = {"0.1@claude>0.0": CycleCount(1, 3), "1.1>1.0": CycleCount(2, 3)}
    assert cycles_at(inside, cycles, of) == (CycleStatus("check", "draft", 2, 3),)
    assert cycles_at(replace(inside, branches=(replace(branch, stage=None),)), cycles, of) == ()
    assert cycles_at(StageState("1.0", 3), cycles, of) == (CycleStatus("two", "one", 3, 3),)


def test_an_answered_run_without_an_engine_names_the_command_instead_of_the_question() -> None:
    asked = f.RequestOpened("approval-4", "approval", "k", "approval", "Ship it?", ("approve", "reject"))
    facts = (
        STARTED,
        NODE,
        (asked, Cursor("0", 1, 0)),
        (f.AwaitingApproval(("approval-4",)), Cursor("0", 1, 0)),
    )
    open_ = shown(seen(*facts, status="awaiting_approval"))
    assert open_["Question"].startswith("Ship it?")
    view = seen(*facts, status="awaiting_approval", answered=True)
    rows = shown(view)
    assert rows["Resume"] == "answered, not continued: `agentforge recover auth`"
    assert not {"Question", "Waits for", "Answer", "Inspect"} & rows.keys()
    both = shown(seen(*facts, status="awaiting_approval", answered=True, unanswered=("approval-4",)))
    assert (both["Question"], both["Resume"]) == (open_["Question"], rows["Resume"])
    assert both["Inspect"] == "agentforge inbox show auth"
    hooked = replace(view, resume_command=None, program_hooks=("h",))
    assert shown(hooked)["Resume"] == "answered, not continued: the program that registers its hooks (h)"
