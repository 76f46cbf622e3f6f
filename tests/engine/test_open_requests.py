"""An open question holds what it is about, whatever else happens in the run. None is left open at its end."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from msgspec.structs import replace
from tests.engine.any_run import WildRun, any_wild_run
from tests.engine.plans import block, plan_of, stage
from tests.engine.playbook import Play, play
from tests.sampling import heavy

from agentforge.engine.evolve.run import evolve
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.check import Check
from agentforge.model.cursor import Cursor
from agentforge.model.hook import Hook
from agentforge.model.plan import Limits, Plan, RetryPolicy, Route
from agentforge.model.request import Request
from agentforge.model.state import STUCK, RunState
from agentforge.model.status import FINAL
from agentforge.model.task import Wait

NEW_WORK = (f.IterationStarted, f.AttemptStarted, f.JudgeStarted, f.QueueChecked, f.ManifestWritten)
STARTS = (
    *NEW_WORK,
    f.CheckStarted,
    f.HookStarted,
    f.NodeStarted,
    f.NodeCompleted,
    f.StageCompleted,
    f.StageTransitioned,
    f.ProviderCompleted,
)
"""What a run records when it gets on."""
ANSWERING = ("request", "resume")
"""The points of hooks that are called although a question is open."""


def is_about(request: Request, fact: f.AnyFact, at: Cursor | None) -> bool:
    """Whether the fact starts something that the request is about."""
    if not isinstance(fact, STARTS) or (isinstance(fact, f.HookStarted) and fact.point in ANSWERING):
        return False
    if request.kind in ("pause", "checkpoint"):
        return not isinstance(fact, f.HookStarted) or request.kind == "pause"
    if request.reason == STUCK and isinstance(fact, NEW_WORK):
        return True
    return _visit(request.at) == _visit(at) is not None


def _visit(at: Cursor | None) -> tuple[str, int, str | None] | None:
    return (at.node_path, at.node_run, at.provider) if at else None


def states(run: WildRun) -> Iterator[tuple[RunState, f.AnyFact, Cursor | None]]:
    """Each fact, with the state before it."""
    state: RunState | None = None
    for event in run.events:
        if state is not None:
            yield state, event.fact, event.cursor
        state = evolve(state, event)


@heavy
@given(any_wild_run())
def test_nothing_starts_that_an_open_request_of_any_run_is_about(run: WildRun) -> None:
    for state, fact, at in states(run):
        for request in state.open_requests:
            assert not is_about(request, fact, at), (request, fact)


@heavy
@given(any_wild_run())
def test_no_request_of_any_run_is_left_open_at_its_end(run: WildRun) -> None:
    asked = {event.fact.id for event in run.events if isinstance(event.fact, f.RequestOpened)}
    resolved = {event.fact.id for event in run.events if isinstance(event.fact, f.RequestResolved)}
    assert resolved <= asked
    if run.state.status in FINAL:
        assert resolved == asked


OUTCOMES = (
    f.IterationCompleted,
    f.ErrorOccurred,
    f.AttemptLost,
    f.AttemptCancelled,
    f.CheckCompleted,
    f.CheckLost,
    f.JudgeCompleted,
    f.JudgeLost,
    f.HookCompleted,
    f.HookFailed,
    f.HookTimedOut,
    f.HookLost,
)
BEGUN = {f.AttemptStarted: "agent", f.CheckStarted: "check", f.JudgeStarted: "judge", f.HookStarted: "hook"}


@heavy
@given(any_wild_run())
def test_what_was_started_in_any_run_is_awaited_until_it_has_ended(run: WildRun) -> None:
    """A question that is opened meanwhile doesn't end it. An answered request needs no hook any more."""
    begun: dict[tuple[str, Cursor | None], object] = {}
    for event, (_, decision) in zip(run.events, run.decided, strict=True):
        if isinstance(event.fact, f.PlanChanged):
            return  # The same tasks have other places there.
        if isinstance(event.fact, f.HookStarted) and event.fact.point in ANSWERING:
            continue
        if kind := BEGUN.get(type(event.fact)):
            begun[kind, event.cursor] = event.fact
        elif isinstance(event.fact, OUTCOMES):
            of = event.fact.TYPE.partition("_")[0]
            begun.pop((of if of in BEGUN.values() else "agent", event.cursor), None)
        if not decision.facts and isinstance(event.fact, f.SessionPaused | f.AwaitingApproval):
            assert not begun, event
        elif not decision.facts and decision.work:
            awaited = {(work.KIND, work.recorded_at) for work in decision.work if not isinstance(work, Wait)}
            assert begun.keys() <= awaited, (event, begun.keys() - awaited)


