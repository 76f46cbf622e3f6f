"""Playbooks of people who stop a run: pause, cancel, and what a resume makes of it."""

import pytest
from tests.engine.plans import plan_of, stage
from tests.engine.playbook import play

BEGIN = """
    > start
    < node_start plan
    ? prepare plan 1
"""
AT_WORK = f"""{BEGIN}
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
"""
IN_RETRY = f"""{AT_WORK}
    > error provider_timeout
    < retry_scheduled 2/2 in 2s
    ? wait retry 2s
"""
IN_DELAY = f"""{AT_WORK}
    > completed
    < delay_start in 5s
    ? wait delay 5s
"""


def test_graceful_pause_lets_the_agent_finish_its_iteration() -> None:
    play(
        plan_of(stage(runs=2)),
        f"""{AT_WORK}
        > pause lunch
        ? execute plan 1 attempt 1
        = running
        > completed
        < session_paused lunch
        = paused
        > resume
        ? prepare plan 2
        = running
        """,
    )


def test_pause_now_ends_the_agent_and_costs_no_retry() -> None:
    play(
        plan_of(stage()),
        f"""{AT_WORK}
        > pause lunch now
        < attempt_ending 1
        ? end plan 1 attempt 1
        > cancelled
        < session_paused lunch
        = paused
        > resume
        < attempt_start 2
        ? execute plan 1 attempt 2
        > error provider_timeout
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        """,
    )


def test_agent_still_running_after_the_grace_is_stopped() -> None:
    play(
        plan_of(stage()),
        f"""{AT_WORK}
        > pause signal_interrupt grace=30
        ? execute plan 1 attempt 1
        ? wait stop 30s
        > fired stop
        < attempt_ending 1
        ? end plan 1 attempt 1
        > cancelled
        < session_paused signal_interrupt
        = paused
        """,
    )


def test_second_signal_ends_at_once() -> None:
    play(
        plan_of(stage()),
        f"""{AT_WORK}
        > pause signal_interrupt grace=30
        ? execute plan 1 attempt 1
        ? wait stop 30s
        @ 2
        > pause signal_interrupt now grace=30
        < attempt_ending 1
        ? end plan 1 attempt 1
        """,
    )


def test_agent_that_finished_while_being_stopped_counts() -> None:
    play(
        plan_of(stage(runs=2)),
        f"""{AT_WORK}
        > pause lunch now
        < attempt_ending 1
        ? end plan 1 attempt 1
        > completed
        < session_paused lunch
        > resume
        ? prepare plan 2
        """,
    )


@pytest.mark.parametrize("outcome", ["error provider_crashed", "lost", "cancelled"])
def test_pause_takes_hold_whatever_becomes_of_the_agent(outcome: str) -> None:
    play(
        plan_of(stage()),
        f"""{AT_WORK}
        > pause lunch now
        < attempt_ending 1
        ? end plan 1 attempt 1
        > {outcome}
        < session_paused lunch
        = paused
        > resume
        < attempt_start 2
        ? execute plan 1 attempt 2
        """,
    )


@pytest.mark.parametrize("script", [BEGIN, IN_RETRY, IN_DELAY], ids=["preparing", "retry", "delay"])
def test_pause_while_no_agent_works_takes_hold_at_once(script: str) -> None:
    plan = plan_of(stage(runs=2, delay=5))
    play(plan, f"{script}\n > pause lunch\n < session_paused lunch\n = paused")


def test_recovery_finishes_a_requested_pause() -> None:
    play(
        plan_of(stage()),
        f"""{AT_WORK}
        > pause lunch
        ? execute plan 1 attempt 1
        > recover
        ? execute plan 1 attempt 1
        > lost
        < session_paused lunch
        = paused
        """,
    )


def test_recovery_finishes_a_recorded_kill() -> None:
    play(
        plan_of(stage()),
        f"""{AT_WORK}
        > pause lunch now
        < attempt_ending 1
        ? end plan 1 attempt 1
        > recover
        ? end plan 1 attempt 1
        > cancelled
        < session_paused lunch
        """,
    )


def test_resume_during_a_recorded_kill_starts_a_new_attempt() -> None:
    play(
        plan_of(stage()),
        f"""{AT_WORK}
        > pause lunch now
        < attempt_ending 1
        ? end plan 1 attempt 1
        > taken-up-by-person
        ? end plan 1 attempt 1
        > cancelled
        < attempt_start 2
        ? execute plan 1 attempt 2
        """,
    )


