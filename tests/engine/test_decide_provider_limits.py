"""Playbooks of quotas, rate limits and chains of providers: who waits, who takes over, who is asked."""

import pytest
from tests.engine.plans import plan_of, stage
from tests.engine.playbook import play

from agentforge.model.plan import LimitPolicy, ProviderChoice, RetryPolicy

BEGIN = """
    > start
    < node_start plan
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
"""
CODEX, LOCAL = ProviderChoice("codex", "gpt"), ProviderChoice("api", "local")


@pytest.mark.parametrize("kind", ["provider_quota", "provider_rate_limited"])
def test_limit_is_awaited_and_does_not_count_as_a_retry(kind: str) -> None:
    play(
        plan_of(stage(retry=RetryPolicy(max_attempts=1))),
        f"""{BEGIN}
        > error {kind} resets=600
        < limit_met claude until 600s, next in 600s
        ? wait retry 600s
        = running
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        > completed
        < node_complete plan: Completed 1 iterations (max: 1)
        < session_complete all_loops_complete
        = completed
        """,
    )


def test_limit_without_a_reset_time_doubles_the_delay() -> None:
    script = BEGIN
    for number, wait in enumerate([60, 120, 240, 480, 900, 900], 2):
        script += f"""
        > error provider_rate_limited
        < limit_met claude until {wait}s, next in {wait}s
        ? wait retry {wait}s
        > fired retry
        < attempt_start {number}
        ? execute plan 1 attempt {number}
        """
    play(plan_of(stage()), script)


def test_limit_with_a_past_reset_time_is_delayed_longer_each_time() -> None:
    script = BEGIN
    for number, wait in enumerate([1, 2, 4, 8], 2):
        script += f"""
        > error provider_rate_limited resets=0
        < limit_met claude until {wait}s, next in {wait}s
        ? wait retry {wait}s
        > fired retry
        < attempt_start {number}
        ? execute plan 1 attempt {number}
        """
    play(plan_of(stage()), script)


@pytest.mark.parametrize(("claim", "waits"), [("", (0, 2, 4)), (" resets=0", (1, 2, 4))])
def test_limit_without_a_delay_does_not_cause_a_tight_loop(claim: str, waits: tuple[int, ...]) -> None:
    script = BEGIN
    for number, wait in enumerate(waits, 2):
        script += f"""
        > error provider_rate_limited{claim}
        < limit_met claude until {wait}s, next in {wait}s
        ? wait retry {wait}s
        > fired retry
        < attempt_start {number}
        ? execute plan 1 attempt {number}
        """
    play(plan_of(stage(on_limit=LimitPolicy(initial_delay=0))), script)


def test_limit_that_lasts_too_long_asks_a_person() -> None:
    play(
        plan_of(stage(on_limit=LimitPolicy(max_wait=3600))),
        f"""{BEGIN}
        > error provider_quota resets=7200
        < request_opened provider_limit-6
        < session_paused provider_limit
        = paused
        > resume
        < request_resolved provider_limit-6 reset
        < attempt_start 2
        ? execute plan 1 attempt 2
        """,
    )


def test_total_wait_of_one_iteration_is_bounded() -> None:
    play(
        plan_of(stage(on_limit=LimitPolicy(initial_delay=100, max_wait=250))),
        f"""{BEGIN}
        > error provider_rate_limited
        < limit_met claude until 100s, next in 100s
        ? wait retry 100s
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        > error provider_rate_limited
        < request_opened provider_limit-10
        < session_paused provider_limit
        = paused
        """,
    )


def test_limit_can_be_configured_to_fail_the_stage() -> None:
    play(
        plan_of(stage(on_limit=LimitPolicy("fail"), fallbacks=(CODEX,))),
        f"""{BEGIN}
        > error provider_quota resets=600
        < session_failed provider_quota
        = failed
        """,
    )


def test_limit_moves_to_the_next_provider_of_the_chain() -> None:
    play(
        plan_of(stage(fallbacks=(CODEX,))),
        f"""{BEGIN}
        > error provider_quota resets=600
        < provider_changed claude to codex until 600s
        < attempt_start 2 codex
        ? execute plan 1 attempt 2
        """,
    )


