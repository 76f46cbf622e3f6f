"""Every fact has its line in `tail`, and those that matter their words on a terminal."""

import json
from datetime import UTC, timedelta, timezone
from typing import get_args

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, plan_of, stage
from tests.views.check_events import CHECK_LINES
from tests.views.deliver_events import DELIVER_LINES
from tests.views.file_events import FILES_LINES
from tests.views.hook_events import HOOK_LINES
from tests.views.samples import NOON, event, plan

from agentforge.model import facts as f
from agentforge.model.artifact import Artifact, ContextUse, OmittedPart, PlannedItem
from agentforge.model.changes import LeftInGit
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.facts import AnyFact
from agentforge.model.failure import FailureKind
from agentforge.model.result import Decision, Result
from agentforge.model.spending import Amount, DailyAnswer
from agentforge.model.state import Between, Waiver
from agentforge.views.lines.events import (
    ROWS,
    demo_line,
    ending_line,
    event_json,
    event_line,
    output_json,
    run_line,
)
from agentforge.views.lines.requests import closed_text

AT = Cursor("1", 1, 2)
WAIVED = (Waiver("test", "the server is down", "Ada"), Waiver("lint", "the server is down", "Ada"))
SOON = NOON + timedelta(seconds=4)
S1, S2 = PlannedItem("s1", "1"), PlannedItem("s2", "2", ("s1",))


def completed(
    decision: Decision = Decision.CONTINUE, summary: str = "wrote the parser"
) -> f.IterationCompleted:
    result = Result(summary=summary, decision=decision)
    return f.IterationCompleted("build", 1, decision, "", "/r.json", result, 1500)


