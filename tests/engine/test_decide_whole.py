"""What the lines of a playbook leave out: facts, questions and tasks with all that they carry."""

from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, RUN_ID, block, nested, plan_of, stage, started
from tests.engine.playbook import Play

from agentforge.engine.decide.checks import cycle_limits
from agentforge.engine.decide.failure import choose_in_chain
from agentforge.engine.decide.hooks import grant_limit
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.check import Check
from agentforge.model.condition import ConstantTerm, Operation, VariableTerm
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.failure import FailureKind
from agentforge.model.hook import Hook, delivery_id
from agentforge.model.plan import (
    Approval,
    Guardrails,
    Judgment,
    LimitPolicy,
    Limits,
    Plan,
    ProviderChoice,
    Queue,
    RetryPolicy,
    Route,
    SandboxChoice,
)
from agentforge.model.request import ABORT, ACCEPT, CANCEL, CONTINUE, RESUME, RETRY, Request
from agentforge.model.result import Usage
from agentforge.model.state import AttemptState, IterationState, RunSettings, StageState, Unavailable
from agentforge.model.status import IterationStatus, TaskStatus
from agentforge.model.task import AgentTask, HookTask, PrepareTask, Wait

Fact = TypeVar("Fact", bound=f.AnyFact)
Task = TypeVar("Task")
REJECTS = Route("reject", "ask")
CHECK = Check("test", "make test")


def played(plan: Plan, *lines: str) -> Play:
    run = Play(plan)
    for line in ("start", *lines):
        run.happens(line)
    return run


def drafts(run: Play, kind: type[Fact]) -> list[tuple[Fact, Cursor | None]]:
    return [(event.fact, event.cursor) for event in run.events if isinstance(event.fact, kind)]


def last(run: Play, kind: type[Fact]) -> Fact:
    return drafts(run, kind)[-1][0]


def task(run: Play, kind: type[Task]) -> Task:
    return next(work for work in run.work if isinstance(work, kind))


DONE = ("prepared", "completed stop")
REJECTED = ("prepared", "completed stop verdict=reject")


def of(branch: str, *lines: str) -> tuple[str, ...]:
    return tuple(f"{branch}: {line}" for line in lines)


# -- nodes and stages


def test_visit_names_its_stage_with_the_provider_and_the_limit_of_iterations() -> None:
    verify = stage("verify", routes=(Route("reject", "go", "draft"),))
    run = played(
        plan_of(stage("plan", runs=2), block("claude", stage("draft", runs=4), verify)),
        *DONE,
        *of("claude", *DONE, *REJECTED),
    )
    begun = drafts(run, f.NodeStarted)
    assert begun[0] == (
        f.NodeStarted("plan", "0", 1, "stage-00-plan", (1,), "plan", "claude", "opus", 2),
        Cursor("0", 1, 0),
    )
    folder = f"{run.plan.places['1'].dir}/providers/claude/stage-00-draft/run-002"
    assert begun[-1] == (
        f.NodeStarted("draft", "1.0", 2, folder, (1,), "draft", "claude", "opus", 4),
        Cursor("1.0", 2, 0, "claude"),
    )


def test_completed_stage_says_who_accepted_its_result_and_why() -> None:
    asks = stage("plan", routes=(REJECTS,))
    run = played(plan_of(asks), *REJECTED)
    run.happens(f"answer {last(run, f.RequestOpened).id} accept good enough")
    done = last(run, f.NodeCompleted)
    assert (done.verdict, done.overridden_by, done.override_reason) == ("reject", "person", "good enough")
    branch = played(plan_of(block("claude", asks)), *of("claude", *REJECTED))
    branch.happens(f"answer {last(branch, f.RequestOpened).id} accept good enough")
    ended = "Agent requested stop at iteration 1"
    assert last(branch, f.StageCompleted) == f.StageCompleted(
        "plan", ended, 1, "reject", "person", "good enough"
    )


def test_run_that_fails_says_the_reason_of_the_verdict() -> None:
    run = played(plan_of(stage("plan")), *REJECTED)
    assert last(run, f.SessionFailed).message == "the agent says so"
    run.happens("resume")
    assert last(run, f.NodeRestarted).by == "person"