def test_next_iteration_starts_with_the_first_available_provider() -> None:
    play(
        plan_of(stage(runs=3, fallbacks=(CODEX,))),
        f"""{BEGIN}
        > error provider_quota resets=600
        < provider_changed claude to codex until 600s
        < attempt_start 2 codex
        ? execute plan 1 attempt 2
        > completed
        ? prepare plan 2
        > prepared
        < attempt_start 1 codex
        ? execute plan 2 attempt 1
        @ 601
        > completed
        ? prepare plan 3
        > prepared
        < attempt_start 1
        ? execute plan 3 attempt 1
        """,
    )


def test_chain_at_its_limits_waits_for_the_first_reset() -> None:
    play(
        plan_of(stage(fallbacks=(CODEX,))),
        f"""{BEGIN}
        > error provider_quota resets=300
        < provider_changed claude to codex until 300s
        < attempt_start 2 codex
        ? execute plan 1 attempt 2
        > error provider_quota resets=900
        < limit_met codex until 900s, next in 300s
        ? wait retry 300s
        > fired retry
        < attempt_start 3
        ? execute plan 1 attempt 3
        """,
    )


def test_limit_can_be_configured_to_wait_despite_the_chain() -> None:
    play(
        plan_of(stage(on_limit=LimitPolicy("wait"), fallbacks=(CODEX,))),
        f"""{BEGIN}
        > error provider_quota resets=300
        < limit_met claude until 300s, next in 300s
        ? wait retry 300s
        """,
    )


@pytest.mark.parametrize("kind", ["provider_missing", "provider_auth"])
def test_provider_that_needs_a_person_is_replaced_until_a_resume(kind: str) -> None:
    play(
        plan_of(stage(runs=2, fallbacks=(CODEX,))),
        f"""{BEGIN}
        > error {kind}
        < provider_changed claude to codex until asked
        < attempt_start 2 codex
        ? execute plan 1 attempt 2
        > completed
        @ 90000
        ? prepare plan 2
        > prepared
        < attempt_start 1 codex
        ? execute plan 2 attempt 1
        > pause later
        ? execute plan 2 attempt 1
        > completed
        < session_paused later
        """.replace("@ 90000\n", ""),
    )


def test_failing_provider_is_replaced_after_its_retries() -> None:
    play(
        plan_of(stage(fallbacks=(CODEX, LOCAL))),
        f"""{BEGIN}
        > error provider_overloaded
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        > error provider_overloaded
        < provider_changed claude to codex until 900s
        < attempt_start 3 codex
        ? execute plan 1 attempt 3
        > error provider_auth
        < provider_changed codex to api until asked
        < attempt_start 4 api
        ? execute plan 1 attempt 4
        > error provider_missing
        < session_failed provider_missing
        = failed
        """,
    )


def test_failure_that_is_the_works_own_does_not_change_the_provider() -> None:
    play(
        plan_of(stage(fallbacks=(CODEX,))),
        f"""{BEGIN}
        > error result_invalid
        < session_failed result_invalid
        = failed
        """,
    )


def test_resume_uses_the_first_provider_again() -> None:
    play(
        plan_of(stage(fallbacks=(CODEX,))),
        f"""{BEGIN}
        > error provider_auth
        < provider_changed claude to codex until asked
        < attempt_start 2 codex
        ? execute plan 1 attempt 2
        > error result_invalid
        < session_failed result_invalid
        > resume
        < attempt_start 3
        ? execute plan 1 attempt 3
        """,
    )


def test_limit_is_still_awaited_after_recovery() -> None:
    play(
        plan_of(stage()),
        f"""{BEGIN}
        > error provider_quota resets=600
        < limit_met claude until 600s, next in 600s
        ? wait retry 600s
        @ 100
        > recover
        ? wait retry 500s
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        """,
    )