# The fact, its details in `tail`, its words on a terminal.
LINES: list[tuple[AnyFact, str, str | None]] = [
    (f.SessionStarted("pipeline", "run-1", plan(), "1.0", format=f.LOG_FORMAT), "", None),
    (
        f.SessionStarted("pipeline", "run-1", plan(), "1.0", waivers=WAIVED),
        'waived=test,lint by="Ada" reason="the server is down"',
        "check test was waived by Ada: the server is down; check lint was waived by Ada: the server is down",
    ),
    (f.SessionRecovered(7, "host"), "by=recovery pid=7", "recovered from an interruption"),
    (f.NodeStarted("build", "1", skipped=True), "node=1 kind=stage skipped=yes", None),
    (f.NodeStarted("build", "1"), "node=1 kind=stage", "build started"),
    (f.NodeCompleted("build", "skipped", 0, verdict="pass"), 'node=1 visit=1 reason="skipped"', None),
    (
        f.NodeStarted("build", "1", type="build", provider="command", model="opus", runs=3),
        "node=1 kind=stage",
        "build started: up to 3 iterations with command (opus)",
    ),
    (
        f.IterationStarted("build", "build", "command", "opus", "0"),
        "node=1 visit=1 iter=2 provider=command model=opus",
        "build 2/3 started",
    ),
    (
        f.IterationStarted(
            "build",
            "build",
            "command",
            "opus",
            "0",
            item="s1",
            context=ContextUse("full", 900, 1000, (OmittedPart("outputs", 80),)),
        ),
        "node=1 visit=1 iter=2 provider=command model=opus item=s1 tokens=900 omitted=1",
        "build 2/3 started: item s1",
    ),
    (f.AttemptStarted(1, 2, "command", "opus"), "node=1 visit=1 iter=2 attempt=1", None),
    (
        f.AttemptReattached(1, 99),
        "node=1 visit=1 iter=2 attempt=1 pid=99",
        "build 2/3 reattached to the running agent (PID 99)",
    ),
    (
        f.TreeTaken(1, tree="ab12"),
        "node=1 visit=1 iter=2 attempt=1 when=before tree=ab12",
        None,
    ),
    (
        f.TreeTaken(1, "after", problem="too many files"),
        'node=1 visit=1 iter=2 attempt=1 when=after problem="too many files"',
        "build 2/3 the changes to files are not recorded: too many files",
    ),
    (
        f.GitLeft((LeftInGit("a/.git", "repository", "it has hooks", "a/.git.disabled"),), 2),
        'node=1 visit=1 iter=2 left="a/.git, a new repository: it has hooks; renamed to a/.git.disabled"'
        " omitted=2",
        "build 2/3 left for git: a/.git, a new repository: it has hooks; renamed to a/.git.disabled;"
        " and 2 more",
    ),
    (
        f.AttemptLost(1, "its supervisor died", started=True),
        'node=1 visit=1 iter=2 attempt=1 reason="its supervisor died"',
        "build 2/3 lost attempt 1: its supervisor died",
    ),
    (
        f.AttemptEnding(1, "requested"),
        'node=1 visit=1 iter=2 attempt=1 reason="requested"',
        "build 2/3 stopping the agent: on request",
    ),
    (f.AttemptCancelled(1, "requested"), 'node=1 visit=1 iter=2 attempt=1 reason="requested"', None),
    (
        f.ErrorOccurred(FailureKind.PROVIDER_CRASHED, "it\nbroke", "build", 1, exit_code=3),
        'node=1 visit=1 iter=2 type=provider_crashed exit_code=3 message="it broke"',
        "build 2/3 failed (attempt 1): provider_crashed: it broke",
    ),
    (
        f.ErrorOccurred(FailureKind.PROMPT_UNREADABLE, "no prompt", "build", 0),
        'node=1 visit=1 iter=2 type=prompt_unreadable message="no prompt"',
        "build 2/3 failed: prompt_unreadable: no prompt",
    ),
    (
        f.RetryScheduled(2, 3, SOON, "Attempt 2/3"),
        "node=1 visit=1 iter=2 try=2/3",
        "build 2/3 retrying in 4.0s (try 2 of 3)",
    ),
    (
        f.StageRetried(1, 2, SOON, FailureKind.AGENT_ERROR, "no idea"),
        'node=1 visit=1 iter=2 stage_try=1/2 type=agent_error message="no idea"',
        "build 2/3 retrying the stage in 4.0s (retry 1 of 2)",
    ),
    (
        f.StageRetried(1, 2, SOON, FailureKind.AGENT_ERROR, "no idea", 4),
        'node=1 visit=1 iter=2 stage_try=1/2 failures=4 type=agent_error message="no idea"',
        "build 2/3 retry limit reached after 4 attempts; retrying the stage in 4.0s (retry 1 of 2)",
    ),
    (
        f.StageRetried(2, 2, SOON, FailureKind.AGENT_ERROR, "no idea", 5),
        'node=1 visit=1 iter=2 stage_try=2/2 failures=5 type=agent_error message="no idea"',
        "build 2/3 retrying the stage in 4.0s (retry 2 of 2)",
    ),
    (
        f.LimitMet(1, "claude", 0, SOON, SOON, "usage limit"),
        'node=1 visit=1 iter=2 provider=claude until=2026-01-31T12:00:04Z message="usage limit"',
        "build 2/3 waiting 4.0s for the limit of claude",
    ),
    (
        f.ProviderChanged(1, "claude", 0, "codex", 1, "usage limit", SOON),
        'node=1 visit=1 iter=2 provider=claude to=codex message="usage limit"',
        "build 2/3 switching from claude to codex",
    ),
    (
        f.ProviderChanged(2, "codex", 1, "claude", 0, "not logged in", None, SOON),
        'node=1 visit=1 iter=2 provider=codex to=claude message="not logged in"',
        "build 2/3 switching from codex to claude in 4.0s",
    ),
    (
        f.AttemptStarted(2, 2, "codex", "gpt", choice=1, resume="abc"),
        "node=1 visit=1 iter=2 attempt=2 provider=codex agent_session=abc",
        "build 2/3 resuming agent session abc",
    ),
    (f.DelayStarted(SOON), "", None),
    (f.TimerFired("retry"), "timer=retry", None),
    (
        completed(),
        'node=1 visit=1 iter=2 decision=continue summary="wrote the parser"',
        "build 2/3 done in 1.5s: wrote the parser",
    ),
    (
        replace(completed(), artifact=Artifact("a.json", 120, "0" * 64)),
        'node=1 visit=1 iter=2 decision=continue artifact_bytes=120 summary="wrote the parser"',
        "build 2/3 done in 1.5s: wrote the parser",
    ),
    (
        completed(Decision.STOP, ""),
        "node=1 visit=1 iter=2 decision=stop",
        "build 2/3 done in 1.5s (agent requested stop)",
    ),
    (
        completed(Decision.ERROR, "no way"),
        'node=1 visit=1 iter=2 decision=error summary="no way"',
        "build 2/3 reported an error after 1.5s: no way",
    ),
    (
        f.NodeCompleted("build", "max reached", 3),
        'node=1 visit=1 reason="max reached"',
        "build is done: max reached",
    ),
    (f.SessionCompleted("all done"), 'reason="all done"', "completed: all done"),
    (
        f.SessionFailed(FailureKind.PROVIDER_MISSING, "no agent", "build"),
        'type=provider_missing message="no agent"',
        "failed: provider_missing: no agent",
    ),
    (f.PauseRequested("requested"), 'reason="on request"', "pause requested"),
    (f.SessionPaused("requested"), 'reason="on request"', "paused: on request"),
    (f.SessionResumed("person"), "by=person", "resumed"),
    (f.CancelRequested("requested"), 'reason="on request"', "cancel requested"),
    (f.CancelRequested("a mistake"), 'reason="a mistake"', "cancel requested: a mistake"),
    (f.SessionAborted("requested"), 'reason="on request"', "cancelled: on request"),
    (
        f.RequestOpened("r-1", "escalation", "k", "lost", "Retry?", ("resume", "cancel")),
        'node=1 visit=1 id=r-1 kind=escalation of=person question="Retry?"',
        "escalation: Retry? [resume, cancel]",
    ),
    (
        f.RequestOpened("r-2", "escalation", "k", "cap", "More?", ("cancel",), grants="tokens"),
        'node=1 visit=1 id=r-2 kind=escalation of=person question="More?"',
        "escalation: More? [cancel, or a number of tokens]",
    ),
    (
        f.RequestOpened("q-1", "question", "k", "q", "Which?", (), ("person", "agent"), due_at=SOON),
        "node=1 visit=1 id=q-1 kind=question of=person|agent"
        f' due={SOON:%Y-%m-%dT%H:%M:%SZ} question="Which?"',
        "question: Which? [any text]",
    ),
    (
        f.RequestAnswered("r-1", "reject", "person", "use a\nqueue"),
        'id=r-1 answer="reject" by=person text="use a queue"',
        "person answered: reject (use a queue)",
    ),
    (f.RequestResolved("r-1", "granted", 3), "id=r-1 effect=granted granted=3", None),
    (f.CheckpointCleared("ship", "person"), "name=ship by=person", "checkpoint ship was cleared by person"),
    (
        f.RestartRequested("stuck", "person", "claude"),
        'provider=claude by=person reason="stuck"',
        "restart of the stage requested: stuck",
    ),
    (
        f.RestartRequested("requested", "person"),
        'by=person reason="requested"',
        "restart of the stage requested",
    ),
    (
        f.NodeRestarted("build", "rejected", "use a queue", "person", 1),
        'node=1 visit=1 cause=rejected by=person reason="use a queue"',
        "build was rejected by person, and runs again: use a queue",
    ),
    (
        f.NodeRestarted("build", "requested", "stuck", "person", 1),
        'node=1 visit=1 cause=requested by=person reason="stuck"',
        "build is restarted by person, and runs again: stuck",
    ),
    (
        f.NodeRestarted("build", "requested", "requested", "person", 1),
        'node=1 visit=1 cause=requested by=person reason="requested"',
        "build is restarted by person, and runs again",
    ),
    (f.NoteAdded("be quick", "person"), 'by=person text="be quick"', "person added a note: be quick"),
    (
        f.RequestAnswered("r-1", "resume", "person"),
        'id=r-1 answer="resume" by=person',
        "person answered: resume",
    ),
    (f.RequestResolved("r-1", "continue"), "id=r-1 effect=continue", None),
    (
        f.RequestResolved("r-1", "withdrawn"),
        "id=r-1 effect=withdrawn",
        "withdrawn: the request r-1 needs no answer any more",
    ),
    (f.AwaitingApproval(("r-1", "r-2")), "requests=r-1,r-2", "waiting for an answer"),
    (f.SessionContinued(("r-1",)), "requests=r-1", "continuing after an answer"),
    (f.JudgeEnding(1, "lunch"), 'node=1 visit=1 iter=2 attempt=1 reason="lunch"', None),
    (
        f.LogImported(7, "0" * 64, "pipeline", "r", plan(), "1.0", SOON, Between(None)),
        "lines=7 engine=1.0",
        "imported from the agent-pipelines shell engine (7 events)",
    ),
    (f.LogRepaired(5, "x"), "bytes=5", "the log's last line was incomplete; 5 bytes were archived"),
    (f.DamageAccepted((3, 4)), "lines=3,4", "ignoring 2 damaged lines"),
    (
        f.NodeStarted("build", kind="parallel", providers=("claude", "codex")),
        "node=1 kind=parallel",
        "build started: claude, codex in parallel",
    ),
    (f.ProviderStarted("claude", ("draft",)), "node=1 visit=1 provider=claude", None),
    (
        f.ProviderCompleted("claude"),
        "node=1 visit=1 provider=claude status=completed",
        "build is done",
    ),
    (
        f.ProviderCompleted("claude", "failed", "it\nbroke"),
        'node=1 visit=1 provider=claude status=failed error="it broke"',
        "build failed: it broke",
    ),
    (f.WorkerCompleted("/r.json", 0), "node=1 visit=1 iter=2 exit_code=0", None),
    (
        f.StageCompleted("build", "max reached", 3),
        'node=1 visit=1 reason="max reached"',
        "build is done: max reached",
    ),
    (f.ManifestWritten("/m.json"), "", None),
    (f.ItemsPlanned(), "node=1 visit=1 items=0 pending=0", "build has no items"),
    (
        f.ItemsPlanned((S1, S2), added=("s1", "s2")),
        "node=1 visit=1 items=2 pending=2 added=2",
        "build has 2 items",
    ),
    (
        f.ItemsPlanned((replace(S1, status="done"), S2), changed=("s2",), dropped=("s3", "s4")),
        "node=1 visit=1 items=2 pending=1 changed=1 dropped=2",
        "build has 2 items, 1 of them to do (1 changed, 2 dropped)",
    ),
    (
        f.ItemsPlanned((S1, S2), reopened=("s1",), repair="repair-2"),
        "node=1 visit=1 items=2 pending=2 reopened=1 repair=repair-2",
        "build has 2 items (1 reopened)",
    ),
    (f.ItemEnded("s1", "done"), "node=1 visit=1 item=s1 status=done", None),
    (f.ItemEnded("s1", "failed"), "node=1 visit=1 item=s1 status=failed", "build item s1 failed"),
    (
        f.ItemEnded("s1", "failed", "check 'test': 2\nfailed"),
        "node=1 visit=1 item=s1 status=failed reason=\"check 'test': 2 failed\"",
        "build item s1 failed: check 'test': 2 failed",
    ),
    (f.JudgeStarted("claude", "haiku"), "node=1 visit=1 iter=2 provider=claude model=haiku attempt=1", None),
    (
        f.JudgeCompleted("success", f.JudgeResult(True, "no more to find", 0.9)),
        'node=1 visit=1 iter=2 status=success stop=true reason="no more to find"',
        "build 2/3 judged: stop: no more to find",
    ),
    (
        f.JudgeCompleted("success", f.JudgeResult(False, "")),
        "node=1 visit=1 iter=2 status=success stop=false",
        "build 2/3 judged: continue",
    ),
    (
        f.JudgeCompleted("failed", f.JudgeResult(False, "invoke_failed"), 2, error="not\nlogged in"),
        'node=1 visit=1 iter=2 status=failed stop=false reason="invoke_failed" error="not logged in"',
        "build 2/3 could not be judged (attempt 2): not logged in",
    ),
    (
        f.JudgeCompleted("skipped", f.JudgeResult(False, "judge_unreliable")),
        'node=1 visit=1 iter=2 status=skipped stop=false reason="judge_unreliable"',
        "build 2/3 continuing without the judge: judge_unreliable",
    ),
    (f.JudgeLost(1), "node=1 visit=1 iter=2 attempt=1", None),
    (f.QueueChecked(4), "node=1 visit=1 iter=2 remaining=4", None),
    (f.PlanChanged(plan(), Destination("1")), "node=1", "continuing with the recompiled pipeline"),
    (
        f.PlanChanged(plan().with_caps(Amount(0.5, 9)), Destination("1"), caps_set=("cost_usd",)),
        "node=1",
        "continuing with other caps: the run may spend at most $0.50",
    ),
    (
        f.FileRefused("control/a.json", "it is not a valid control", "a.json.refused"),
        'name="control/a.json" moved_to="a.json.refused" reason="it is not a valid control"',
        "refused control/a.json: it is not a valid control; moved to a.json.refused",
    ),
    (
        f.LedgerAnswered("k", 0.5, DailyAnswer("2026-01-15", 5.0, 1.0, 0.5, 0.3)),
        "node=1 visit=1 iter=2 day=2026-01-15 cap_usd=5.0 spent_usd=1.0 reserved_usd=0.5 granted_usd=0.3",
        None,
    ),
    (
        f.LedgerAnswered("k", 0.5, DailyAnswer("2026-01-15", 5.0, 4.8, 0.1)),
        "node=1 visit=1 iter=2 day=2026-01-15 cap_usd=5.0 spent_usd=4.8 reserved_usd=0.1 granted_usd=0.0",
        "build 2/3 the cap of 2026-01-15 is reached by all runs: $4.80 of $5.00 spent, $0.10 reserved",
    ),
    (
        f.LedgerAnswered("k", 0.5, DailyAnswer("2026-01-15", 5.0, 5.0, 0.0)),
        "node=1 visit=1 iter=2 day=2026-01-15 cap_usd=5.0 spent_usd=5.0 reserved_usd=0.0 granted_usd=0.0",
        "build 2/3 the cap of 2026-01-15 is reached by all runs: $5.00 of $5.00 spent",
    ),
    (
        f.SpendingWarned(0.4, 0.25),
        "cost_usd=0.4 warn_usd=0.25",
        "has spent $0.40; you wanted to know at $0.25",
    ),
    (f.TmuxSessionCleaned("pipeline-s"), "name=pipeline-s", None),
    *FILES_LINES,
    *HOOK_LINES,
    *CHECK_LINES,
    *DELIVER_LINES,
]


