"""Playbooks of checks near the end of the time that the run has."""

from msgspec.structs import replace
from tests.engine.plans import plan_of, stage
from tests.engine.playbook import Play, play
from tests.engine.test_decide_checks import checked

from agentforge.model import facts as f
from agentforge.model.check import Check
from agentforge.model.plan import Guardrails


def timeouts(conversation: Play) -> list[float | None]:
    return [e.fact.timeout for e in conversation.events if isinstance(e.fact, f.CheckStarted)]


def test_check_that_ends_at_the_runtime_limit_asks_and_says_nothing_about_the_work() -> None:
    conversation = play(
        plan_of(checked(), max_runtime=100),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1 timeout=100
        ? execute plan 1 attempt 1
        @ 70
        > completed stop
        < check_start test 1
        ? check test 1
        @ 30
        > check timeout
        < request_opened runtime_limit-8
        < session_paused runtime_limit
        = paused
        > resume
        < request_resolved runtime_limit-8 reset
        < check_start test 2
        ? check test 2
        > check pass
        < stage_verdict pass
        < node_complete plan: Agent requested stop at iteration 1
        < session_complete all_loops_complete
        """,
    )
    assert timeouts(conversation) == [30, 100]


def test_check_does_not_start_if_the_runtime_limit_is_used_up() -> None:
    conversation = play(
        plan_of(checked(), max_runtime=100),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1 timeout=100
        ? execute plan 1 attempt 1
        @ 100
        > completed stop
        < request_opened runtime_limit-6
        < session_paused runtime_limit
        """,
    )
    assert timeouts(conversation) == []


def test_check_that_reaches_its_own_time_limit_fails_also_near_the_end_of_the_run() -> None:
    conversation = play(
        plan_of(checked(checks=(Check("test", "make test", timeout=20),)), max_runtime=100),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1 timeout=100
        ? execute plan 1 attempt 1
        @ 80
        > completed stop
        < check_start test 1
        ? check test 1
        @ 20
        > check timeout
        < stage_verdict fail test
        < session_failed checks_failed
        """,
    )
    assert timeouts(conversation) == [20]


def test_runtime_limit_fails_the_run_if_it_says_so() -> None:
    plan = plan_of(stage("plan"), stage("build"))
    limits = Guardrails(100, on_timeout="fail")
    play(
        replace(plan, pipeline=replace(plan.pipeline, guardrails=limits)),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1 timeout=100
        ? execute plan 1 attempt 1
        @ 100
        > completed stop
        < node_complete plan: Agent requested stop at iteration 1
        < node_start build
        < session_failed iteration_timeout
        = failed
        """,
    )
