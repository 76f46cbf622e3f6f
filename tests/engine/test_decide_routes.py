"""What follows a verdict: approvals, people's answers, and the limits that count failures."""

from typing import Any

import pytest
from tests.engine.plans import block, nested, plan_of, stage
from tests.engine.playbook import Play

from agentforge.model import facts as f
from agentforge.model.check import Check
from agentforge.model.failure import FailureKind
from agentforge.model.plan import Approval, Limits, Plan, Route, StageNode
from agentforge.model.request import Request
from agentforge.model.state import RunState
from agentforge.model.status import RunStatus
from agentforge.model.task import PrepareTask

BACK = Route("fail", "go", "build")


def verify(*names: str, **changes: Any) -> StageNode:
    checks = tuple(Check(name, f"make {name}") for name in names or ("test",))
    return stage("verify", **{"checks": checks, "routes": (BACK,), **changes})


def loop(*, cycles: int = 10, **changes: Any) -> Plan:
    limits = Limits(cycles=cycles, no_progress=changes.pop("no_progress", None))
    return plan_of(stage("build"), verify(limits=limits, **changes), stage("last"))


def state_of(run: Play) -> RunState:
    assert run.state is not None
    return run.state


def started(plan: Plan) -> Play:
    run = Play(plan)
    run.happens("start")
    return run


def works(run: Play, said: str = "completed stop") -> None:
    run.happens("prepared")
    run.happens(said)


def fails(run: Play, *outcomes: str) -> RunState:
    """A pass of the loop: the build, and the checks of its verification."""
    works(run)
    works(run)
    for outcome in outcomes:
        run.happens(f"check fail {outcome}")
    return state_of(run)


def asked(run: Play) -> Request:
    (request,) = state_of(run).open_requests
    return request


def routes(run: Play) -> list[tuple[int, int]]:
    facts = (event.fact for event in run.events)
    return [(fact.cycle, fact.of) for fact in facts if isinstance(fact, f.StageTransitioned)]


def told_next(run: Play) -> str:
    (task,) = (work for work in run.work if isinstance(work, PrepareTask))
    return task.feedback.text if task.feedback else ""


# -- people


def test_approval_is_asked_before_a_route_of_a_pass() -> None:
    run = started(
        plan_of(
            stage("plan", approve=Approval(), routes=(Route("pass", "go", "last"),)),
            stage("build"),
            stage("last"),
        )
    )
    works(run)
    assert asked(run).kind == "approval"
    run.happens(f"answer {asked(run).id} approve")
    node = state_of(run).node
    assert node is not None
    assert node.path == "2"


@pytest.mark.parametrize(
    ("route", "is_asked"),
    [
        (Route("clear", "go", "last"), True),
        (Route("clear", "end"), True),
        (Route("clear", "go", "plan"), False),
        (Route("clear", "go", "check"), False),
        (Route("clear", "ask"), False),
        (Route("fail", "go", "last"), False),
        (Route("reject", "end"), False),
    ],
)
def test_approval_is_asked_if_the_run_continues_with_the_result(route: Route, is_asked: bool) -> None:
    check = stage("check", approve=Approval(), verdicts=("clear",), routes=(route,))
    run = started(plan_of(stage("plan"), check, stage("last")))
    works(run)
    works(run, f"completed stop verdict={route.verdict}")
    requests = state_of(run).open_requests
    assert ("approval" in [one.kind for one in requests]) == is_asked
    if is_asked:
        run.happens(f"answer {asked(run).id} approve")
        assert routes(run) == [(0, 0)]


def test_accepted_result_does_not_go_back_along_the_route_of_a_pass() -> None:
    again = stage("polish", routes=(Route("pass", "go", "build"),), limits=Limits(cycles=1))
    run = started(plan_of(stage("build"), again, stage("last")))
    works(run)
    works(run)
    assert asked(run).reason == "cycle_limit"
    run.happens(f"answer {asked(run).id} accept")
    node = state_of(run).node
    assert node is not None
    assert node.path == "2"


