"""Stages that a person skips: nothing is run in them, and the run continues as after `pass`."""

from typing import TypeVar

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, event, plan_of, stage, started
from tests.engine.playbook import Play, play

from agentforge.engine.evolve.run import evolve
from agentforge.model import facts as f
from agentforge.model.check import Check
from agentforge.model.cursor import Cursor
from agentforge.model.hook import Hook
from agentforge.model.plan import Approval, Plan, Route, StageNode
from agentforge.model.state import Between, RunState, Waiver

Fact = TypeVar("Fact", bound=f.Fact)
CHECKED = (Check("test", "make test"),)
HOOKS = (Hook("h1", "stage_start", "pause"), Hook("h2", "stage_end", "pause"))
BEFORE = """
    > start
    < node_start build
    ? prepare build 1
    > skip verify
    ? prepare build 1
    > prepared
    < attempt_start 1
    ? execute build 1 attempt 1
    > completed stop
    < node_complete build: Agent requested stop at iteration 1
    < node_start verify
    < stage_verdict pass
    """


def verify(*routes: Route, **changes: object) -> StageNode:
    return stage("verify", checks=CHECKED, approve=Approval(), routes=routes, **changes)


def loop(*routes: Route) -> Plan:
    return plan_of(stage("build"), verify(*routes), stage("docs"), stage("ship"))


def facts(run: Play, kind: type[Fact]) -> list[Fact]:
    return [event.fact for event in run.events if isinstance(event.fact, kind)]


def state_of(run: Play) -> RunState:
    assert run.state is not None
    return run.state


def test_a_skipped_stage_is_left_without_checks_approval_or_hooks() -> None:
    hooks = tuple(replace(hook, stage="verify") for hook in HOOKS)
    plan = plan_of(stage("build"), verify(), stage("ship"), hooks=hooks)
    run = play(
        plan,
        f"""{BEFORE}
        < node_complete verify: skipped
        < node_start ship
        ? prepare ship 1
        """,
    )
    entered = next(fact for fact in facts(run, f.NodeStarted) if fact.name == "verify")
    assert entered.skipped
    (verdict,) = facts(run, f.StageVerdictReached)
    assert (verdict.verdict, verdict.reason, verdict.skipped_by) == ("pass", "not today", "person")
    assert list(state_of(run).skipped) == ["1"]
    assert state_of(run).visits["1"] == 1


@pytest.mark.parametrize(
    ("to", "decided"),
    [
        ("ship", ("< stage_transition verify to ship skipping docs", "ship")),
        ("build", ("< stage_transition verify to build cycle 2/3", "build")),
    ],
)
def test_a_skipped_stage_takes_the_route_of_pass(to: str, decided: tuple[str, str]) -> None:
    routed, following = decided
    run = play(
        loop(Route("fail", "go", "build"), Route("pass", "go", to)),
        f"""{BEFORE}
        {routed}
        < node_complete verify: skipped
        < node_start {following}
        ? prepare {following} 1
        """,
    )
    assert list(state_of(run).skipped) == (["1", "2"] if to == "ship" else ["1"])


def test_a_question_of_the_route_of_pass_waits_for_its_answer() -> None:
    run = play(loop(Route("pass", "ask")), f"{BEFORE}\n< request_opened verdict-10\n< session_paused verdict")
    (asked,) = state_of(run).open_requests
    assert asked.question.startswith("stage 'verify' ended with 'pass': not today.")


def test_a_skip_stops_what_the_stage_runs() -> None:
    play(
        loop(),
        """
        > start
        < node_start build
        ? prepare build 1
        > prepared
        < attempt_start 1
        ? execute build 1 attempt 1
        > skip build
        < attempt_ending 1
        ? end build 1 attempt 1
        > cancelled
        < stage_verdict pass
        < node_complete build: skipped
        < node_start verify
        ? prepare verify 1
        """,
    )


def test_a_skip_withdraws_what_the_stage_asked() -> None:
    play(
        plan_of(stage("plan", approve=Approval()), stage("build")),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        > completed stop
        < request_opened approval-6
        < awaiting_approval approval-6
        > skip plan
        > resume
        < request_resolved approval-6 withdrawn
        < stage_verdict pass
        < node_complete plan: skipped
        < node_start build
        ? prepare build 1
        """,
    )


def test_a_route_that_was_taken_before_the_skip_is_followed() -> None:
    """The engine died after the route, and the person who resumes the run skips the stage."""
    run = Play(loop(Route("fail", "go", "build")))
    for words in ("start", "prepared", "completed stop", "prepared", "completed stop", "check fail a"):
        run.happens(words)
    routed = next(n for n, each in enumerate(run.events) if isinstance(each.fact, f.StageTransitioned))
    state: RunState | None = None
    for each in run.events[: routed + 1]:
        state = evolve(state, each)
    run.state, run.events = state, run.events[: routed + 1]
    assert run.happens("skip verify") == [
        "< node_complete verify: Agent requested stop at iteration 1",
        "< node_start build",
        "? prepare build 1",
    ]


def test_a_skipped_stage_stays_skipped_and_passes_its_feedback_on() -> None:
    """A review sends the work back to a plan that a person gave."""
    review = stage("review", checks=CHECKED, routes=(Route("fail", "go", "plan"),))
    run = Play(plan_of(stage("plan"), stage("build"), review))
    first = replace(started(run.plan), waivers=(Waiver("", "given", "Ada", "plan"),))
    run.record(first, Cursor("0", 0, 0))
    run.answer()
    for words in ("prepared", "completed stop", "prepared", "completed stop", "check fail a"):
        run.happens(words)
    assert [fact.name for fact in facts(run, f.NodeStarted)] == ["plan", "build", "review", "plan", "build"]
    assert not any(fact.stage == "plan" for fact in facts(run, f.IterationStarted))
    at = state_of(run).node
    assert at is not None
    assert at.path == "1"
    assert at.feedback is not None
    assert at.feedback.by == "stage review"


def test_a_stage_of_a_block_with_the_same_id_is_run() -> None:
    run = Play(plan_of(block("claude", stage("plan")), stage("plan")))
    run.happens("start")
    assert run.happens("skip plan") == ["? claude: prepare plan 1"]


def test_between_two_nodes_nothing_is_skipped_that_was_not_entered() -> None:
    state = evolve(None, event(1, started(loop()), Cursor("0", 0, 0)))
    done = event(2, f.NodeCompleted("build", "skipped", 0), Cursor("0", 1, 0))
    assert evolve(state, done).at == Between(None)