def test_providers_at_their_limits_wait_longer_each_round() -> None:
    """Each claims a limit of a second, and takes longer than that to say so."""
    play(
        plan_of(stage(fallbacks=(CODEX,))),
        f"""{BEGIN}
        > error provider_rate_limited resets=1
        < provider_changed claude to codex until 1s
        < attempt_start 2 codex
        ? execute plan 1 attempt 2
        @ 3
        > error provider_rate_limited resets=1
        < provider_changed codex to claude until 1s
        < attempt_start 3
        ? execute plan 1 attempt 3
        @ 3
        > error provider_rate_limited resets=1
        < provider_changed claude to codex until 2s
        < attempt_start 4 codex
        ? execute plan 1 attempt 4
        @ 3
        > error provider_rate_limited resets=1
        < provider_changed codex to claude until 2s
        < attempt_start 5
        ? execute plan 1 attempt 5
        @ 3
        > error provider_rate_limited resets=1
        < provider_changed claude to codex until 4s
        < attempt_start 6 codex
        ? execute plan 1 attempt 6
        @ 3
        > error provider_rate_limited resets=1
        < limit_met codex until 4s, next in 1s
        ? wait retry 1s
        """,
    )


def test_total_wait_over_all_providers_is_bounded() -> None:
    play(
        plan_of(stage(fallbacks=(CODEX,), on_limit=LimitPolicy(max_wait=100))),
        f"""{BEGIN}
        > error provider_rate_limited resets=1
        < provider_changed claude to codex until 1s
        < attempt_start 2 codex
        ? execute plan 1 attempt 2
        @ 101
        > error provider_rate_limited resets=1
        < request_opened provider_limit-9
        < session_paused provider_limit
        = paused
        """,
    )


def test_failing_providers_get_at_most_one_more_attempt_each() -> None:
    """Each takes longer to fail than the other rests."""
    script = BEGIN
    for number, (one, other) in enumerate([("claude", "codex"), ("codex", "claude")], 2):
        script += f"""
        @ 1000
        > error provider_timeout
        < provider_changed {one} to {other} until 900s
        < attempt_start {number}{" codex" if other == "codex" else ""}
        ? execute plan 1 attempt {number}
        """
    play(
        plan_of(stage(retry=RetryPolicy(max_attempts=1), fallbacks=(CODEX,))),
        f"""{script}
        @ 1000
        > error provider_timeout
        < session_failed provider_timeout
        = failed
        """,
    )


@pytest.mark.parametrize(("kind", "until"), [("provider_auth", "asked"), ("provider_crashed", "900s")])
def test_failing_fallback_is_replaced_by_a_provider_whose_limit_resets(kind: str, until: str) -> None:
    play(
        plan_of(stage(retry=RetryPolicy(max_attempts=1), fallbacks=(CODEX,))),
        f"""{BEGIN}
        > error provider_quota resets=600
        < provider_changed claude to codex until 600s
        < attempt_start 2 codex
        ? execute plan 1 attempt 2
        > error {kind}
        < provider_changed codex to claude until {until}, in 600s
        ? wait retry 600s
        = running
        > fired retry
        < attempt_start 3
        ? execute plan 1 attempt 3
        """,
    )


def test_failing_fallback_asks_if_the_limit_of_the_other_lasts_too_long() -> None:
    play(
        plan_of(stage(fallbacks=(CODEX,), on_limit=LimitPolicy(max_wait=300))),
        f"""{BEGIN}
        > error provider_quota resets=600
        < provider_changed claude to codex until 600s
        < attempt_start 2 codex
        ? execute plan 1 attempt 2
        > error provider_auth
        < request_opened provider_limit-9
        < session_paused provider_limit
        = paused
        """,
    )


def test_limit_that_outlasts_the_runtime_limit_asks_at_once() -> None:
    play(
        plan_of(stage(), max_runtime=300),
        f"""{BEGIN.replace("attempt_start 1", "attempt_start 1 timeout=300")}
        @ 100
        > error provider_quota resets=100
        < limit_met claude until 100s, next in 100s
        ? wait retry 100s
        > fired retry
        < attempt_start 2 timeout=100
        ? execute plan 1 attempt 2
        > error provider_quota resets=101
        < request_opened runtime_limit-10
        < session_paused runtime_limit
        = paused
        > resume
        < request_resolved runtime_limit-10 reset
        < attempt_start 3 timeout=300
        ? execute plan 1 attempt 3
        """,
    )