def test_failed_hook_of_the_run_fails_it_outside_of_every_node() -> None:
    hook = Hook("h", "session_start", "call", on_failure="fail")
    run = played(plan_of(stage(), hooks=(hook,)), "hook failed")
    assert drafts(run, f.SessionFailed) == [
        (f.SessionFailed(FailureKind.HOOK_FAILED, "hook 'h' failed: no answer", ""), Cursor("0", 0, 0))
    ]


# -- routes


@pytest.mark.parametrize("action", ["go", "end"])
def test_route_says_the_verdict_and_what_it_skips(action: Any) -> None:
    target = "last" if action == "go" else ""
    plan = plan_of(
        stage("first"),
        stage("plan", routes=(Route("reject", action, target),)),
        stage("build"),
        stage("last"),
    )
    run = played(plan, *DONE, *REJECTED)
    skipped, to = (("build",), Destination("3")) if action == "go" else (("build", "last"), None)
    assert last(run, f.StageTransitioned) == f.StageTransitioned(
        "plan", target, "reject", "the agent says so", skipped=skipped, next=to
    )


def test_end_of_a_nested_pipeline_leads_to_what_follows_it() -> None:
    ends = stage("refine", routes=(Route("reject", "end"),))
    plan = plan_of(nested("outer", nested("inner", ends, stage("other"), runs=2), runs=2), stage("last"))
    run = played(plan, *REJECTED)
    assert last(run, f.StageTransitioned).next == Destination("0.0.0", (1, 2, 1))
    for line in REJECTED:
        run.happens(line)
    assert last(run, f.StageTransitioned).next == Destination("1")


def test_route_that_ends_a_branch_leads_to_no_other_node() -> None:
    ends = stage("draft", routes=(Route("reject", "end"),))
    run = played(plan_of(block("claude", ends, stage("other")), stage("last")), *of("claude", *REJECTED))
    assert last(run, f.StageTransitioned).next is None
    assert last(run, f.StageCompleted).name == "draft"


def test_cycles_of_a_branch_are_counted_on() -> None:
    verify = stage("verify", routes=(Route("reject", "go", "draft"),))
    run = played(plan_of(block("claude", stage("draft"), verify)), *of("claude", *(DONE + REJECTED) * 2))
    assert [fact.cycle for fact, _ in drafts(run, f.StageTransitioned)] == [2, 3]


def test_limits_of_a_pipeline_hold_for_stages_without_their_own() -> None:
    info = replace(plan_of().pipeline, limits=Limits(5, 6, 7))
    assert cycle_limits(info, stage()) == Limits(5, 6, 7)
    assert cycle_limits(info, stage(limits=Limits(1, 2, 3))) == Limits(1, 2, 3)


def test_visit_after_checks_that_failed_before_the_first_iteration_is_told_no_files() -> None:
    verify = stage("verify", checks=(replace(CHECK, at=("start",)),), routes=(Route("fail", "go", "build"),))
    run = played(plan_of(stage("build"), verify), *DONE, "check fail")
    feedback = task(run, PrepareTask).feedback
    assert feedback is not None
    assert (feedback.by, feedback.files) == ("stage verify", ())


# -- checks


def test_check_has_its_time_unless_the_run_has_less() -> None:
    times = []
    for limit in (None, 900.0, 60.0):
        for check in (CHECK, replace(CHECK, timeout=30.0)):
            run = played(plan_of(stage(checks=(check,)), max_runtime=limit), *DONE)
            times.append(last(run, f.CheckStarted).timeout)
    assert times == [600, 30, 600, 30, 60, 30]


def test_question_about_a_lost_check_names_it() -> None:
    run = played(plan_of(stage(checks=(CHECK,))), *DONE, *["check lost"] * 3)
    assert (last(run, f.RequestOpened).reason, last(run, f.RequestOpened).subject) == ("check_lost", "test")


