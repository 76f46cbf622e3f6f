"""Playbooks of checks that say whether a stage is needed, and of checks that run at several times."""

import pytest
from msgspec.structs import replace
from tests.engine.plans import plan_of, stage
from tests.engine.playbook import Play, play

from agentforge.model import facts as f
from agentforge.model.check import Check, CheckTime
from agentforge.model.plan import Approval, Items, Plan, Route
from agentforge.model.request import Feedback
from agentforge.model.state import Waiver
from agentforge.model.task import PrepareTask

NEED = Check("lint", "ruff", at=("need",))
ALSO = Check("types", "mypy", at=("need",))
END = Check("test", "pytest")


def needed(*checks: Check) -> Plan:
    return plan_of(stage("plan", 2, checks=checks), stage("next"))


def verdict(conversation: Play) -> f.StageVerdictReached:
    (found,) = (e.fact for e in conversation.events if isinstance(e.fact, f.StageVerdictReached))
    return found


def told(conversation: Play) -> str:
    (task,) = (work for work in conversation.work if isinstance(work, PrepareTask))
    assert task.feedback is not None
    return task.feedback.text


BEGIN = """
    > start
    < node_start plan
    < check_start lint 1
    ? check lint 1
"""
WORKED = """
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
    > completed stop
"""


def test_stage_whose_checks_pass_is_over_and_no_agent_runs() -> None:
    conversation = play(
        needed(NEED, ALSO, END),
        f"""{BEGIN}
        > check pass tree=t0
        < check_start types 1
        ? check types 1
        > check pass tree=t0
        < stage_verdict pass
        < node_complete plan: not needed
        < node_start next
        ? prepare next 1
        """,
    )
    found = verdict(conversation)
    assert found.reason == "checks 'lint', 'types' passed before any work"
    assert (found.tree, found.ended) == ("t0", "not needed")


def test_failures_are_told_to_the_first_iteration_and_do_not_end_the_stage() -> None:
    conversation = play(
        needed(NEED, ALSO, END),
        f"""{BEGIN}
        > check pass
        < check_start types 1
        ? check types 1
        > check fail E1
        ? prepare plan 1
        """,
    )
    assert told(conversation) == "2 failed"
    play(
        needed(NEED, END),
        f"""{BEGIN}
        > check fail E1
        ? prepare plan 1
        {WORKED}
        < check_start test 1
        ? check test 1
        > check pass tree=t1
        < stage_verdict pass
        < node_complete plan: Agent requested stop at iteration 1
        < node_start next
        ? prepare next 1
        """,
    )


def test_failing_check_at_start_ends_the_stage_before_it_is_asked_whether_it_is_needed() -> None:
    build = Check("build", "make", at=("start",))
    for outcome, then in (
        ("fail E1", "< stage_verdict fail build\n< session_failed checks_failed"),
        ("pass", "< check_start lint 1\n? check lint 1\n> check fail E2\n? prepare plan 1"),
    ):
        play(
            needed(NEED, build),
            f"""
            > start
            < node_start plan
            < check_start build 1
            ? check build 1
            > check {outcome}
            {then}
            """,
        )


def test_stage_that_is_not_needed_is_not_shown_for_approval_and_follows_its_route() -> None:
    plan = plan_of(
        stage("plan", checks=(NEED,), approve=Approval(), routes=(Route("pass", "end"),)), stage("next")
    )
    play(
        plan,
        f"""{BEGIN}
        > check pass
        < stage_verdict pass
        < stage_transition plan to end skipping next
        < node_complete plan: not needed
        < session_complete all_loops_complete
        """,
    )


def test_check_that_has_no_outcome_that_counts_does_not_end_the_stage() -> None:
    begun = play(needed(NEED), BEGIN)
    assert begun.state is not None
    begun.state = replace(begun.state, waivers=(Waiver("lint", "", "me"),))
    assert begun.happens("check pass") == ["? prepare plan 1"]


def test_need_without_a_result_fails_the_run_and_is_asked_again_after_a_resume() -> None:
    play(
        needed(NEED),
        f"""{BEGIN}
        > check error
        < session_failed check_error
        = failed
        > resume
        < check_start lint 2
        ? check lint 2
        > check pass
        < stage_verdict pass
        """
        + """
        < node_complete plan: not needed
        < node_start next
        ? prepare next 1
        """,
    )


def test_visit_that_was_sent_back_runs_although_its_checks_pass() -> None:
    """Who sent it back found what the checks don't."""
    routes = (Route("reject", "go", "plan"),)
    plan = plan_of(stage("plan", checks=(NEED,)), stage("review", routes=routes, checks=(END,)))
    conversation = play(
        plan,
        f"""{BEGIN}
        > check fail E1
        ? prepare plan 1
        {WORKED}
        < stage_verdict pass
        < node_complete plan: Agent requested stop at iteration 1
        < node_start review
        ? prepare review 1
        > prepared
        < attempt_start 1
        ? execute review 1 attempt 1
        > completed stop verdict=reject
        < check_start test 1
        ? check test 1
        > check pass
        < stage_verdict reject
        < stage_transition review to plan cycle 2/3
        < node_complete review: Agent requested stop at iteration 1
        < node_start plan
        < check_start lint 1
        ? check lint 1
        > check pass
        ? prepare plan 1
        """,
    )
    assert told(conversation) == "the agent says so"


def test_what_was_said_comes_before_the_failures() -> None:
    conversation = play(needed(NEED), BEGIN)
    state, stage_state = conversation.state, conversation.stage
    assert state is not None
    heard = replace(stage_state, feedback=Feedback("Shorter.", "person", ("a.md",)))
    conversation.state = replace(state, at=heard)
    assert conversation.happens("check fail E1") == ["? prepare plan 1"]
    assert told(conversation) == "Shorter.\n\n2 failed"
    (task,) = (work for work in conversation.work if isinstance(work, PrepareTask))
    assert task.feedback is not None
    assert (task.feedback.by, task.feedback.files) == ("person", ("a.md",))


def test_stage_over_items_is_not_planned_if_it_is_not_needed() -> None:
    termination = Items(5, "initial.steps")
    play(
        plan_of(stage("plan", checks=(NEED,), termination=termination)),
        f"""{BEGIN}
        > check pass
        < stage_verdict pass
        < node_complete plan: not needed
        < session_complete all_loops_complete
        """,
    )


@pytest.mark.parametrize(
    ("times", "again"), [(("start", "end"), True), (("need", "end"), True), (("start",), False)]
)
def test_check_at_several_times_runs_at_each(times: tuple[CheckTime, ...], *, again: bool) -> None:
    status = "fail E1" if "need" in times else "pass tree=t0"
    end = "< check_start lint 1\n? check lint 1\n> check pass tree=t1" if again else ""
    conversation = play(
        needed(replace(NEED, at=times)),
        f"""{BEGIN}
        > check {status}
        ? prepare plan 1
        {WORKED}
        {end}
        < stage_verdict pass
        < node_complete plan: Agent requested stop at iteration 1
        < node_start next
        ? prepare next 1
        """,
    )
    assert verdict(conversation).tree == ("t1" if again else None)


def test_check_after_each_iteration_and_at_the_end_runs_once_for_the_same_files() -> None:
    play(
        needed(replace(NEED, at=("iteration", "end"))),
        f"""
        > start
        < node_start plan
        ? prepare plan 1
        {WORKED}
        < check_start lint 1
        ? check lint 1
        > check pass
        < stage_verdict pass
        < node_complete plan: Agent requested stop at iteration 1
        < node_start next
        ? prepare next 1
        """,
    )