CANCELLED = {
    "between nodes": ("> start\n< node_start plan\n? prepare plan 1", ""),
    "while an agent works": (AT_WORK, "< attempt_ending 1\n? end plan 1 attempt 1\n> cancelled"),
    "while a retry is due": (IN_RETRY, ""),
    "in a delay": (IN_DELAY, ""),
    "after a graceful pause was asked for": (
        f"{AT_WORK}\n> pause lunch\n? execute plan 1 attempt 1",
        "< attempt_ending 1\n? end plan 1 attempt 1\n> cancelled",
    ),
    "while the agent is being ended": (
        f"{AT_WORK}\n> pause lunch now\n< attempt_ending 1\n? end plan 1 attempt 1",
        "? end plan 1 attempt 1\n> cancelled",
    ),
    "when paused": (f"{BEGIN}\n> pause lunch\n< session_paused lunch", ""),
}


@pytest.mark.parametrize("when", CANCELLED)
def test_cancel_is_final_in_every_state(when: str) -> None:
    before, until_ended = CANCELLED[when]
    plan = plan_of(stage(runs=2, delay=5))
    play(plan, f"{before}\n> cancel enough\n{until_ended}\n< session_aborted enough\n= aborted")


@pytest.mark.parametrize("when", [when for when, (_, ended) in CANCELLED.items() if ended])
def test_recovery_finishes_a_cancel_interrupted_by_a_crash(when: str) -> None:
    before, until_ended = CANCELLED[when]
    ending = "? end plan 1 attempt 1"
    plan = plan_of(stage(runs=2, delay=5))
    play(
        plan,
        f"""{before}
        > cancel enough
        {until_ended.removesuffix("> cancelled")}
        > recover
        {ending}
        > taken-up-by-person
        {ending}
        > cancelled
        < session_aborted enough
        = aborted
        """,
    )


def test_pause_after_a_cancel_does_not_undo_it() -> None:
    play(
        plan_of(stage()),
        f"""{AT_WORK}
        > cancel enough
        < attempt_ending 1
        ? end plan 1 attempt 1
        > pause lunch
        ? end plan 1 attempt 1
        > cancelled
        < session_aborted enough
        = aborted
        """,
    )


def test_cancel_closes_open_questions() -> None:
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
        > cancel enough
        < request_resolved recoveries_without_progress-6 withdrawn
        < session_aborted enough
        """,
    )
    assert conversation.state is not None
    assert conversation.state.requests == ()


def test_resume_of_a_paused_run_adds_the_context_that_a_person_gave() -> None:
    conversation = play(
        plan_of(stage(runs=2)),
        f"""{BEGIN}
        > pause lunch
        < session_paused lunch
        > resume focus on X
        ? prepare plan 1
        > pause again
        < session_paused again
        > resume skip Y
        ? prepare plan 1
        """,
    )
    state = conversation.state
    assert state is not None
    assert state.note_texts == ("focus on X", "skip Y")
    assert state.pause_reason is None
    assert state.paused_at is None
    assert state.stop is None


def test_recovery_continues_a_run_that_a_shutdown_stopped_and_keeps_its_counters() -> None:
    play(
        plan_of(stage()),
        f"""{AT_WORK}
        > error provider_timeout
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        > pause machine_shutdown now
        < attempt_ending 2
        ? end plan 1 attempt 2
        > cancelled
        < session_paused machine_shutdown
        = paused
        > recover
        < attempt_start 3
        ? execute plan 1 attempt 3
        = running
        > error provider_timeout
        < session_failed provider_timeout
        """,
    )


def test_a_shutdown_leaves_the_pause_of_a_person_to_the_person() -> None:
    play(
        plan_of(stage(runs=2)),
        f"""{AT_WORK}
        > pause lunch
        ? execute plan 1 attempt 1
        > pause machine_shutdown
        ? execute plan 1 attempt 1
        > completed
        < session_paused lunch
        = paused
        """,
    )


def test_a_person_who_stops_the_run_during_a_shutdown_keeps_it_stopped() -> None:
    play(
        plan_of(stage(runs=2)),
        f"""{AT_WORK}
        > pause machine_shutdown
        ? execute plan 1 attempt 1
        > pause lunch
        ? execute plan 1 attempt 1
        > completed
        < session_paused lunch
        """,
    )


def test_a_shutdown_that_killed_the_engine_is_over_when_the_run_is_recovered() -> None:
    play(
        plan_of(stage(runs=2)),
        f"""{AT_WORK}
        > pause machine_shutdown
        ? execute plan 1 attempt 1
        > recover
        ? execute plan 1 attempt 1
        > completed
        ? prepare plan 2
        = running
        """,
    )