def test_five_of_the_files_are_named_that_changed_during_a_check() -> None:
    run = played(plan_of(stage(checks=(CHECK,))), *DONE)
    for number in (1, 2, 3):
        paths = tuple(f"file-{name}" for name in range(7))
        done = f.CheckCompleted("test", number, "pass", changed=paths)
        run.record(done, run.work[0].recorded_at)
        run.answer()
    named = "file-0, file-1, file-2, file-3, file-4"
    assert last(run, f.SessionFailed).message == f"check 'test': files changed each time it ran: {named}"


@pytest.mark.parametrize("number", [5, 6])
def test_question_names_five_failures_and_how_many_more_there_are(number: int) -> None:
    verify = stage("verify", checks=(CHECK,), routes=(Route("fail", "go", "build"),))
    run = played(plan_of(stage("build"), verify))
    says = " ".join(f"t{n}" for n in range(number))
    for line in [*DONE, *DONE, f"check fail {says} tree=t"] * 2:
        run.happens(line)
    text = last(run, f.RequestOpened).question
    assert "test: t4" in text
    assert (" more." in text) == (number > 5)


# -- questions


def test_question_about_a_verdict_of_an_agent_offers_no_checks() -> None:
    run = played(plan_of(stage("plan", routes=(REJECTS,))), *REJECTED)
    asked = last(run, f.RequestOpened)
    assert asked.options == (ACCEPT, RETRY, CANCEL)
    assert asked.question == (
        "stage 'plan' ended with 'reject': the agent says so."
        " Accept the result, run the stage again, or cancel the run?"
    )


def test_verdict_without_a_reason_is_told_without_one() -> None:
    run = Play(plan_of(stage("plan", routes=(REJECTS,))))
    for line in ("start", "prepared"):
        run.happens(line)
    said = f.IterationCompleted
    fact = played(run.plan, *REJECTED).events
    done = next(event for event in fact if isinstance(event.fact, said))
    assert isinstance(done.fact, said)
    run.record(replace(done.fact, result=replace(done.fact.result, reason="")), done.cursor)
    run.answer()
    assert last(run, f.RequestOpened).question.startswith("stage 'plan' ended with 'reject'. Accept")


def test_default_of_an_approval_needs_a_time() -> None:
    plan = plan_of(stage(approve=Approval(on_timeout="approve")))
    assert last(played(plan, *DONE), f.RequestOpened).default is None


def test_hook_that_asks_is_named_with_its_branch() -> None:
    hooks = (Hook("all", "session_start", "pause"), Hook("one", "parallel_provider_start", "pause"))
    run = played(plan_of(block("claude", stage("draft")), hooks=hooks))
    of_run, at = drafts(run, f.RequestOpened)[-1]
    assert at is None
    assert (of_run.key, of_run.scope, of_run.options) == ("hook_pause:all", "run", (CONTINUE, ABORT))
    run.happens(f"answer {of_run.id} continue")
    of_branch, at = drafts(run, f.RequestOpened)[-1]
    assert at == Cursor("0", 1, 0, "claude")
    assert (of_branch.scope, of_branch.subject) == ("branch", "one")
    assert of_branch.question == "claude: Hook 'one' paused the run. Continue?"


# -- hooks


def test_call_says_how_it_is_made_and_what_it_is_about() -> None:
    hooks = (Hook("h", "stage_end", "webhook", url="http://127.0.0.1/", timeout=5.0),)
    run = played(plan_of(stage(), hooks=hooks), *DONE)
    begun = last(run, f.HookStarted)
    assert (begun.action, begun.timeout, begun.subject) == (
        "webhook",
        5.0,
        "Agent requested stop at iteration 1",
    )
    assert last(run, f.EffectIntended).target == "http://127.0.0.1/"
    of_block = replace(hooks[0], stage="duel")
    plan = plan_of(block("claude", stage("draft")), hooks=(of_block,))
    ends = played(plan, *of("claude", *DONE), "manifest")
    assert last(ends, f.HookStarted).subject == "all providers complete"


def test_second_try_is_numbered() -> None:
    hooks = (Hook("h", "stage_start", "webhook", url="http://127.0.0.1/"),)
    run = played(plan_of(stage(), hooks=hooks), "hook unreachable", "fired hook", "hook unreachable")
    assert [fact.attempt for fact, _ in drafts(run, f.HookRetryScheduled)] == [1, 2]
    (wait,) = run.work
    assert isinstance(wait, Wait)
    assert wait.cursor == Cursor("0", 1, 0)


