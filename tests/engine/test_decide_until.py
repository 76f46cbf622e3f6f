"""Playbooks of stages that are repeated until they pass: `termination: {type: fixed, until: pass}`."""

from tests.engine.plans import plan_of, stage
from tests.engine.playbook import play

from agentforge.model.check import Check
from agentforge.model.plan import Fixed, Limits, Route, StageNode


def until(most: int = 3, no_progress: int | None = None) -> StageNode:
    return stage(
        "plan",
        termination=Fixed(most, until_pass=True),
        checks=(Check("test", "make test"),),
        routes=(Route("fail", "ask"),),
        limits=Limits(no_progress=no_progress),
        delay=0,
    )


def worked(number: int, check: str) -> str:
    return f"""
        ? prepare plan {number}
        > prepared
        < attempt_start 1
        ? execute plan {number} attempt 1
        > completed
        < check_start test 1
        ? check test 1
        > check {check}
    """


def test_it_ends_when_its_checks_pass_though_the_agent_would_continue() -> None:
    play(
        plan_of(until()),
        f"""
        > start
        < node_start plan
        {worked(1, "fail test_a tree=t1")}
        {worked(2, "pass tree=t2")}
        < stage_verdict pass
        < node_complete plan: Ended after iteration 2
        < session_complete all_loops_complete
        """,
    )


def test_a_person_is_asked_when_its_iterations_are_used_up() -> None:
    conversation = play(
        plan_of(until(2)),
        f"""
        > start
        < node_start plan
        {worked(1, "fail test_a tree=t1")}
        {worked(2, "fail test_a tree=t2")}
        < stage_verdict fail test
        < request_opened verdict-14
        < session_paused verdict
        = paused
        """,
    )
    assert conversation.state is not None
    assert "Completed 2 iterations (max: 2)." in conversation.state.open_requests[0].question


def test_it_ends_without_progress() -> None:
    conversation = play(
        plan_of(until(10)),
        f"""
        > start
        < node_start plan
        {worked(1, "fail test_a tree=t1")}
        {worked(2, "fail test_b tree=t1")}
        {worked(3, "fail test_b tree=t1")}
        < stage_verdict fail test
        < request_opened verdict-19
        < session_paused verdict
        = paused
        """,
    )
    assert conversation.state is not None
    asked = conversation.state.open_requests[0].question
    assert "No progress: the same failures on the same files after 2 iterations." in asked


def test_changed_files_are_progress_and_the_limit_can_be_raised() -> None:
    play(
        plan_of(until(5, no_progress=3)),
        f"""
        > start
        < node_start plan
        {worked(1, "fail test_a tree=t1")}
        {worked(2, "fail test_a tree=t1")}
        {worked(3, "fail test_a tree=t2")}
        {worked(4, "fail test_a")}
        {worked(5, "pass tree=t2")}
        < stage_verdict pass
        < node_complete plan: Completed 5 iterations (max: 5)
        < session_complete all_loops_complete
        """,
    )


def test_what_changes_while_a_check_runs_is_progress() -> None:
    play(
        plan_of(until(5)),
        f"""
        > start
        < node_start plan
        {worked(1, "fail test_a tree=t1")}
        ? prepare plan 2
        > prepared
        < attempt_start 1
        ? execute plan 2 attempt 1
        > completed
        < check_start test 1
        ? check test 1
        > check fail test_a tree=t3 changed=a.py
        < check_start test 2
        ? check test 2
        > check fail test_a tree=t3
        ? prepare plan 3
        """,
    )
