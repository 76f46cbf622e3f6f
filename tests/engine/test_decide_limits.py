"""Playbooks of limits: an attempt's timeout, and the runtime limit that asks when it is used up."""

from datetime import timedelta

import pytest
from tests.engine.plans import plan_of, stage
from tests.engine.playbook import Play, play

from agentforge.engine.decide.stage_at import max_runtime, stage_at
from agentforge.model.plan import Guardrails, Plan, RetryPolicy


def test_runtime_limit_asks_and_a_resume_grants_the_same_again() -> None:
    conversation = play(
        plan_of(stage(runs=9), max_runtime=100),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1 timeout=100
        ? execute plan 1 attempt 1
        @ 100
        > completed
        < request_opened runtime_limit-6
        < session_paused runtime_limit
        = paused
        @ 3600
        > resume
        < request_resolved runtime_limit-6 reset
        ? prepare plan 2
        @ 30
        > prepared
        < attempt_start 1 timeout=70
        ? execute plan 2 attempt 1
        """,
    )
    opened = conversation.events[5].fact
    assert opened.question == "the runtime limit of 100 s is used up. Extend it by the same amount?"  # type: ignore[union-attr]


def test_seconds_that_a_person_grants_count_until_the_next_answer_or_resume() -> None:
    """Each is counted from when it was given."""
    conversation = Play(plan_of(stage(runs=9), max_runtime=100))
    for words in ("start", "prepared"):
        conversation.happens(words)
    for answer, seconds in (("", 100), ("60", 60), ("30", 30), ("retry", 100), ("60", 60), ("resume", 100)):
        if answer:
            assert conversation.state is not None
            (request,) = conversation.state.open_requests
            conversation.happens(answer if answer == "resume" else f"answer {request.id} {answer}")
            said = conversation.happens("prepared")
            assert f"< attempt_start 1 timeout={seconds}" in said, answer
        conversation.now += timedelta(seconds=seconds)
        assert conversation.happens("completed")[-1] == "< session_paused runtime_limit"


def test_seconds_that_a_person_granted_do_not_limit_a_run_that_was_resumed_since() -> None:
    conversation = Play(plan_of(stage(runs=9), max_runtime=100))
    for words in ("start", "prepared"):
        conversation.happens(words)
    conversation.now += timedelta(seconds=100)
    conversation.happens("completed")
    for words in ("answer runtime_limit-6 60", "pause lunch", "resume"):
        conversation.happens(words)
    assert "< attempt_start 1 timeout=100" in conversation.happens("prepared")


def test_runtime_limit_opens_a_request_before_another_attempt() -> None:
    play(
        plan_of(stage(runs=2, retry=RetryPolicy(max_attempts=3)), max_runtime=60),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1 timeout=60
        ? execute plan 1 attempt 1
        @ 60
        > error iteration_timeout
        < retry_scheduled 2/3 in 2s
        ? wait retry 2s
        > fired retry
        < request_opened runtime_limit-8
        < session_paused runtime_limit
        > resume
        < request_resolved runtime_limit-8 reset
        < attempt_start 2 timeout=60
        ? execute plan 1 attempt 2
        """,
    )


def test_runtime_limit_that_ended_the_last_attempt_opens_a_request() -> None:
    play(
        plan_of(stage(retry=RetryPolicy(max_attempts=1)), max_runtime=60),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1 timeout=60
        ? execute plan 1 attempt 1
        @ 60
        > error iteration_timeout
        < request_opened runtime_limit-6
        < session_paused runtime_limit
        > resume
        < request_resolved runtime_limit-6 reset
        < attempt_start 2 timeout=60
        ? execute plan 1 attempt 2
        """,
    )


def test_stage_that_is_done_ends_although_the_limit_is_used_up() -> None:
    play(
        plan_of(stage(), max_runtime=10),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1 timeout=10
        ? execute plan 1 attempt 1
        @ 11
        > completed
        < node_complete plan: Completed 1 iterations (max: 1)
        < session_complete all_loops_complete
        """,
    )


@pytest.mark.parametrize(
    ("timeout", "limit", "passed", "expected"),
    [
        (None, None, 5, ""),
        (30.0, None, 5, " timeout=30"),
        (None, 100.0, 5, " timeout=95"),
        (30.0, 100.0, 5, " timeout=30"),
        (30.0, 100.0, 90, " timeout=10"),
    ],
)
def test_timeout_of_an_attempt_is_the_stage_timeout_or_the_remaining_time(
    timeout: float | None, limit: float | None, passed: float, expected: str
) -> None:
    play(
        plan_of(stage(timeout=timeout), max_runtime=limit),
        f"""
        > start
        < node_start plan
        ? prepare plan 1
        @ {passed}
        > prepared
        < attempt_start 1{expected}
        ? execute plan 1 attempt 1
        """,
    )


@pytest.mark.parametrize(
    ("of_run", "of_stage", "expected"),
    [(None, None, None), (50.0, None, 50.0), (None, 20.0, 20.0), (50.0, 20.0, 20.0), (10.0, 20.0, 10.0)],
)
def test_tightest_runtime_limit_counts(
    of_run: float | None, of_stage: float | None, expected: float | None
) -> None:
    node = stage(guardrails=Guardrails(of_stage))
    assert max_runtime(plan_of(node, max_runtime=of_run), node) == expected


def remaining(play: Play, plan: Plan) -> float | None:
    assert play.state is not None
    assert play.state.node is not None
    here = stage_at(plan, play.state, None, play.state.node)
    assert here is not None
    return here.remaining


def test_remaining_seconds_never_go_below_zero() -> None:
    plan = plan_of(stage(runs=2), max_runtime=10)
    conversation = play(plan, "> start\n< node_start plan\n? prepare plan 1")
    assert remaining(conversation, plan) == 10
    conversation.now = conversation.now.replace(hour=23)
    conversation.happens("recover")
    assert remaining(conversation, plan) == 0
    assert remaining(conversation, plan_of(stage())) is None