def test_hook_of_a_request_has_the_request_and_its_text_is_kept() -> None:
    approve = stage(approve=Approval())
    run = played(plan_of(approve, hooks=(Hook("h", "request", "call"),)), *DONE)
    call = task(run, HookTask)
    asked = last(run, f.RequestOpened)
    assert call.request is not None
    assert (call.request.id, call.at, call.text) == (asked.id, Cursor("0", 1, 1), "")
    of_call = (call.hook.id, call.hook.point, call.delivery, call.attempt)
    answer = f.HookCompleted(*of_call, action="answer", answer="reject", text="too short")
    run.record(answer, call.recorded_at)
    run.answer()
    given = last(run, f.RequestAnswered)
    assert (given.answer, given.text) == ("reject", "too short")


def test_hook_gets_the_notes_and_those_of_the_run_no_stage() -> None:
    hooks = (Hook("first", "session_start", "call"), Hook("second", "stage_start", "call"))
    run = played(plan_of(stage(), hooks=hooks), "note be quick")
    first = task(run, HookTask)
    assert (first.notes, first.name, first.place.path, first.place.folder) == (("be quick",), "", "", "")
    run.happens("hook continue")
    assert task(run, HookTask).text == ""


def test_hooks_of_the_run_have_the_sandbox_of_the_stage_next_to_them() -> None:
    boxes = [SandboxChoice("bwrap"), SandboxChoice("docker")]
    hooks = (Hook("first", "session_start", "call"), Hook("last", "session_end", "call"))
    plan = plan_of(stage("plan", sandbox=boxes[0]), stage("build", sandbox=boxes[1]), hooks=hooks)
    run = played(plan)
    assert task(run, HookTask).sandbox == boxes[0]
    for line in ("hook continue", *DONE, *DONE):
        run.happens(line)
    assert task(run, HookTask).sandbox == boxes[1]


def test_restart_by_a_hook_names_it_its_branch_and_its_reason() -> None:
    hooks = (Hook("h", "iteration_end", "call"),)
    plan = plan_of(block("claude", stage("draft")), hooks=hooks)
    run = played(plan, *of("claude", *DONE, "hook restart_stage it is late"))
    assert last(run, f.RestartRequested) == f.RestartRequested("it is late", "hook h", "claude", hook="h")
    run = played(plan, *of("claude", *DONE, "hook restart_stage"))
    assert last(run, f.RestartRequested).reason == "requested by hook h"


def test_person_is_asked_whether_hooks_restart_a_stage_once_more() -> None:
    run = played(plan_of(stage(), hooks=(Hook("h", "iteration_end", "call"),)))
    for _ in range(11):
        for line in (*DONE, "hook restart_stage"):
            run.happens(line)
    asked, at = drafts(run, f.RequestOpened)[-1]
    assert at == Cursor("0", 11, 1)
    assert (asked.grants, asked.options) == ("rounds", (RETRY, ACCEPT, RESUME, CANCEL))
    assert asked.question == (
        "Hooks restarted stage 'plan' 10 times. Restart it once more (retry), continue without a restart"
        " (accept), or cancel (cancel)?"
    )


# -- agents


def test_agent_gets_all_that_is_known() -> None:
    retries = RetryPolicy(max_attempts=3)
    run = played(
        plan_of(stage(retry=retries, timeout=30.0), max_runtime=600),
        "note be quick",
        "prepared",
        "error iteration_timeout session=abc tokens=10",
    )
    run.now = NOON.replace(second=20)
    run.happens("fired retry")
    agent = task(run, AgentTask)
    assert (agent.resume, agent.before, agent.brief) == ("abc", Usage(input_tokens=10), True)
    assert (agent.prompt_sha256, agent.remaining) == ("0" * 64, 580)
    assert [note.text for note in agent.notes] == ["be quick"]
    first = played(plan_of(stage()), "prepared")
    assert not task(first, AgentTask).brief


