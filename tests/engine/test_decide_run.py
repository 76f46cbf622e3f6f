"""Playbooks of runs in which nothing goes wrong: stages, iterations, stop decisions, delays."""

import pytest
from tests.engine.plans import plan_of, stage
from tests.engine.playbook import play

from agentforge.model.plan import RetryPolicy


def test_ordinary_run_of_a_fixed_stage() -> None:
    play(
        plan_of(stage("plan", runs=2)),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        > completed
        ? prepare plan 2
        > prepared
        < attempt_start 1
        ? execute plan 2 attempt 1
        > completed
        < node_complete plan: Completed 2 iterations (max: 2)
        < session_complete all_loops_complete
        = completed
        """,
    )


def test_fixed_termination_stops_after_exactly_n_iterations() -> None:
    conversation = play(plan_of(stage(runs=1)), ONE_STAGE)
    assert [event.fact.TYPE for event in conversation.events].count("iteration_complete") == 1


ONE_STAGE = """
    > start
    < node_start plan
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
    > completed
    < node_complete plan: Completed 1 iterations (max: 1)
    < session_complete all_loops_complete
    = completed
"""


def test_agent_stop_ends_its_stage_early() -> None:
    play(
        plan_of(stage("plan", runs=9), stage("build")),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        > completed stop
        < node_complete plan: Agent requested stop at iteration 1
        < node_start build
        ? prepare build 1
        = running
        """,
    )


def test_single_stage_run_completes_with_the_reason_of_its_stage() -> None:
    play(
        plan_of(stage("work", runs=25), mode="loop"),
        """
        > start
        < node_start work
        ? prepare work 1
        > prepared
        < attempt_start 1
        ? execute work 1 attempt 1
        > completed stop
        < node_complete work: Agent requested stop at iteration 1
        < session_complete Agent requested stop at iteration 1
        = completed
        """,
    )


def test_stages_run_one_after_another() -> None:
    conversation = play(
        plan_of(stage("plan"), stage("build")),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        > completed
        < node_complete plan: Completed 1 iterations (max: 1)
        < node_start build
        ? prepare build 1
        > prepared
        < attempt_start 1
        ? execute build 1 attempt 1
        > completed
        < node_complete build: Completed 1 iterations (max: 1)
        < session_complete all_loops_complete
        = completed
        """,
    )
    assert conversation.state is not None
    assert [(done.name, done.path, done.iterations) for done in conversation.state.stages] == [
        ("plan", "0", 1),
        ("build", "1", 1),
    ]


def test_plan_without_nodes_completes_at_once() -> None:
    play(
        plan_of(),
        """
        > start
        < session_complete all_loops_complete
        = completed
        """,
    )


def test_a_resumed_run_waits_for_the_rest_of_a_delay_only() -> None:
    play(
        plan_of(stage(runs=2, delay=7)),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        > completed
        < delay_start in 7s
        ? wait delay 7s
        > pause lunch
        < session_paused lunch
        @ 5
        > resume
        < delay_start in 2s
        ? wait delay 2s
        """,
    )


def test_delay_is_applied_after_an_iteration_and_not_before_the_first() -> None:
    play(
        plan_of(stage(runs=2, delay=7)),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        @ 60
        > completed
        < delay_start in 7s
        ? wait delay 7s
        > fired delay
        ? prepare plan 2
        > prepared
        < attempt_start 1
        ? execute plan 2 attempt 1
        > completed
        < node_complete plan: Completed 2 iterations (max: 2)
        < session_complete all_loops_complete
        """,
    )


@pytest.mark.parametrize(
    ("delay", "settings", "expected"),
    [
        (None, "", "in 3s"),
        (10.0, "", "in 10s"),
        (None, "mock delay=1", "in 1s"),
        (10.0, "mock delay=1", "in 1s"),
    ],
    ids=["default is 3 s", "of the stage", "mock delay over the default", "mock delay over the stage's"],
)
def test_which_delay_counts(delay: float | None, settings: str, expected: str) -> None:
    play(
        plan_of(stage(runs=2, delay=delay)),
        f"""
        > start {settings}
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        > completed
        < delay_start {expected}
        ? wait delay {expected.removeprefix("in ")}
        """,
    )


def test_mock_mode_skips_delays() -> None:
    play(
        plan_of(stage(runs=2, delay=10)),
        """
        > start mock delay=0
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        > completed
        ? prepare plan 2
        """,
    )


def test_recovery_in_a_delay_waits_until_the_recorded_time() -> None:
    play(
        plan_of(stage(runs=2, delay=7)),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        > completed
        < delay_start in 7s
        ? wait delay 7s
        @ 5
        > recover
        ? wait delay 2s
        > repaired
        ? wait delay 2s
        @ 100
        > fired delay
        ? prepare plan 2
        """,
    )


def test_unreadable_prompt_fails_the_run_and_a_resume_retries() -> None:
    play(
        plan_of(stage()),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > unprepared
        < session_failed prompt_unreadable
        = failed
        > resume
        ? prepare plan 1
        = running
        """,
    )


def test_intent_carries_allowed_attempts_and_limits() -> None:
    conversation = play(
        plan_of(stage(timeout=30.0, idle_timeout=5.0, retry=RetryPolicy(max_attempts=4))),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1 timeout=30
        ? execute plan 1 attempt 1
        """,
    )
    intent = conversation.events[-1].fact
    assert (intent.of, intent.idle_timeout, intent.provider, intent.model) == (4, 5.0, "claude", "opus")  # type: ignore[union-attr]
    assert conversation.work[0].timeout == 30.0  # type: ignore[union-attr]
    assert conversation.work[0].idle_timeout == 5.0  # type: ignore[union-attr]