# -- the run was recovered again and again

TWO = plan_of(block("claude codex", stage("draft")))
BEGIN = """
    > start
    < node_start duel
    < claude: parallel_provider_start
    < codex: parallel_provider_start
    ? claude: prepare draft 1
    ? codex: prepare draft 1
    > claude: prepared
    < claude: attempt_start 1
    ? claude: execute draft 1 attempt 1
    ? codex: prepare draft 1
    > codex: prepared
    < codex: attempt_start 1
    ? claude: execute draft 1 attempt 1
    ? codex: execute draft 1 attempt 1
    > recover
    ? claude: execute draft 1 attempt 1
    ? codex: execute draft 1 attempt 1
    > recover
    ? claude: execute draft 1 attempt 1
    ? codex: execute draft 1 attempt 1
    > recover
    ? claude: execute draft 1 attempt 1
    ? codex: execute draft 1 attempt 1
    > codex: lost
    < codex: request_opened recoveries_without_progress-13
    ? claude: execute draft 1 attempt 1
"""


def test_the_question_of_a_run_without_progress_is_withdrawn_when_another_branch_makes_progress() -> None:
    play(
        TWO,
        f"""{BEGIN}
        > claude: completed
        < codex: request_resolved recoveries_without_progress-13 withdrawn
        < claude: stage_complete draft: Completed 1 iterations (max: 1)
        < codex: attempt_start 2
        < claude: parallel_provider_complete completed
        ? codex: execute draft 1 attempt 2
        > codex: completed
        < codex: stage_complete draft: Completed 1 iterations (max: 1)
        < codex: parallel_provider_complete completed
        ? manifest duel
        """,
    )


def test_the_question_of_a_run_without_progress_is_asked_again_after_as_many_recoveries() -> None:
    run = play(TWO, BEGIN)
    run.happens("claude: completed")
    for _ in range(3):
        assert state_of(run).open_requests == ()
        run.happens("recover")
    run.happens("codex: lost")
    assert "recovered 3 times without progress" in asked(run).question


HOOKS = tuple(Hook(f"h{number}", "iteration_end", "call") for number in range(4))


def test_answers_of_hooks_checks_and_people_are_progress_of_a_run_that_is_recovered() -> None:
    node = stage("plan", checks=(Check("test", "t", at=("iteration",)),), routes=(Route("fail", "ask"),))
    run = Play(plan_of(node, hooks=HOOKS))
    for said in ("start", "prepared", "completed"):
        run.happens(said)
    for said in [*["hook continue"] * 4, "check fail"]:
        for _ in range(2):
            run.happens("recover")
            assert state_of(run).recoveries
        run.happens(said)
        assert state_of(run).recoveries == 0
    assert asked(run).reason == "verdict"


def test_the_answer_to_that_question_itself_does_not_count_as_progress() -> None:
    run = Play(plan_of(stage()))
    run.happens("start")
    for _ in range(3):
        run.happens("recover")
    run.happens(f"answer {asked(run).id}")
    assert state_of(run).recoveries == 3


# -- counters that change while a question is open


def state_of(run: Play) -> RunState:
    assert run.state is not None
    return run.state


def asked(run: Play) -> Request:
    (request,) = state_of(run).open_requests
    return request


def works(run: Play, *lines: str) -> None:
    for line in lines:
        run.happens(line)


def pending(run: Play, provider: str) -> list[str]:
    return [work.KIND for work in run.work if not isinstance(work, Wait) and work.cursor.provider == provider]


CLUSTER = plan_of(
    block(
        "claude codex",
        stage("build"),
        stage(
            "verify",
            checks=(Check("test", "make test"),),
            routes=(Route("fail", "go", "build"),),
            limits=Limits(9, 9, 2),
        ),
    )
)
PASS = ("prepared", "completed", "prepared", "completed", "check fail broken")


def test_a_failure_in_another_branch_answers_no_question_about_the_same_failure() -> None:
    run = Play(CLUSTER)
    run.happens("start")
    works(run, *(f"claude: {said}" for said in PASS * 2))
    first = asked(run)
    assert first.reason == "failure_cluster"
    works(run, *(f"codex: {said}" for said in PASS))
    assert pending(run, "claude") == []
    assert first in state_of(run).open_requests
    run.happens(f"answer {first.id}")
    assert pending(run, "claude") == ["prepare"]


