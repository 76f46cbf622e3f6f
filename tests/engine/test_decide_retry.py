"""Playbooks of failures: what is retried, how often, when, and what ends the run."""

import pytest
from tests.engine.plans import block, plan_of, stage
from tests.engine.playbook import Play, play

from agentforge.engine.decide.failure import (
    ATTEMPTS_PER_KIND,
    DECIDED,
    STAGE_FAILURES,
    attempts_allowed,
    backoff,
    kind_of,
)
from agentforge.model.failure import LIMITS, FailureKind
from agentforge.model.plan import RetryPolicy

BEGIN = """
    > start
    < node_start plan
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
"""
TAXONOMY = {
    "provider_timeout": True,
    "provider_crashed": True,
    "provider_missing": False,
    "result_invalid": False,
    "result_missing": True,
    "lock_contention": False,
    "state_corrupt": False,
    "signal_interrupt": False,
    "iteration_timeout": True,
    "judge_failed": True,
    "provider_auth": False,
    "provider_overloaded": True,
    "provider_unreachable": True,
    "permission_denied": False,
    "agent_limit": False,
    "cap_reached": False,
    "agent_error": False,
    "executor_failed": True,
    "prompt_unreadable": False,
    "queue_unreadable": False,
    "parallel_block_failed": False,
    "output_unreadable": False,
    "checks_failed": False,
    "rejected": False,
    "check_error": False,
    "hook_failed": False,
    "delivery_failed": False,
    "files_unusable": False,
    "not_recorded": False,
    "artifact_invalid": False,
    "artifact_unusable": False,
    "context_too_large": False,
}


def test_error_taxonomy_names_every_kind() -> None:
    assert set(TAXONOMY) | LIMITS == {kind.value for kind in FailureKind}


@pytest.mark.parametrize("kind", [kind for kind, retryable in TAXONOMY.items() if retryable])
def test_retryable_error_is_retried_with_backoff(kind: str) -> None:
    assert FailureKind(kind) in ATTEMPTS_PER_KIND
    play(
        plan_of(stage()),
        f"""{BEGIN}
        > error {kind}
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        = running
        """,
    )


@pytest.mark.parametrize("kind", [kind for kind, retryable in TAXONOMY.items() if not retryable])
def test_fatal_error_fails_the_run_at_once(kind: str) -> None:
    assert FailureKind(kind) not in ATTEMPTS_PER_KIND
    play(
        plan_of(stage(retry=RetryPolicy(max_attempts=9))),
        f"""{BEGIN}
        > error {kind}
        < session_failed {kind}
        = failed
        """,
    )


def test_agent_that_reports_error_stops_the_loop_at_once() -> None:
    play(
        plan_of(stage(runs=25), stage("build")),
        f"""{BEGIN}
        > error agent_error
        < session_failed agent_error
        = failed
        """,
    )


def test_retries_do_not_advance_the_iteration_and_the_second_failure_is_final() -> None:
    play(
        plan_of(stage()),
        f"""{BEGIN}
        @ 10
        > error provider_timeout
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        > error provider_timeout
        < session_failed provider_timeout
        = failed
        """,
    )


def test_retry_count_resets_on_successful_iteration() -> None:
    play(
        plan_of(stage(runs=2)),
        f"""{BEGIN}
        > error provider_crashed
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        > completed
        ? prepare plan 2
        > prepared
        < attempt_start 1
        ? execute plan 2 attempt 1
        > error provider_crashed
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        """,
    )


def test_backoff_grows_to_its_maximum() -> None:
    policy = RetryPolicy(max_attempts=9)
    assert [backoff(policy, failures).total_seconds() for failures in range(1, 7)] == [2, 4, 8, 16, 30, 30]
    patient = RetryPolicy(max_attempts=100, initial_delay=1, multiplier=1000, max_delay=86_400)
    assert backoff(patient, 99).total_seconds() == 86_400