def test_every_fact_has_a_row() -> None:
    assert set(ROWS) == set(f.FACTS.values())


def test_every_fact_has_a_line() -> None:
    assert {type(fact) for fact, _, _ in LINES} == set(get_args(AnyFact))


@pytest.mark.parametrize(
    ("fact", "line"),
    [
        (f.NodeStarted("build", "1"), ("stage", "build")),
        (f.AttemptStarted(1, 2, "replay", ""), ("work", "iteration 2, attempt 1: agent started")),
        (f.AttemptReattached(1, 9), ("reattached", "reattached to the running agent (supervisor PID 9)")),
        (f.AttemptLost(1, "it died", started=True), ("lost", "attempt lost: it died")),
        (completed(summary="wrote it"), ("done", "wrote it (1.5 s)")),
        (f.ErrorOccurred(FailureKind.PROVIDER_TIMEOUT, "too slow", "build", 1), ("lost", "too slow")),
        (f.SessionRecovered(7, "host"), ("reattached", "a new engine recovered the run from its log")),
        (f.SessionCompleted("complete"), ("done", "the run is complete")),
        (f.DelayStarted(SOON), None),
    ],
)
def test_lines_of_the_demo(fact: AnyFact, line: tuple[str, str] | None) -> None:
    assert demo_line(event(fact, AT)) == line