def test_preparation_has_what_is_left_of_the_time() -> None:
    run = played(plan_of(stage(runs=2), max_runtime=600))
    assert task(run, PrepareTask).remaining == 600


def test_agent_gets_the_answers_to_its_questions() -> None:
    run = played(plan_of(stage(runs=2)), "prepared", "asks Why?")
    run.happens(f"answer {last(run, f.RequestOpened).id} because")
    run.happens("prepared")
    assert [answer.answer for answer in task(run, AgentTask).answers] == ["because"]


def test_task_that_is_stopped_has_the_reason() -> None:
    run = played(plan_of(stage()), "prepared", "pause lunch now")
    assert last(run, f.AttemptEnding).reason == "lunch"


# -- hooks, again


def place_of_call(point: Any, *lines: str, **changes: Any) -> f.HookStarted:
    return last(played(plan_of(stage(**changes), hooks=(Hook("h", point, "call"),)), *lines), f.HookStarted)


def test_key_of_a_call_names_its_place_and_what_it_is_about() -> None:
    begun = place_of_call("session_start")
    assert (begun.subject, begun.delivery) == ("", delivery_id(RUN_ID, "", "h", "session_start"))
    begun = place_of_call("stage_start")
    assert begun.delivery == delivery_id(RUN_ID, "stage-plan/plan/1/0/", "h", "stage_start")
    begun = place_of_call("stage_end", *DONE)
    assert begun.delivery == delivery_id(RUN_ID, "stage-plan/plan/1/1/", "h", "stage_end")
    begun = place_of_call("request", *DONE, approve=Approval())
    assert begun.subject.startswith("approval-")
    assert begun.delivery == delivery_id(RUN_ID, "stage-plan/plan/1/1/", "h", "request", begun.subject)


@pytest.mark.parametrize(
    ("point", "name", "value", "holds"),
    [
        ("session_start", "iteration", 0, True),
        ("session_start", "stage", "", True),
        ("session_start", "status", "running", True),
        ("stage_start", "stage", "plan", True),
        ("stage_start", "status", "running", True),
        ("stage_start", "status", "completed", False),
        ("stage_end", "status", "completed", True),
        ("stage_end", "status", "failed", False),
        ("stage_end", "status", "running", False),
        ("stage_end", "iteration", 1, True),
    ],
)
def test_condition_of_a_hook_knows_where_it_is(point: Any, name: Any, value: Any, holds: bool) -> None:
    condition = Operation("==", (VariableTerm(name), ConstantTerm(value)))
    run = played(plan_of(stage(), hooks=(Hook("h", point, "call", condition=condition),)))
    if point == "stage_end":
        for line in DONE:
            run.happens(line)
    assert bool(drafts(run, f.HookStarted)) is holds
    assert not drafts(run, f.HookSkipped)


def test_hook_of_a_resume_gets_its_text_and_no_other_hook_does() -> None:
    hooks = (Hook("r", "resume", "call"), Hook("h", "stage_end", "call"))
    run = played(plan_of(stage(), hooks=hooks), "prepared", "pause lunch now", "cancelled", "resume go on")
    assert (task(run, HookTask).hook.id, task(run, HookTask).text) == ("r", "go on")
    for line in ("hook continue", "completed stop"):
        run.happens(line)
    assert (task(run, HookTask).hook.id, task(run, HookTask).text) == ("h", "")


def recompiled(run: Play, plan: Plan) -> list[str]:
    assert run.state is not None
    run.record(plan_change(plan, run.plan, run.state), run.state.cursor)
    return run.answer()


@pytest.mark.parametrize("end", ["completed", "completed stop"])
def test_stage_stays_over_for_its_hooks_under_another_plan(end: str) -> None:
    hooks = (Hook("h", "stage_end", "call"),)
    run = played(plan_of(stage(runs=1), hooks=hooks), "prepared", end)
    reason = last(run, f.HookStarted).subject
    recompiled(run, plan_of(stage(runs=5, termination=Queue(5)), hooks=hooks))
    run.happens("hook continue")
    assert last(run, f.NodeCompleted).reason == reason