@pytest.mark.parametrize(
    ("kind", "attempts"),
    [
        (FailureKind.PROVIDER_TIMEOUT, 5),
        (FailureKind.ITERATION_TIMEOUT, 5),
        (FailureKind.PROVIDER_CRASHED, 2),
        (FailureKind.RESULT_MISSING, 2),
        (FailureKind.RESULT_INVALID, 1),
        (FailureKind.AGENT_ERROR, 1),
    ],
)
def test_row_of_the_table_caps_attempts_per_kind(kind: FailureKind, attempts: int) -> None:
    """`provider_crashed` and `result_missing`: once more, then fail; the ladder allows five here."""
    policy = RetryPolicy(max_attempts=5)
    tried = next(n for n in range(1, 10) if attempts_allowed(policy, (kind,) * n) <= n)
    assert tried == attempts


def test_ladder_caps_the_sum_over_all_kinds() -> None:
    play(
        plan_of(stage(retry=RetryPolicy(max_attempts=3))),
        f"""{BEGIN}
        > error provider_crashed
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        > error result_missing
        < retry_scheduled 3/3 in 4s
        ? wait retry 4s
        > fired retry
        < attempt_start 3
        ? execute plan 1 attempt 3
        > error provider_timeout
        < session_failed provider_timeout
        = failed
        """,
    )


def test_second_crash_is_final_despite_remaining_attempts() -> None:
    play(
        plan_of(stage(retry=RetryPolicy(max_attempts=5, initial_delay=0))),
        f"""{BEGIN}
        > error provider_crashed
        < retry_scheduled 2/2 in 0s
        ? wait retry 0s
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        > error provider_timeout
        < retry_scheduled 3/5 in 0s
        ? wait retry 0s
        > fired retry
        < attempt_start 3
        ? execute plan 1 attempt 3
        > error provider_crashed
        < session_failed provider_crashed
        = failed
        """,
    )


def test_judge_failures_are_bounded_by_the_ladder_only() -> None:
    assert ATTEMPTS_PER_KIND[FailureKind.JUDGE_FAILED] > 10


def test_recovery_before_a_retry_waits_until_its_recorded_time() -> None:
    play(
        plan_of(stage()),
        f"""{BEGIN}
        > error provider_timeout
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        @ 1
        > recover
        ? wait retry 1s
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        """,
    )


def test_resume_of_a_failed_run_starts_the_retry_count_afresh() -> None:
    play(
        plan_of(stage()),
        f"""{BEGIN}
        > error provider_crashed
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        > error provider_crashed
        < session_failed provider_crashed
        = failed
        > resume
        < attempt_start 3
        ? execute plan 1 attempt 3
        = running
        > error provider_crashed
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        """,
    )


# -- further tries of the stage


def test_failed_stage_is_retried_from_the_iteration_that_failed() -> None:
    """Attempt numbers continue, and the failures of attempts still count: each try is one attempt."""
    play(
        plan_of(stage(runs=2, retry=RetryPolicy(max_attempts=2, stage=2))),
        f"""{BEGIN}
        > completed continue
        ? prepare plan 2
        > prepared
        < attempt_start 1
        ? execute plan 2 attempt 1
        > error provider_crashed
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 2
        ? execute plan 2 attempt 2
        > error provider_crashed
        < stage_retry 1/2 provider_crashed in 4s
        ? wait retry 4s
        > fired retry
        < attempt_start 3
        ? execute plan 2 attempt 3
        > error agent_error
        < stage_retry 2/2 agent_error in 8s
        ? wait retry 8s
        > fired retry
        < attempt_start 4
        ? execute plan 2 attempt 4
        > error agent_error
        < session_failed agent_error
        """,
    )


@pytest.mark.parametrize("kind", sorted(set(TAXONOMY) - {kind.value for kind in STAGE_FAILURES}))
def test_failure_that_another_try_would_have_too_fails_the_stage(kind: str) -> None:
    play(
        plan_of(stage(retry=RetryPolicy(stage=3))),
        f"""{BEGIN}
        > error {kind}
        < session_failed {kind}
        """,
    )