def test_hook_that_is_skipped_or_lost_is_a_warning() -> None:
    for fact in (f.HookSkipped("h", "stage_end", "no value"), f.HookLost("h", "stage_end", "d", 1)):
        line = run_line(event(fact), plan())
        assert line is not None
        assert (line.mark, line.level) == ("warning", "warn")


@pytest.mark.parametrize(("fact", "details", "words"), LINES)
def test_lines_of_events(fact: AnyFact, details: str, words: str | None) -> None:
    line = event_line(event(fact, AT), UTC)
    assert line.text == f"[12:00:00] {fact.TYPE} {details}".rstrip()
    said = run_line(event(fact, AT), plan()) or ending_line(fact, ())
    assert (said.words if said else None) == words


def test_events_without_a_place_have_lines_too() -> None:
    for fact, _, _ in LINES:
        assert event_line(event(fact, None), UTC).text.startswith(f"[12:00:00] {fact.TYPE}")
        run_line(event(fact, None), plan())


def test_events_of_a_branch_name_its_provider() -> None:
    at = Cursor("1", 1, 2, "claude")
    line = event_line(event(f.AttemptStarted(1, 2, "claude", "opus"), at), UTC)
    assert line.text == "[12:00:00] attempt_start node=1 visit=1 iter=2 branch=claude attempt=1"
    said = run_line(event(completed(), at), plan())
    assert said is not None
    assert said.words == "claude: build 2/3 done in 1.5s: wrote the parser"
    ended = run_line(event(f.StageCompleted("build", "enough", 2), at), plan())
    assert ended is not None
    assert ended.words == "claude: build is done: enough"
    again = run_line(event(f.NodeRestarted("build", "requested", "stuck", "person", 1), at), plan())
    assert again is not None
    assert again.subject == "claude: build"
    done = run_line(event(f.ProviderCompleted("claude"), at), plan())
    assert done is not None
    assert done.words == "claude: build is done"