def test_stage_whose_hooks_were_lost_is_still_over() -> None:
    hooks = (Hook("h", "stage_end", "call"),)
    run = played(plan_of(stage(runs=1), hooks=hooks), *DONE)
    reason = last(run, f.HookStarted).subject
    recompiled(run, plan_of(stage(runs=5, termination=Queue(5)), hooks=hooks))
    run.happens("hook lost")
    assert [fact.subject for fact, _ in drafts(run, f.HookStarted)] == [reason] * 2


def test_new_hook_of_the_start_is_not_called_later() -> None:
    nodes = (stage("plan"), stage("build", checkpoint="go"))
    run = played(plan_of(*nodes), *DONE)
    asked = last(run, f.RequestOpened).id
    recompiled(run, plan_of(*nodes, hooks=(Hook("h", "session_start", "call"),)))
    run.happens(f"answer {asked} approve")
    assert not drafts(run, f.HookStarted)


def test_lost_hooks_of_a_request_are_left_out() -> None:
    plan = plan_of(stage(approve=Approval()), hooks=(Hook("h", "request", "script", on_lost="pause"),))
    run = played(plan, *DONE, *["hook lost"] * 3)
    skipped = last(run, f.HookSkipped)
    assert (skipped.reason, skipped.answered) == ("3 calls were lost in a row", False)


def test_hooks_in_flight_are_stopped_wherever_they_are() -> None:
    hooks = (Hook("r", "request", "call"), Hook("p", "parallel_provider_start", "call"))
    plan = plan_of(block("claude codex", stage("draft", approve=Approval())), hooks=hooks)
    run = played(plan, "claude: hook continue", *of("claude", *DONE), "pause lunch now")
    assert {fact.hook for fact, _ in drafts(run, f.HookEnding)} == {"r", "p"}
    asked = last(run, f.RequestOpened).id
    assert [w.request.id for w in run.work if isinstance(w, HookTask) and w.request] == [asked]


@pytest.mark.parametrize(
    ("run_limit", "stage_limit", "limit"),
    [(None, None, 0), (60.0, None, 60), (None, 30.0, 30), (60.0, 90.0, 90), (20.0, 10.0, 20)],
)
def test_hook_grants_at_most_the_runtime_of_the_plan(
    run_limit: float | None, stage_limit: float | None, limit: int
) -> None:
    rails = Guardrails(stage_limit) if stage_limit is not None else None
    inside = stage("draft", guardrails=rails)
    plan = plan_of(stage("plan", guardrails=rails), block("claude", inside), max_runtime=run_limit)
    for here in (Cursor("0", 1, 1), Cursor("1.0", 1, 1, "claude")):
        asked = Request("r", "escalation", "k", "x", "?", (), NOON, grants="seconds", at=here)
        assert grant_limit(plan, asked) == limit
    assert grant_limit(plan_of(stage(guardrails=Guardrails(None))), replace(asked, at=Cursor("0", 1, 1))) == 0


# -- people, again


def test_run_that_approves_by_itself_asks_no_hook() -> None:
    plan = plan_of(stage(approve=Approval()), hooks=(Hook("h", "request", "call"),))
    run = Play(plan)
    run.record(started(plan, RunSettings(approve=True)), Cursor("0", 0, 0))
    run.answer()
    for line in DONE:
        run.happens(line)
    assert last(run, f.RequestAnswered).by == "--yes"
    assert not drafts(run, f.HookStarted)


def test_question_after_the_last_rejection_grants_rounds() -> None:
    run = played(plan_of(stage(approve=Approval(rounds=1))), *DONE)
    run.happens(f"answer {last(run, f.RequestOpened).id} reject no")
    asked = last(run, f.RequestOpened)
    assert (asked.reason, asked.grants) == ("approval_rounds", "rounds")


def test_rejected_visit_without_an_iteration_has_no_files() -> None:
    checks = (replace(CHECK, at=("start",)),)
    routes = (Route("fail", "ask"),)
    plan = plan_of(stage(checks=checks, approve=Approval(), routes=routes))
    run = played(plan, "check fail")
    run.happens(f"answer {last(run, f.RequestOpened).id} accept")
    if last(run, f.RequestOpened).kind == "approval":
        run.happens(f"answer {last(run, f.RequestOpened).id} reject no")
        feedback = last(run, f.NodeRestarted).feedback
        assert feedback is not None
        assert feedback.files == ()