def test_resume_gives_the_further_tries_again() -> None:
    play(
        plan_of(stage(retry=RetryPolicy(max_attempts=1, stage=1, initial_delay=0))),
        f"""{BEGIN}
        > error agent_error
        < stage_retry 1/1 agent_error in 0s
        ? wait retry 0s
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        > error agent_error
        < session_failed agent_error
        > resume
        < attempt_start 3
        ? execute plan 1 attempt 3
        > error agent_error
        < stage_retry 1/1 agent_error in 0s
        ? wait retry 0s
        """,
    )


# -- any failure, and a person at the end

LADDER = RetryPolicy(4, initial_delay=1, stage=2, retried="any", exhausted="ask")


def rung(number: int, then: str) -> str:
    """The failure of an attempt, and what follows it."""
    wait = f"""
        < {then}
        ? wait retry {then.rpartition(" in ")[2]}
        > fired retry
        < attempt_start {number + 1}
        ? execute plan 1 attempt {number + 1}
        """
    return f"> error agent_error{wait}"


ASKED = """
    > error agent_error
    < request_opened retries_exhausted-26
    < session_paused retries_exhausted
    = paused
"""
SIX = (
    rung(1, "retry_scheduled 2/4 in 1s")
    + rung(2, "retry_scheduled 3/4 in 2s")
    + rung(3, "retry_scheduled 4/4 in 4s")
    + rung(4, "stage_retry 1/2 agent_error in 8s")
    + rung(5, "stage_retry 2/2 agent_error in 16s")
)


def test_should_escalate_correctly() -> None:
    """Three retries of the attempt and two of the stage are six attempts, then a person is asked."""
    conversation = play(plan_of(stage(retry=LADDER)), f"{BEGIN}{SIX}{ASKED}")
    assert conversation.state is not None
    (asked,) = conversation.state.open_requests
    assert (asked.options, asked.subject) == (("resume", "retry", "cancel"), "agent_error")
    assert asked.question == (
        "stage 'plan' failed 6 times (2 of 2 retries of the stage): it went wrong. Fix the cause and continue"
        " with new retries (resume), try once more (retry), or cancel the run (cancel)?"
    )


@pytest.mark.parametrize("word", ["answer retries_exhausted-26 resume", "resume"])
def test_answer_resume_starts_the_ladder_afresh(word: str) -> None:
    continued = "" if word == "resume" else "< session_continued retries_exhausted-26"
    play(
        plan_of(stage(retry=LADDER)),
        f"""{BEGIN}{SIX}{ASKED}
        > {word}
        {continued}
        < request_resolved retries_exhausted-26 reset
        < attempt_start 7
        ? execute plan 1 attempt 7
        {rung(7, "retry_scheduled 2/4 in 1s")}
        """,
    )


def test_answer_retry_is_one_more_attempt() -> None:
    play(
        plan_of(stage(retry=LADDER)),
        f"""{BEGIN}{SIX}{ASKED}
        > answer retries_exhausted-26 retry
        < session_continued retries_exhausted-26
        < request_resolved retries_exhausted-26 continue
        < attempt_start 7
        ? execute plan 1 attempt 7
        > error agent_error
        < request_opened retries_exhausted-33
        < session_paused retries_exhausted
        > answer retries_exhausted-33 cancel
        < session_continued retries_exhausted-33
        < cancel_requested answered by person
        < request_resolved retries_exhausted-33 cancel
        < session_aborted answered by person
        """,
    )


@pytest.mark.parametrize("kind", sorted(set(TAXONOMY) - {kind.value for kind in STAGE_FAILURES | DECIDED}))
def test_should_pause_on_unrecoverable(kind: str) -> None:
    """What no retry mends asks at once."""
    play(
        plan_of(stage(retry=LADDER)),
        f"""{BEGIN}
        > error {kind}
        < request_opened retries_exhausted-6
        < session_paused retries_exhausted
        """,
    )


