"""Transitions and cycles of a pipeline that plans, builds, verifies and reviews, step by step."""

from typing import Any

import msgspec
import pytest
from tests.engine.plans import plan_of, stage
from tests.engine.playbook import Play

from agentforge.engine.decide.run import decide
from agentforge.engine.evolve.run import evolve
from agentforge.model import facts as f
from agentforge.model.check import Check
from agentforge.model.plan import Plan, Route
from agentforge.model.state import RunState
from agentforge.model.status import RunStatus


def pipeline() -> Plan:
    verify = stage("verify", checks=(Check("test", "make test"),), routes=(Route("fail", "go", "build"),))
    review = stage("review", routes=(Route("reject", "go", "plan"),))
    return plan_of(stage("plan"), stage("build"), verify, review)


def run(*reports: str) -> Play:
    """A run with these reports of its stages, one after the other: `ok`, `reject`, or of verify the outcome
    of its check."""
    conversation = Play(pipeline())
    conversation.happens("start")
    for report in reports:
        conversation.happens("prepared")
        conversation.happens(f"completed stop{' verdict=reject' if report == 'reject' else ''}")
        if report.startswith("check"):
            conversation.happens(report)
    return conversation


def state_of(conversation: Play) -> RunState:
    assert conversation.state is not None
    return conversation.state


def visited(conversation: Play) -> list[str]:
    return [event.fact.name for event in conversation.events if isinstance(event.fact, f.NodeStarted)]


def routed(conversation: Play) -> list[f.StageTransitioned]:
    return [event.fact for event in conversation.events if isinstance(event.fact, f.StageTransitioned)]


FAILED = ("ok", "ok", "check fail a tree=t1")


# -- cycles


@pytest.mark.requirement("FR-024")
def test_should_cycle_on_verify_fail() -> None:
    conversation = run(*FAILED)
    assert visited(conversation) == ["plan", "build", "verify", "build"]
    (transition,) = routed(conversation)
    assert (transition.source, transition.to, transition.verdict) == ("verify", "build", "fail")
    assert (transition.cycle, transition.of) == (2, 3)


@pytest.mark.requirement("FR-025")
def test_should_cycle_on_review_reject() -> None:
    conversation = run("ok", "ok", "check pass", "reject")
    assert visited(conversation) == ["plan", "build", "verify", "review", "plan"]
    (transition,) = routed(conversation)
    assert (transition.source, transition.to, transition.reason) == ("review", "plan", "the agent says so")


@pytest.mark.requirement("FR-028", "FR-034")
def test_should_escalate_at_limit() -> None:
    failures = [report for n in range(3) for report in ("ok", f"check fail {n} tree=t{n}")]
    conversation = run("ok", *failures)
    state = state_of(conversation)
    assert state.status is RunStatus.PAUSED
    (asked,) = state.open_requests
    assert asked.reason == "cycle_limit"
    assert "'verify'" in asked.question
    assert visited(conversation).count("build") == 3


# -- transitions


def replayed(conversation: Play, until: int) -> RunState:
    state: RunState | None = None
    for event in conversation.events[:until]:
        state = evolve(state, event)
    assert state is not None
    return state


def from_verdict_to_visit(conversation: Play) -> list[int]:
    """The numbers of events from the verdict up to the next visit."""
    kinds = [type(event.fact) for event in conversation.events]
    return list(range(kinds.index(f.StageVerdictReached) + 1, len(kinds)))


@pytest.mark.requirement("FR-013", "NFR-018")
def test_should_be_atomic() -> None:
    """A transition is one event. A run that ends anywhere between the verdict and the next visit continues to
    the same visit, with the same feedback and the same count."""
    whole = run(*FAILED)
    for until in from_verdict_to_visit(whole):
        rest = Play(pipeline())
        rest.events, rest.state = list(whole.events[:until]), replayed(whole, until)
        rest.answer()
        assert [e.fact for e in rest.events] == [e.fact for e in whole.events]
        assert (rest.state, rest.work) == (whole.state, whole.work)


@pytest.mark.requirement("FR-016")
def test_should_create_checkpoint() -> None:
    """The state after a transition, written and read, leads to the same visit."""
    whole = run(*FAILED)
    for until in from_verdict_to_visit(whole):
        state = replayed(whole, until)
        kept = msgspec.json.decode(msgspec.json.encode(state), type=RunState)
        assert decide(whole.plan, kept) == decide(whole.plan, state)


@pytest.mark.requirement("FR-017")
def test_should_revert_on_failure() -> None:
    """A transition that isn't recorded has not happened: the run is where it was, and repeats it."""
    whole = run(*FAILED)
    before = from_verdict_to_visit(whole)[0]
    state = replayed(whole, before)
    assert state.node is not None
    assert (state.node.path, state.cycles, state.visits) == ("2", {}, {"0": 1, "1": 1, "2": 1})
    once, again = decide(whole.plan, state), decide(whole.plan, state)
    assert [draft.fact for draft in once.facts] == [whole.events[before].fact]
    assert once == again


@pytest.mark.parametrize("report", ["check error", "check timeout"])
def test_should_handle_mixed_outcomes(report: str) -> None:
    """A check that can't run fails the run; one that takes too long is a failure of the work."""
    conversation = run("ok", "ok", report)
    ended: Any = {"check error": RunStatus.FAILED, "check timeout": RunStatus.RUNNING}
    assert state_of(conversation).status is ended[report]
    assert len(routed(conversation)) == (report == "check timeout")