@pytest.mark.parametrize(
    ("fact", "mark", "words"),
    [
        (f.StageVerdictReached("pass"), "done", "build verdict pass"),
        (f.StageVerdictReached("fail"), "failed", "build verdict fail"),
        (f.StageVerdictReached("reject"), "failed", "build verdict reject"),
        (f.StageVerdictReached("large"), "note", "build verdict large"),
        (
            f.StageTransitioned("build", "plan", "fail", cycle=2, of=3),
            "back",
            "build goes back to plan (cycle 2 of 3)",
        ),
        (f.StageTransitioned("build", "last", "large"), "onward", "build continues with last"),
        (f.NodeCompleted("build", "enough", 1, verdict="pass"), "done", "build is done: enough"),
        (
            f.NodeCompleted("build", "enough", 1, verdict="fail", overridden_by="Ada"),
            "warning",
            "build was accepted by Ada despite verdict fail",
        ),
        (
            f.StageCompleted("build", "enough", 1, "reject", "Ada", "it is\nflaky"),
            "warning",
            "build was accepted by Ada despite verdict reject: it is flaky",
        ),
    ],
)
def test_marks_of_verdicts(fact: AnyFact, mark: str, words: str) -> None:
    line = run_line(event(fact, AT), plan())
    assert line is not None
    assert (line.mark, line.words) == (mark, words)