@pytest.mark.parametrize("kind", sorted(kind.value for kind in STAGE_FAILURES))
@pytest.mark.parametrize(("attempts", "stage_retries"), [(1, 0), (4, 2), (7, 3)])
def test_policy_for_any_failure_bounds_the_attempts(kind: str, attempts: int, stage_retries: int) -> None:
    """Whatever fails, also where it may be corrected."""
    policy = RetryPolicy(attempts, stage=stage_retries, initial_delay=0, retried="any", exhausted="ask")
    conversation = play(plan_of(stage(retry=policy)), BEGIN)
    for _ in range(attempts + stage_retries - 1):
        conversation.happens(f"error {kind}")
        conversation.happens("fired retry")
    assert conversation.stage.stage_retries == stage_retries
    conversation.happens(f"error {kind}")
    assert conversation.state is not None
    assert conversation.state.open_requests[0].reason == "retries_exhausted"


def test_artifact_is_corrected_at_least_as_often_as_it_may_be() -> None:
    policy, invalid = RetryPolicy(2, retried="any"), FailureKind.ARTIFACT_INVALID
    assert [attempts_allowed(policy, (invalid,), heal) for heal in range(4)] == [2, 2, 3, 4]
    assert attempts_allowed(policy, (invalid, FailureKind.PROVIDER_CRASHED), 3) == 2


def test_iteration_that_cannot_be_prepared_asks_and_is_prepared_again() -> None:
    play(
        plan_of(stage(retry=LADDER)),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > error prompt_unreadable
        < request_opened retries_exhausted-4
        < session_paused retries_exhausted
        > answer retries_exhausted-4 retry
        < session_continued retries_exhausted-4
        < request_resolved retries_exhausted-4 continue
        ? prepare plan 1
        > error prompt_unreadable
        < request_opened retries_exhausted-10
        < session_paused retries_exhausted
        > resume
        < request_resolved retries_exhausted-10 reset
        ? prepare plan 1
        """,
    )


def test_branch_asks_while_the_others_work() -> None:
    plan = plan_of(block("claude codex", stage("plan", retry=RetryPolicy(1, exhausted="ask"))))
    conversation = Play(plan)
    conversation.happens("start")
    for branch in ("claude", "codex"):
        conversation.happens(f"{branch}: prepared")
    said = conversation.happens("codex: error provider_auth")
    assert said[0].startswith("< codex: request_opened retries_exhausted")
    assert said[1:] == ["? claude: execute plan 1 attempt 1"]
    assert conversation.state is not None
    (asked,) = conversation.state.open_requests
    assert asked.question.startswith("codex: stage 'plan' failed: it went wrong. Fix")
    assert conversation.happens(f"answer {asked.id} retry")[-1] == "? codex: execute plan 1 attempt 2"


def raised_from(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def test_transient_cause_inside_an_exception_counts() -> None:
    lost, late = ConnectionResetError("lost"), TimeoutError("late")
    assert kind_of(ValueError("wrong")) is FailureKind.PROVIDER_CRASHED
    assert kind_of(raised_from(ValueError("wrong"), lost)) is FailureKind.PROVIDER_UNREACHABLE
    both = ExceptionGroup("two", [ValueError("wrong"), raised_from(RuntimeError("call"), late), lost])
    assert kind_of(raised_from(ValueError("wrong"), both)) is FailureKind.PROVIDER_TIMEOUT
    shown, hidden = ValueError("wrong"), ValueError("wrong")
    shown.__context__, hidden.__context__, hidden.__suppress_context__ = late, late, True
    assert kind_of(shown) is FailureKind.PROVIDER_TIMEOUT
    assert kind_of(hidden) is FailureKind.PROVIDER_CRASHED


def test_exceptions_that_are_causes_of_each_other_are_read_once() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert kind_of(first) is FailureKind.PROVIDER_CRASHED
