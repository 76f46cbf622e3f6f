"""A pipeline that plans, builds, verifies and reviews, as a whole: its order, its events, its errors and
limits, and what a later engine makes of its log."""

from collections import Counter

import pytest
from tests.engine.plans import plan_of, stage
from tests.engine.playbook import Play, play

from agentforge.engine.decide.checks import DEFAULT_CYCLES
from agentforge.engine.evolve.run import evolve
from agentforge.model import facts as f
from agentforge.model.check import Check
from agentforge.model.codec import decode, encode
from agentforge.model.event import Event
from agentforge.model.hook import Hook
from agentforge.model.plan import Limits, Plan, RetryPolicy, Route
from agentforge.model.plan_limits import MAX_CYCLES
from agentforge.model.state import RunState
from agentforge.model.status import RunStatus

STAGES = ["plan", "build", "verify", "review"]
Reports = dict[str, str]
"""By stage and visit, such as `verify/1`: `reject`, or of a check `fail`; otherwise it passes."""
BACK_TWICE: Reports = {"verify/1": "fail", "review/1": "reject"}


def pipeline(limits: Limits | None = None) -> Plan:
    verify = stage("verify", checks=(Check("test", "make test"),), routes=(Route("fail", "go", "build"),))
    review = stage("review", routes=(Route("reject", "go", "plan"),), limits=limits)
    return plan_of(stage("plan"), stage("build"), verify, review)


def ran(reports: Reports, plan: Plan | None = None) -> Play:
    conversation = Play(plan or pipeline())
    conversation.happens("start")
    return driven(conversation, reports)


def driven(conversation: Play, reports: Reports) -> Play:
    """The run, until nothing is left to do. What happens depends on its state alone."""
    while conversation.work:
        node = conversation.plan.stage(conversation.stage.path, None)
        assert node is not None
        said = reports.get(f"{node.id}/{conversation.stage.run}", "pass")
        claims = " verdict=reject" if said == "reject" else ""
        seq = len(conversation.events)
        words = {
            "prepare": "prepared",
            "agent": f"completed stop{claims}",
            "check": f"check fail s{seq} tree=t{seq}" if said == "fail" else "check pass",
        }
        conversation.happens(words[conversation.work[0].KIND])
    return conversation


def state_of(conversation: Play) -> RunState:
    assert conversation.state is not None
    return conversation.state


def visited(conversation: Play) -> list[str]:
    return [event.fact.name for event in conversation.events if isinstance(event.fact, f.NodeStarted)]


def verdicts(conversation: Play) -> list[str]:
    return [
        event.fact.verdict for event in conversation.events if isinstance(event.fact, f.StageVerdictReached)
    ]


# -- the order of stages, and the events of a run


def test_should_execute_stages_in_order() -> None:
    """No stage starts before the one before it is complete."""
    conversation = ran({})
    course = [
        (type(event.fact), event.fact.name)
        for event in conversation.events
        if isinstance(event.fact, f.NodeStarted | f.NodeCompleted)
    ]
    assert course == [(kind, name) for name in STAGES for kind in (f.NodeStarted, f.NodeCompleted)]


def test_should_complete_full_pipeline() -> None:
    conversation = ran(BACK_TWICE)
    assert state_of(conversation).status is RunStatus.COMPLETED
    assert visited(conversation) == ["plan", "build", "verify", "build", "verify", "review", *STAGES]
    assert verdicts(conversation) == ["fail", "pass", "reject", "pass", "pass"]


@pytest.mark.requirement("FR-005")
def test_should_track_current_stage() -> None:
    """The state names the stage, its visit, and how often each was entered."""
    seen, state = list[tuple[str, int]](), None
    for event in ran(BACK_TWICE).events:
        state = evolve(state, event)
        if state.node is not None and (state.node.path, state.node.run) not in seen:
            seen.append((state.node.path, state.node.run))
    paths = [path for path, _ in seen]
    assert paths == ["0", "1", "2", "1", "2", "3", "0", "1", "2", "3"]
    assert state is not None
    assert state.visits == Counter(paths)


def test_should_generate_events() -> None:
    """Each transition is one event with its source, its target, its verdict, its reason and its count."""
    transitions = [e.fact for e in ran(BACK_TWICE).events if isinstance(e.fact, f.StageTransitioned)]
    assert [(t.source, t.to, t.verdict, t.reason, t.cycle, t.of) for t in transitions] == [
        ("verify", "build", "fail", "check 'test': it says fail", 2, 3),
        ("review", "plan", "reject", "the agent says so", 2, 3),
    ]


# -- the parts of a stage

HOOKED = plan_of(
    stage("plan"), hooks=(Hook("enter", "stage_start", "call"), Hook("exit", "stage_end", "call"))
)
ENTERED = """
    > start
    < node_start plan
    < hook_start enter 1
    ? hook enter 1
"""
PREPARED = f"""{ENTERED}
    > hook continue
    ? prepare plan 1
"""
EXECUTED = f"""{PREPARED}
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
"""


@pytest.mark.requirement("FR-007", "FR-010")
def test_should_call_on_enter() -> None:
    """First what was asked for at the start of a stage, then its context; the agent last."""
    play(HOOKED, PREPARED)


@pytest.mark.requirement("FR-008", "FR-011")
def test_should_call_execute() -> None:
    play(HOOKED, EXECUTED)