@pytest.mark.parametrize("verdict", ["fail", "reject", "large"])
def test_stage_that_a_route_leaves_is_not_called_done(verdict: str) -> None:
    """The lines of its verdict and its route say how it ended."""
    assert run_line(event(f.NodeCompleted("build", "enough", 1, verdict=verdict), AT), plan()) is None
    at = Cursor("1.0", 1, 2, "codex")
    assert run_line(event(f.StageCompleted("build", "enough", 2, verdict), at), plan()) is None


def test_route_to_the_end_ends_a_branch_or_a_pipeline() -> None:
    fact = f.StageTransitioned("build", "", "large")
    branch = run_line(event(fact, Cursor("1", 1, 2, "codex")), plan())
    inner = run_line(event(replace(fact, next=Destination("2")), AT), plan())
    assert branch is not None
    assert inner is not None
    assert branch.words == "codex: build ends its branch (verdict large)"
    assert inner.words == "build ends its pipeline (verdict large)"


def test_hook_of_a_whole_stage_names_no_iteration() -> None:
    started = event(f.HookStarted("review", "stage_start", "d-1", action="script"), Cursor("1", 1, 0))
    line = run_line(started, plan())
    assert line
    assert line.words == "build calling hook review (script)"
    assert event_line(started, UTC).details.startswith("node=1 visit=1 hook=review point=stage_start ")