def test_a_resumed_question_of_the_run_leaves_those_of_other_branches_open() -> None:
    run = Play(plan_of(block("claude codex", stage("draft", runs=2)), max_runtime=100))
    works(run, "start", "claude: prepared", "codex: prepared", *["codex: lost"] * 3)
    lost = asked(run)
    assert lost.reason == "attempts_lost"
    run.now = run.events[-1].at.replace(minute=10)
    run.happens("claude: completed")
    limit = next(request for request in state_of(run).open_requests if request is not lost)
    assert limit.reason == "runtime_limit"
    run.happens(f"answer {limit.id} resume")
    assert pending(run, "claude") == ["prepare"]
    assert pending(run, "codex") == []
    assert asked(run) == lost
    run.happens(f"answer {lost.id}")
    assert pending(run, "codex") == ["agent"]


def test_a_limit_that_another_branch_was_granted_leaves_a_question_open() -> None:
    """The clock starts again for the whole run; who asked about it is asked."""
    draft = stage("draft", runs=2, retry=RetryPolicy(max_attempts=1))
    run = Play(plan_of(block("claude codex", draft), max_runtime=100))
    works(run, "start", "claude: prepared", "codex: prepared")
    works(run, "codex: error provider_rate_limited resets=200")
    waits = asked(run)
    assert (waits.reason, waits.scope) == ("runtime_limit", "branch")
    run.now = run.events[-1].at.replace(minute=10)
    run.happens("claude: completed")
    whole = next(request for request in state_of(run).open_requests if request is not waits)
    assert (whole.reason, whole.scope) == ("runtime_limit", "run")
    run.happens(f"answer {whole.id} 1000")
    assert pending(run, "claude") == ["prepare"]
    assert (asked(run), pending(run, "codex")) == (waits, [])
    assert not any(isinstance(event.fact, f.LimitMet) for event in run.events)


def test_a_hook_that_is_called_is_awaited_although_the_runtime_limit_is_used_up() -> None:
    hook = Hook("h", "iteration_start", "call")
    run = Play(plan_of(block("claude codex", stage("draft")), max_runtime=100, hooks=(hook,)))
    works(run, "start", "claude: hook continue", "claude: prepared")
    assert pending(run, "codex") == ["hook"]
    run.now = run.events[-1].at.replace(minute=10)
    run.happens("claude: error provider_crashed")
    assert pending(run, "codex") == ["hook"]
    run.happens("codex: hook continue")
    assert asked(run).reason == "runtime_limit"


def test_a_restart_withdraws_what_its_stage_asked_for_the_whole_run_and_asks_again() -> None:
    run = Play(plan_of(block("claude codex", stage("draft", runs=2)), max_runtime=100))
    works(run, "start", "claude: prepared", "codex: prepared")
    run.now = run.events[-1].at.replace(minute=10)
    run.happens("claude: completed")
    first = asked(run)
    said = run.happens("restart claude")
    assert said[0] == f"< claude: request_resolved {first.id} withdrawn"
    again = asked(run)
    assert (again.reason, again.at) != (first.reason, first.at)
    run.happens(f"answer {again.id}")
    assert pending(run, "claude") == ["prepare"]


# -- recompiled while a question is open


def recompiled(run: Play, plan: Plan) -> None:
    fact = plan_change(plan, run.plan, state_of(run))
    run.record(fact, state_of(run).cursor)
    run.happens("resume")


CHECKED = plan_of(stage("plan"), replace(stage("build"), checkpoint="legal"), stage("last"))


@pytest.mark.parametrize(
    ("nodes", "then"),
    [
        ((stage("plan"), stage("build"), stage("last")), "build"),
        ((stage("plan"), stage("new"), replace(stage("build"), checkpoint="legal")), "new"),
        ((stage("plan"), replace(stage("build"), checkpoint="legal"), stage("last")), ""),
    ],
)
def test_a_checkpoint_that_is_gone_is_withdrawn_before_its_node(nodes: tuple, then: str) -> None:  # type: ignore[type-arg]
    run = Play(CHECKED)
    works(run, "start", "prepared", "completed")
    assert asked(run).kind == "checkpoint"
    recompiled(run, plan_of(*nodes))
    if not then:
        assert asked(run).kind == "checkpoint"
        return
    types = [event.fact.TYPE for event in run.events]
    assert types.index("request_resolved") < len(types) - types[::-1].index("node_start") - 1
    assert state_of(run).open_requests == ()
    node = state_of(run).node
    assert node is not None
    assert run.plan.places[node.path].node.id == then
    if then == "new":
        works(run, "prepared", "completed")
        assert asked(run).subject == "legal"
