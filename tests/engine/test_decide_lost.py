"""Playbooks of engines that die: agents reattached to, attempts lost, recoveries that fail."""

from tests.engine.plans import plan_of, stage
from tests.engine.playbook import play

BEGIN = """
    > start
    < node_start plan
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
"""


def test_recovery_reattaches_to_the_running_agent() -> None:
    play(
        plan_of(stage()),
        f"""{BEGIN}
        > recover
        ? execute plan 1 attempt 1
        > reattached
        ? execute plan 1 attempt 1
        > completed
        < node_complete plan: Completed 1 iterations (max: 1)
        < session_complete all_loops_complete
        """,
    )


def test_recovery_before_the_preparation_prepares_again() -> None:
    play(
        plan_of(stage()),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > recover
        ? prepare plan 1
        """,
    )


def test_lost_attempt_costs_no_retry_and_gets_a_new_number() -> None:
    play(
        plan_of(stage()),
        f"""{BEGIN}
        > recover
        ? execute plan 1 attempt 1
        > lost
        < attempt_start 2
        ? execute plan 1 attempt 2
        > error provider_crashed
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        """,
    )


def test_three_attempts_lost_in_a_row_ask_a_person() -> None:
    conversation = play(
        plan_of(stage()),
        f"""{BEGIN}
        > lost
        < attempt_start 2
        ? execute plan 1 attempt 2
        > lost
        < attempt_start 3
        ? execute plan 1 attempt 3
        > lost
        < request_opened attempts_lost-10
        < session_paused attempts_lost
        = paused
        > resume
        < request_resolved attempts_lost-10 reset
        < attempt_start 4
        ? execute plan 1 attempt 4
        = running
        > lost
        < attempt_start 5
        ? execute plan 1 attempt 5
        """,
    )
    opened = conversation.events[9].fact
    assert opened.options == ("resume", "retry", "cancel")  # type: ignore[union-attr]
    assert "3 attempts at iteration 1 of stage 'plan' were lost in a row" in opened.question  # type: ignore[union-attr]


def test_failure_in_between_breaks_the_row_of_lost_attempts() -> None:
    play(
        plan_of(stage()),
        f"""{BEGIN}
        > lost
        < attempt_start 2
        ? execute plan 1 attempt 2
        > lost
        < attempt_start 3
        ? execute plan 1 attempt 3
        > error provider_timeout
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 4
        ? execute plan 1 attempt 4
        > lost
        < attempt_start 5
        ? execute plan 1 attempt 5
        """,
    )


def test_three_recoveries_without_progress_ask_a_person() -> None:
    play(
        plan_of(stage()),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > recover
        ? prepare plan 1
        > recover
        ? prepare plan 1
        > recover
        < request_opened recoveries_without_progress-6
        < session_paused recoveries_without_progress
        = paused
        > resume
        < request_resolved recoveries_without_progress-6 reset
        ? prepare plan 1
        > recover
        ? prepare plan 1
        """,
    )


def test_completed_iteration_is_progress() -> None:
    play(
        plan_of(stage(runs=2)),
        f"""{BEGIN}
        > recover
        ? execute plan 1 attempt 1
        > recover
        ? execute plan 1 attempt 1
        > completed
        ? prepare plan 2
        > recover
        ? prepare plan 2
        > recover
        ? prepare plan 2
        > recover
        < request_opened recoveries_without_progress-11
        < session_paused recoveries_without_progress
        """,
    )


def test_running_agent_is_reattached_before_a_request_is_opened() -> None:
    play(
        plan_of(stage()),
        f"""{BEGIN}
        > recover
        ? execute plan 1 attempt 1
        > recover
        ? execute plan 1 attempt 1
        > recover
        ? execute plan 1 attempt 1
        > completed
        < node_complete plan: Completed 1 iterations (max: 1)
        < session_complete all_loops_complete
        """,
    )


def test_engine_that_dies_between_the_question_and_the_pause_does_not_ask_twice() -> None:
    conversation = play(
        plan_of(stage()),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > recover
        ? prepare plan 1
        > recover
        ? prepare plan 1
        > recover
        < request_opened recoveries_without_progress-6
        < session_paused recoveries_without_progress
        """,
    )
    before_the_pause = conversation.events[:-1]
    again = type(conversation)(conversation.plan)
    for event in before_the_pause:
        again.record(event.fact, event.cursor)
    assert again.happens("recover") == ["< session_paused recoveries_without_progress"]
    assert again.state is not None
    assert len(again.state.requests) == 1


def test_resuming_an_interrupted_run_resets_the_counters() -> None:
    play(
        plan_of(stage()),
        f"""{BEGIN}
        > error provider_crashed
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        > taken-up-by-person
        ? execute plan 1 attempt 2
        > error provider_crashed
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        """,
    )


def test_resuming_a_run_that_waits_for_a_retry_skips_the_wait() -> None:
    conversation = play(
        plan_of(stage()),
        f"""{BEGIN}
        > error provider_crashed
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        > taken-up-by-person use the other branch
        < attempt_start 2
        ? execute plan 1 attempt 2
        > error provider_crashed
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        """,
    )
    assert conversation.state is not None
    assert conversation.state.note_texts == ("use the other branch",)