def test_question_of_an_agent_has_its_default() -> None:
    run = played(plan_of(stage(runs=2)), "prepared", "asks Why?=because")
    assert (last(run, f.RequestOpened).default, last(run, f.RequestAnswered).answer) == ("because", "because")
    run = played(plan_of(stage(runs=2)), "prepared")
    done = next(
        e.fact
        for e in played(run.plan, "prepared", "asks Why?=x").events
        if e.fact.TYPE == "iteration_complete"
    )
    assert isinstance(done, f.IterationCompleted)
    (question,) = done.result.asked
    silent = replace(done.result, questions=(replace(question, default=None),))
    run.record(replace(done, result=silent), run.work[0].recorded_at)
    run.answer()
    assert last(run, f.RequestAnswered).answer == ""


def test_approval_of_a_branch_that_times_out_is_answered_there() -> None:
    approve = Approval(timeout=60.0, on_timeout="approve")
    run = played(plan_of(block("claude codex", stage("draft", approve=approve))), *of("claude", *DONE))
    asked = last(run, f.RequestOpened)
    timer = next(work for work in run.work if isinstance(work, Wait))
    run.now = timer.due_at
    run.record(f.TimerFired(timer.timer), timer.recorded_at)
    run.answer()
    (answer,) = drafts(run, f.RequestAnswered)
    assert answer == (f.RequestAnswered(asked.id, "approve", "default"), Cursor("0.0", 1, 1, "claude"))


def test_run_that_a_person_paused_waits_for_no_default() -> None:
    approve = Approval(timeout=60.0, on_timeout="approve")
    run = played(plan_of(block("claude codex", stage("draft", approve=approve))), *of("claude", *DONE))
    run.happens("pause lunch now")
    assert run.state is not None
    assert run.state.status == "paused"
    assert run.work == ()


def test_work_that_a_person_confirms_is_an_iteration_like_others() -> None:
    run = played(plan_of(stage(semantics="at_most_once")), "prepared", "lost")
    asked = last(run, f.RequestOpened)
    why = "the engine or the machine died"
    assert asked.question.startswith(f"attempt 1 at iteration 1 of stage 'plan' failed ({why}) and may")
    run.happens(f"answer {asked.id} succeeded")
    summary = "person confirmed that attempt 1 succeeded"
    done = last(run, f.IterationCompleted)
    assert (done.result.summary, done.result.reason) == (summary, summary)
    assert (done.reason, done.result_file, done.duration_ms) == (summary, "", 0)


def test_question_about_an_attempt_that_was_stopped_says_so() -> None:
    run = played(
        plan_of(stage(semantics="at_most_once")), "prepared", "pause lunch now", "cancelled", "resume"
    )
    assert "failed (it was stopped) and may" in last(run, f.RequestOpened).question
    failed = played(plan_of(stage(semantics="at_most_once")), "prepared", "error agent_error")
    assert "failed (it went wrong) and may" in last(failed, f.RequestOpened).question


def test_question_about_lost_judges_is_about_the_last_one() -> None:
    plan = plan_of(stage(runs=5, termination=Judgment(5, 1, 1)))
    run = played(plan, "prepared", "completed", *["judge-lost"] * 3)
    asked = last(run, f.RequestOpened)
    assert asked.key == "judge_lost@0/1/1/3"
    assert asked.question == (
        "3 judges of iteration 1 of stage 'plan' were lost in a row because the engine or the machine died."
        " Retry?"
    )


def test_stage_that_is_visited_again_stays_in_its_round_and_its_branch() -> None:
    inner = nested("inner", stage("draft"), runs=2)
    run = played(plan_of(inner), *DONE, "restart")
    assert last(run, f.NodeRestarted).next == Destination("0.0", (1, 2))
    both = block("claude", stage("draft"), stage("x"))
    branch = played(plan_of(nested("inner", both, runs=2)))
    for line in (
        *of("claude", *DONE * 2),
        "manifest",
        "claude: prepared",
        "restart claude",
        "claude: cancelled",
    ):
        branch.happens(line)
    assert last(branch, f.NodeRestarted).next is None
    assert last(branch, f.NodeStarted).rounds == (1, 2)