@pytest.mark.requirement("FR-009", "FR-012")
def test_should_call_on_exit() -> None:
    """The stage is complete after what was asked for at its end."""
    play(
        HOOKED,
        f"""{EXECUTED}
        > completed stop
        < hook_start exit 1
        ? hook exit 1
        > hook continue
        < node_complete plan: Agent requested stop at iteration 1
        < session_complete all_loops_complete
        = completed
        """,
    )


@pytest.mark.requirement("FR-062")
def test_should_handle_lifecycle_error() -> None:
    """A stage that can't be prepared fails the run before its agent starts, but not before its last hooks."""
    conversation = play(
        HOOKED,
        f"""{PREPARED}
        > unprepared
        < hook_start exit 1
        ? hook exit 1
        > hook continue
        < session_failed prompt_unreadable
        = failed
        """,
    )
    assert not [e for e in conversation.events if isinstance(e.fact, f.AttemptStarted)]


def test_should_handle_stage_failure() -> None:
    """Attempts first, then further tries of the stage, with a growing delay; then the run fails, with the
    reason in its state, and can be resumed."""
    policy = RetryPolicy(max_attempts=3, initial_delay=2.0, stage=2)
    conversation = play(
        plan_of(stage("plan", retry=policy), stage("build")),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        > error provider_timeout
        < retry_scheduled 2/3 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        > error provider_timeout
        < retry_scheduled 3/3 in 4s
        ? wait retry 4s
        > fired retry
        < attempt_start 3
        ? execute plan 1 attempt 3
        > error provider_timeout
        < stage_retry 1/2 provider_timeout in 8s
        ? wait retry 8s
        > fired retry
        < attempt_start 4
        ? execute plan 1 attempt 4
        > error provider_timeout
        < stage_retry 2/2 provider_timeout in 16s
        ? wait retry 16s
        > fired retry
        < attempt_start 5
        ? execute plan 1 attempt 5
        > error provider_timeout
        < session_failed provider_timeout
        = failed
        """,
    )
    state = state_of(conversation)
    assert state.failure is not None
    assert visited(conversation) == ["plan"]
    assert len([e for e in conversation.events if isinstance(e.fact, f.ErrorOccurred)]) == 5


# -- limits


@pytest.mark.requirement("FR-031")
@pytest.mark.parametrize("cycles", [None, 1, 2, MAX_CYCLES])
def test_limit_of_a_stage_is_the_number_of_its_passes(cycles: int | None) -> None:
    """Three by default, ten at most; the question is the only way on."""
    reports = {f"review/{visit}": "reject" for visit in range(1, 20)}
    conversation = ran(reports, pipeline(Limits(cycles)))
    assert Counter(visited(conversation))["plan"] == (cycles or 3)
    state = state_of(conversation)
    assert (state.status, state.open_requests[0].reason) == (RunStatus.PAUSED, "cycle_limit")
    assert (DEFAULT_CYCLES, MAX_CYCLES) == (3, 10)


def test_failures_are_grouped_across_stages_and_visits() -> None:
    """By what failed, with the stage that met it first and the number of visits that it ended."""
    verify = stage("verify", checks=(Check("test", "t"),), routes=(Route("fail", "go", "build"),))
    again = stage("again", checks=(Check("test", "t"),), routes=(Route("fail", "go", "build"),))
    conversation = Play(plan_of(stage("build"), verify, again))
    conversation.happens("start")
    for outcome in ("", "check fail same one tree=t1", "", "check pass", "check fail same two tree=t2"):
        conversation.happens("prepared")
        conversation.happens("completed stop")
        if outcome:
            conversation.happens(outcome)
    clusters = [(known.signature, known.stage, known.visits) for known in state_of(conversation).clusters]
    assert clusters == [("test: one", "1", 1), ("test: same", "1", 2), ("test: two", "2", 1)]


# -- what a later engine makes of the log


def folded(events: list[Event]) -> RunState:
    state: RunState | None = None
    for event in events:
        state = evolve(state, event)
    assert state is not None
    return state


@pytest.mark.requirement("FR-054", "FR-055")
def test_should_persist_stage_changes() -> None:
    """The lines of the log, written and read, give the same state."""
    whole = ran(BACK_TWICE)
    read = [decode(encode(event, "")[0], lambda _: b"") for event in whole.events]
    assert folded(read) == whole.state


@pytest.mark.requirement("FR-056", "NFR-019")
def test_should_recover_state() -> None:
    """Wherever the log ends, what it says leads to the same stage, visit and work as before."""
    whole = ran(BACK_TWICE)
    for until in range(1, len(whole.events) + 1):
        once = Play(whole.plan)
        once.events, once.state = list(whole.events[:until]), folded(whole.events[:until])
        once.answer()
        assert [e.fact for e in once.events] == [e.fact for e in whole.events[: len(once.events)]]


@pytest.mark.requirement("FR-056")
def test_should_resume_after_crash() -> None:
    """Another engine continues after any event: visits and verdicts are those of an uninterrupted run."""
    whole = ran(BACK_TWICE)
    for until in range(1, len(whole.events)):
        rest = Play(whole.plan)
        rest.events, rest.state = list(whole.events[:until]), folded(whole.events[:until])
        rest.happens("recover")
        driven(rest, BACK_TWICE)
        assert (visited(rest), verdicts(rest)) == (visited(whole), verdicts(whole))
        assert state_of(rest).cycles == state_of(whole).cycles