def test_visit_that_a_person_asked_for_is_told_why() -> None:
    run = started(plan_of(stage("plan", routes=(Route("reject", "ask"),))))
    works(run, "completed stop verdict=reject")
    run.happens(f"answer {asked(run).id} retry")
    assert told_next(run) == "asked for another visit\n\nthe agent says so"


@pytest.mark.parametrize("verdict", ["reject", "fail"])
def test_resume_after_a_verdict_of_the_agent_visits_the_stage_again(verdict: str) -> None:
    """Without checks, the same work has the same verdict."""
    run = started(plan_of(stage("plan"), stage("build")))
    works(run, f"completed stop verdict={verdict}")
    failure = state_of(run).failure
    assert failure is not None
    assert failure.kind is FailureKind.REJECTED
    run.happens("resume")
    state = state_of(run)
    assert (state.status, state.visits) == (RunStatus.RUNNING, {"0": 2})
    assert told_next(run) == "the agent says so"


def test_resume_after_failing_checks_repeats_only_the_checks() -> None:
    run = started(plan_of(verify(routes=())))
    works(run)
    run.happens("check fail a")
    failure = state_of(run).failure
    assert failure is not None
    assert failure.kind is FailureKind.CHECKS_FAILED
    run.happens("resume")
    assert [work.KIND for work in run.work] == ["check"]
    run.happens("check pass")
    assert state_of(run).status is RunStatus.COMPLETED


def test_paused_run_follows_the_route_of_a_verdict_when_it_is_resumed() -> None:
    run = started(plan_of(stage("plan"), stage("review", routes=(Route("reject", "ask"),))))
    works(run)
    works(run, "completed stop verdict=reject")
    run.happens("resume")
    assert asked(run).reason == "verdict"


# -- what is granted


def test_pass_that_is_granted_without_progress_does_not_raise_the_limit() -> None:
    run = started(loop(cycles=3))
    fails(run, "a tree=t")
    fails(run, "a tree=t")
    assert asked(run).reason == "no_progress"
    run.happens(f"answer {asked(run).id} retry")
    fails(run, "b tree=t")
    assert routes(run) == [(2, 3), (3, 3)]
    assert asked(run).reason == "cycle_limit"


def test_granted_passes_count_from_the_present_one_and_for_one_route() -> None:
    other = Route("reject", "go", "plan")
    limits = Limits(cycles=1)
    run = started(plan_of(stage("plan"), stage("build"), verify(routes=(BACK, other), limits=limits)))
    works(run)
    fails(run, "a tree=1")
    run.happens(f"answer {asked(run).id} 2")
    fails(run, "b tree=2")
    assert routes(run) == [(2, 3), (3, 3)]
    works(run)
    works(run, "completed stop verdict=reject")
    run.happens("check pass")
    assert asked(run).reason == "cycle_limit"
    assert "cycle 1 of 1" in asked(run).question


def test_resume_at_a_limit_of_one_goes_back() -> None:
    run = started(loop(cycles=1))
    fails(run, "a tree=1")
    run.happens(f"answer {asked(run).id} resume")
    run.happens("check fail a tree=1")
    assert routes(run) == [(2, 2)]


# -- failures


def test_failure_of_another_stage_does_not_escalate() -> None:
    limits = Limits(cycles=10, cluster=2)
    review = stage("review", routes=(Route("reject", "go", "build"),), limits=limits)
    run = started(plan_of(stage("build"), verify(limits=limits), review))
    fails(run, "a tree=1")
    fails(run, "a tree=2")
    run.happens(f"answer {asked(run).id} accept")
    works(run, "completed stop verdict=reject")
    assert routes(run)[-1] == (2, 10)


def test_failure_that_was_accepted_is_counted_again() -> None:
    limits = Limits(cycles=10, cluster=2)
    review = stage("review", routes=(Route("reject", "go", "build"),), limits=limits)
    run = started(plan_of(stage("build"), verify(limits=limits), review))
    fails(run, "a tree=1")
    fails(run, "a tree=2")
    run.happens(f"answer {asked(run).id} accept")
    works(run, "completed stop verdict=reject")
    fails(run, "a tree=3")
    assert state_of(run).open_requests == ()