def test_hooks_of_a_block_are_called_at_the_block() -> None:
    hooks = (Hook("s", "stage_start", "call", stage="duel"), Hook("e", "stage_end", "call", stage="duel"))
    plan = plan_of(block("claude", stage("draft")), hooks=hooks)
    run = played(plan, "hook continue", *of("claude", *DONE), "manifest")
    assert [at for _, at in drafts(run, f.HookStarted)] == [Cursor("0", 1, 0)] * 2


# -- failures


LIMIT = datetime(2026, 1, 15, 12, 1, tzinfo=UTC)


def test_question_about_a_limit_says_which_and_how_long() -> None:
    policy = LimitPolicy(max_wait=59.0)
    run = played(plan_of(stage(on_limit=policy)), "prepared", "error provider_quota resets=60")
    assert last(run, f.RequestOpened).question == (
        "claude is at its limit until 2026-01-15 12:01 UTC (it went wrong), which exceeds max_wait (59 s)."
        " Retry now?"
    )
    for longest, limit in ((60.0, None), (600.0, 60.0)):
        plan = plan_of(stage(on_limit=replace(policy, max_wait=longest)), max_runtime=limit)
        run = played(plan, "prepared", "error provider_quota resets=60")
        assert last(run, f.LimitMet).due_at == LIMIT


def test_limit_that_is_awaited_despite_the_chain_is_doubled_each_time() -> None:
    policy = LimitPolicy("wait", initial_delay=2.0)
    chain = stage(on_limit=policy, fallbacks=(ProviderChoice("codex", "gpt"),))
    run = played(plan_of(chain), "prepared", *["error provider_quota", "fired retry"] * 4)
    waits = [(fact.due_at - fact.until).total_seconds() for fact, _ in drafts(run, f.LimitMet)]
    begun = [event.at for event in run.events if isinstance(event.fact, f.ErrorOccurred)]
    delays = [
        (fact.due_at - at).total_seconds()
        for (fact, _), at in zip(drafts(run, f.LimitMet), begun, strict=True)
    ]
    assert (waits, delays) == ([0] * 4, [2, 4, 8, 16])


def resting(*known: tuple[int, float | None], last_choice: int | None = None) -> StageState:
    """Providers, and after how many seconds each is available."""
    unavailable = tuple(
        Unavailable(choice, None if after is None else NOON + timedelta(seconds=after), "x")
        for choice, after in known
    )
    attempt = None
    if last_choice is not None:
        attempt = AttemptState(1, TaskStatus.FAILED, NOON, choice=last_choice)
    iteration = IterationState(1, IterationStatus.STARTED, NOON, attempt=attempt)
    return StageState("0", 1, unavailable=unavailable, iteration=iteration)


@pytest.mark.parametrize(
    ("count", "at", "choice"),
    [
        (2, resting(), 0),
        (2, resting(last_choice=1), 1),
        (1, resting(last_choice=1), 0),
        (2, resting((0, 0.0)), 0),
        (2, resting((0, 1.0)), 1),
        (2, resting((0, 1.0), last_choice=0), 1),
        (2, resting((0, 2.0), (1, 1.0)), 1),
        (2, resting((0, 3.0), (1, 2.0), (2, 1.0)), 1),
        (2, resting((0, None), (1, None)), 0),
        (2, resting((0, None), (1, 5.0)), 1),
    ],
)
def test_provider_of_the_next_attempt(count: int, at: StageState, choice: int) -> None:
    assert choose_in_chain(count, at, NOON) == choice


def test_chain_whose_providers_all_need_a_person_begins_with_the_first() -> None:
    chain = stage(retry=RetryPolicy(max_attempts=1, stage=1), fallbacks=(ProviderChoice("codex", "gpt"),))
    run = played(plan_of(chain), "prepared", "error provider_missing", "error provider_missing")
    assert [fact.choice for fact, _ in drafts(run, f.AttemptStarted)] == [0, 1]