def test_a_line_is_shown_in_the_given_time_zone() -> None:
    zone = timezone(timedelta(hours=2))
    assert event_line(event(f.SessionCompleted("")), zone).text == "[14:00:00] session_complete"


def test_a_long_summary_is_cut_at_80_columns() -> None:
    line = event_line(event(completed(summary="x" * 200), AT), UTC)
    assert f'summary="{"x" * 79}…"' in line.text


def test_an_event_as_json_has_the_keys_of_the_log() -> None:
    found = json.loads(event_json(event(f.TimerFired("retry"), AT, seq=7)))
    assert found == {
        "seq": 7,
        "type": "timer_fired",
        "timestamp": "2026-01-31T12:00:00Z",
        "session": "auth",
        "cursor": {"node_path": "1", "node_run": 1, "iteration": 2},
        "data": {"timer": "retry"},
        "trace_id": "run-1",
    }


def test_a_line_of_output_as_json_has_the_shape_of_an_event() -> None:
    assert json.loads(output_json("auth", Cursor("1", 1, 2, "claude"), 3, "reading")) == {
        "type": "output",
        "session": "auth",
        "cursor": {"node_path": "1", "node_run": 1, "iteration": 2, "provider": "claude"},
        "data": {"attempt": 3, "text": "reading"},
    }


def test_nodes_are_named_by_their_ids_where_the_plan_is_known() -> None:
    inside = Cursor("2.0", 1, 2, "claude")
    named = plan_of(stage("plan"), stage("build"), block("claude", stage("draft")))
    for at, name in ((AT, "build"), (inside, "draft"), (Cursor("7", 1, 2), "7")):
        started_there = event(f.AttemptStarted(1, 2, "claude", "opus"), at)
        assert event_line(started_there, UTC, named).details.startswith(f"node={name} visit=1 iter=2 ")
    changed = event(f.PlanChanged(named, Destination("1")), None)
    assert event_line(changed, UTC, named).details == "node=build"


def test_request_that_was_closed_elsewhere_says_by_whom_and_how() -> None:
    answered = f.RequestAnswered("r-1", "use\nsqlite", "person")
    assert closed_text(answered) == "Answered elsewhere by person: use sqlite"
    assert closed_text(None) == "The request is closed."