def test_checks_with_the_same_message_are_different_failures() -> None:
    run = started(plan_of(stage("build"), verify("lint", "test", limits=Limits(cycles=10, cluster=2))))
    fails(run, "a tree=1", "a tree=1")
    counts = {known.signature: known.visits for known in state_of(run).clusters}
    assert counts == {"lint: a": 1, "test: a": 1}


def test_visit_that_passes_is_progress() -> None:
    """The same failure on the same files as before, but the stage has passed in between."""
    review = stage("review", routes=(Route("reject", "go", "build"),))
    run = started(plan_of(stage("build"), verify(limits=Limits(cluster=9)), review))
    fails(run, "a tree=t")
    works(run)
    works(run)
    run.happens("check pass tree=u")
    works(run, "completed stop verdict=reject")
    assert fails(run, "a tree=t").open_requests == ()
    assert fails(run, "a tree=t").open_requests[0].reason == "no_progress"


def test_order_of_the_failures_is_not_progress() -> None:
    run = started(loop())
    fails(run, "a b tree=t")
    fails(run, "b a tree=t")
    assert asked(run).reason == "no_progress"
    assert "no changed files: test: a; test: b." in asked(run).question


def test_question_names_a_few_of_many_failures() -> None:
    run = started(loop())
    for _ in range(2):
        fails(run, "a b c d e f g tree=t")
    assert "test: e and 2 more." in asked(run).question


def test_visit_that_ends_again_after_a_resume_counts_once() -> None:
    run = started(loop(routes=()))
    for _ in range(3):
        if state_of(run).failure is None:
            fails(run, "a tree=t")
        else:
            run.happens("resume")
            run.happens("check fail a tree=t")
    state = state_of(run)
    assert [(known.visits, known.latest) for known in state.clusters] == [(1, ("1", 1))]
    assert [known.visits for known in state.failing.values()] == [1]


def test_each_round_of_a_pipeline_counts_from_the_start() -> None:
    review = stage("review", routes=(Route("reject", "go", "draft"),), limits=Limits(cycles=2))
    run = started(plan_of(nested("polish", stage("draft"), review, runs=2), stage("last")))
    for _ in range(2):
        works(run)
        works(run, "completed stop verdict=reject")
        assert len(state_of(run).cycles) == 1
        works(run)
        works(run)
    assert routes(run) == [(2, 2), (2, 2)]
    assert state_of(run).open_requests == ()


def test_a_block_that_a_route_leads_back_to_is_told_why_in_each_branch() -> None:
    review = stage("review", routes=(Route("fail", "go", "duel"),))
    run = started(plan_of(block("claude codex", stage("draft")), review))
    for happened in ("prepared", "completed"):
        run.happens(f"claude: {happened}")
        run.happens(f"codex: {happened}")
    run.happens("manifest")
    works(run, "completed stop verdict=fail")
    told = [work.feedback for work in run.work if isinstance(work, PrepareTask)]
    assert [one and one.by for one in told] == ["stage review"] * 2


def test_end_in_a_nested_pipeline_ends_that_pipeline() -> None:
    draft = stage("draft", routes=(Route("reject", "end"),))
    run = started(plan_of(nested("polish", draft, stage("edit"), runs=2), stage("last")))
    works(run, "completed stop verdict=reject")
    node = state_of(run).node
    assert node is not None
    assert node.path == "1"
    routed = next(event.fact for event in run.events if isinstance(event.fact, f.StageTransitioned))
    assert (routed.to, routed.skipped) == ("", ("edit",))


def test_verdict_names_the_files_that_the_latest_check_saw() -> None:
    checks = (Check("clean", "git diff --exit-code", at=("start",)), Check("test", "make test"))
    run = started(plan_of(stage("plan", checks=checks)))
    run.happens("check pass tree=before")
    works(run)
    run.happens("check pass tree=after")
    judged = next(event.fact for event in run.events if isinstance(event.fact, f.StageVerdictReached))
    assert judged.tree == "after"
