"""Playbooks of judgment stages: when the judge is asked, what its word counts, what its failures cost."""

import pytest
from tests.engine.plans import block, plan_of, stage
from tests.engine.playbook import Play, play

from agentforge.engine.rehearsal.rehearse import rehearse
from agentforge.model import facts as f
from agentforge.model.plan import Judgment, Plan

START = """
    > start
    < node_start plan
    ? prepare plan 1
"""
CONSENSUS = "Consensus reached: {} consecutive agents agree to stop Reason: nothing new"


def judged(max_iterations: int = 9, min_iterations: int | None = 1, consensus: int | None = 1) -> Plan:
    return plan_of(stage(termination=Judgment(max_iterations, min_iterations, consensus)))


def begin(number: int) -> str:
    """The world prepares the iteration, and its agent is begun."""
    return f"""
        > prepared
        < attempt_start 1
        ? execute plan {number} attempt 1
    """


def asked(number: int) -> str:
    """The iteration is complete, and the judge is asked about it."""
    return f"""{begin(number)}
        > completed
        < judge_start 1
        ? judge plan {number} attempt 1
    """


def not_asked(number: int) -> str:
    return f"""{begin(number)}
        > completed
        ? prepare plan {number + 1}
    """


def continues(number: int, words: str = "continue more to find") -> str:
    return f"""{asked(number)}
        > judged {words}
        ? prepare plan {number + 1}
    """


def ended(reason: str) -> str:
    return f"""
        < node_complete plan: {reason}
        < session_complete all_loops_complete
        = completed
    """


def failures(conversation: Play) -> int:
    assert conversation.state is not None
    assert conversation.state.node is not None
    return conversation.state.node.judge_failures


def test_stop_verdict_ends_the_stage_with_its_reason() -> None:
    conversation = play(
        judged(), f"{START}{continues(1)}{asked(2)}\n> judged stop nothing new\n{ended(CONSENSUS.format(1))}"
    )
    assert conversation.state is not None
    (record,) = conversation.state.stages
    assert record.reason.splitlines() == [
        "Consensus reached: 1 consecutive agents agree to stop",
        "  Reason: nothing new",
    ]
    assert record.iterations == 2


def test_judge_is_first_called_after_min_iterations() -> None:
    script = f"{START}{not_asked(1)}{not_asked(2)}{asked(3)}\n> judged stop nothing new"
    play(judged(min_iterations=3), script + ended(CONSENSUS.format(1)))


@pytest.mark.parametrize("min_iterations", [None, 0, 1])
def test_judge_is_called_from_the_first_iteration_without_min_iterations(
    min_iterations: int | None,
) -> None:
    play(judged(min_iterations=min_iterations), f"{START}{asked(1)}")


def test_consensus_requires_consecutive_stops() -> None:
    script = (
        START
        + continues(1, "stop nothing new")
        + continues(2, "continue")
        + continues(3, "stop nothing new")
        + continues(4, "stop nothing new")
        + asked(5)
    )
    play(judged(consensus=3), f"{script}\n> judged stop nothing new\n{ended(CONSENSUS.format(3))}")


def test_consensus_of_two_is_the_default() -> None:
    script = f"{START}{continues(1, 'stop nothing new')}{asked(2)}\n> judged stop nothing new"
    play(judged(consensus=None), script + ended(CONSENSUS.format(2)))


def test_agent_stop_does_not_end_a_judgment_stage() -> None:
    play(
        judged(),
        f"""{START}{begin(1)}
        > completed stop
        < judge_start 1
        ? judge plan 1 attempt 1
        > judged continue not yet
        ? prepare plan 2
        """,
    )


def test_agent_that_reports_an_error_ends_a_judgment_stage_at_once() -> None:
    play(judged(), f"{START}{begin(1)}\n> error agent_error\n< session_failed agent_error\n= failed")


def test_judgment_stage_ends_at_max_regardless_of_the_judge() -> None:
    play(
        judged(max_iterations=2),
        f"{START}{continues(1)}{asked(2)}\n> judged continue{ended('max_iterations')}",
    )


def test_stop_at_the_very_last_iteration_is_a_consensus_and_not_the_maximum() -> None:
    script = f"{START}{continues(1)}{asked(2)}\n> judged stop nothing new"
    play(judged(max_iterations=2), script + ended(CONSENSUS.format(1)))


def test_judge_is_called_before_the_delay_starts() -> None:
    play(
        plan_of(stage(termination=Judgment(9, 1, 1), delay=7)),
        f"""{START}{asked(1)}
        @ 3
        > judged continue
        < delay_start in 4s
        ? wait delay 4s
        > fired delay
        ? prepare plan 2
        """,
    )


# -- a judge that fails


def test_failed_judge_call_is_retried_once() -> None:
    conversation = play(
        judged(),
        f"""{START}{asked(1)}
        > judged failed invoke_failed
        < judge_start 2
        ? judge plan 1 attempt 2
        > judged continue
        ? prepare plan 2
        """,
    )
    assert failures(conversation) == 0


def test_judge_call_failing_twice_counts_as_one_failure_and_the_stage_continues() -> None:
    conversation = play(
        judged(),
        f"""{START}{asked(1)}
        > judged failed invoke_failed
        < judge_start 2
        ? judge plan 1 attempt 2
        > judged failed invoke_failed
        ? prepare plan 2
        """,
    )
    assert failures(conversation) == 1


def test_answer_that_is_not_json_is_not_retried() -> None:
    conversation = play(judged(), f"{START}{continues(1, 'failed invalid_json')}")
    assert failures(conversation) == 1


def test_third_failure_in_a_row_is_retried_before_the_judge_is_skipped() -> None:
    broken = "".join(continues(number, "failed invalid_json") for number in (1, 2))
    play(
        judged(),
        f"""{START}{broken}{asked(3)}
        > judged failed invoke_failed
        < judge_start 2
        ? judge plan 3 attempt 2
        """,
    )


def test_retry_of_the_judge_that_is_lost_is_retried() -> None:
    conversation = play(
        judged(),
        f"""{START}{asked(1)}
        > judged failed invoke_failed
        < judge_start 2
        ? judge plan 1 attempt 2
        > recover
        ? judge plan 1 attempt 2
        > judge-lost
        < judge_start 3
        ? judge plan 1 attempt 3
        > judged failed invoke_failed
        ? prepare plan 2
        """,
    )
    assert failures(conversation) == 1


def test_judge_that_failed_three_times_in_a_row_is_skipped_as_unreliable() -> None:
    broken = "".join(continues(number, "failed invalid_json") for number in (1, 2, 3))
    conversation = play(
        judged(),
        f"""{START}{broken}{begin(4)}
        > completed
        < judge_complete skipped judge_unreliable
        ? prepare plan 5
        {begin(5)}
        > completed
        < judge_complete skipped judge_unreliable
        ? prepare plan 6
        """,
    )
    skipped = [e.fact for e in conversation.events if isinstance(e.fact, f.JudgeCompleted)][-1]
    assert skipped.result == f.JudgeResult(stop=False, reason="judge_unreliable")
    assert failures(conversation) == 3, "skipping the judge is not a failure"
    assert rehearse(judged(), conversation.events).is_same
    assert not rehearse(judged(max_iterations=3), conversation.events).is_same


def test_skipped_judge_never_fails_the_stage_which_ends_at_its_maximum() -> None:
    broken = "".join(continues(number, "failed invalid_json") for number in (1, 2, 3))
    play(
        judged(max_iterations=4),
        f"""{START}{broken}{begin(4)}
        > completed
        < judge_complete skipped judge_unreliable
        {ended("max_iterations")}
        """,
    )


def test_successful_judgment_resets_the_failure_count() -> None:
    words = ("failed invalid_json", "failed invalid_json", "continue", "failed invalid_json")
    script = "".join(continues(number, said) for number, said in enumerate(words, 1))
    assert failures(play(judged(), START + script)) == 1


def test_failed_judge_means_neither_stop_nor_continue() -> None:
    """The stop before it and the stop after it are in a row."""
    script = START + continues(1, "stop nothing new") + continues(2, "failed invalid_json") + asked(3)
    play(judged(consensus=2), f"{script}\n> judged stop nothing new\n{ended(CONSENSUS.format(2))}")


def test_counters_of_the_judge_persist_through_pause_resume_and_recovery() -> None:
    conversation = play(
        judged(consensus=2),
        f"""{START}{continues(1, "stop nothing new")}{continues(2, "failed invalid_json")}
        > pause lunch
        < session_paused lunch
        > resume
        ? prepare plan 3
        > recover
        ? prepare plan 3
        """,
    )
    assert conversation.state is not None
    assert conversation.state.node is not None
    assert (conversation.state.node.stops, failures(conversation)) == (1, 1)


def test_skipped_judge_stays_skipped_after_a_resume() -> None:
    broken = "".join(continues(number, "failed invalid_json") for number in (1, 2, 3))
    play(
        judged(),
        f"""{START}{broken}
        > pause lunch
        < session_paused lunch
        > resume
        ? prepare plan 4
        {begin(4)}
        > completed
        < judge_complete skipped judge_unreliable
        ? prepare plan 5
        """,
    )


def test_judge_failures_are_counted_per_stage() -> None:
    two = plan_of(stage("plan", termination=Judgment(3, 1, 1)), stage("build", termination=Judgment(3, 1, 1)))
    broken = "".join(continues(number, "failed invalid_json") for number in (1, 2))
    conversation = play(
        two,
        f"""{START}{broken}{asked(3)}
        > judged failed invalid_json
        < node_complete plan: max_iterations
        < node_start build
        ? prepare build 1
        > prepared
        < attempt_start 1
        ? execute build 1 attempt 1
        > completed
        < judge_start 1
        ? judge build 1 attempt 1
        """,
    )
    assert failures(conversation) == 0


# -- crashes and stops while the judge is at it


def test_recovery_reattaches_to_the_running_judge() -> None:
    play(
        judged(),
        f"{START}{asked(1)}\n> recover\n? judge plan 1 attempt 1\n> judged continue\n? prepare plan 2",
    )


def test_judge_lost_with_the_engine_is_retried_without_counting_a_failure() -> None:
    conversation = play(
        judged(),
        f"""{START}{asked(1)}
        > recover
        ? judge plan 1 attempt 1
        > judge-lost
        < judge_start 2
        ? judge plan 1 attempt 2
        > judged failed invoke_failed
        < judge_start 3
        ? judge plan 1 attempt 3
        > judged continue
        ? prepare plan 2
        """,
    )
    assert failures(conversation) == 0


def test_engine_dying_repeatedly_during_judgment_asks_a_person() -> None:
    play(
        judged(),
        f"""{START}{asked(1)}
        > recover
        ? judge plan 1 attempt 1
        > recover
        ? judge plan 1 attempt 1
        > recover
        ? judge plan 1 attempt 1
        > judge-lost
        < request_opened recoveries_without_progress-11
        < session_paused recoveries_without_progress
        > resume
        < request_resolved recoveries_without_progress-11 reset
        < judge_start 2
        ? judge plan 1 attempt 2
        """,
    )


def test_pause_waits_for_the_running_judge() -> None:
    play(
        judged(),
        f"""{START}{asked(1)}
        > pause lunch
        ? judge plan 1 attempt 1
        > judged continue
        < session_paused lunch
        > resume
        ? prepare plan 2
        """,
    )


def test_pause_does_not_start_a_judge() -> None:
    play(
        judged(),
        f"""{START}{begin(1)}
        > pause lunch
        ? execute plan 1 attempt 1
        > completed
        < session_paused lunch
        > resume
        < judge_start 1
        ? judge plan 1 attempt 1
        """,
    )


def test_pause_now_ends_the_judge_and_a_resume_asks_it_again() -> None:
    play(
        judged(),
        f"""{START}{asked(1)}
        > pause lunch now
        < judge_ending 1
        ? end judge plan 1 attempt 1
        > judge-lost
        < session_paused lunch
        > resume
        < judge_start 2
        ? judge plan 1 attempt 2
        """,
    )


def test_judge_that_answered_while_being_stopped_counts() -> None:
    play(
        judged(),
        f"""{START}{asked(1)}
        > pause lunch now
        < judge_ending 1
        ? end judge plan 1 attempt 1
        > judged continue
        < session_paused lunch
        > resume
        ? prepare plan 2
        """,
    )


def test_cancel_stops_the_judge_even_with_another_engine() -> None:
    play(
        judged(),
        f"""{START}{asked(1)}
        > cancel enough
        < judge_ending 1
        ? end judge plan 1 attempt 1
        > recover
        ? end judge plan 1 attempt 1
        > judge-lost
        < session_aborted enough
        = aborted
        """,
    )


def test_grace_of_a_pause_ends_the_judge_too() -> None:
    play(
        judged(),
        f"""{START}{asked(1)}
        > pause lunch grace=30
        ? judge plan 1 attempt 1
        ? wait stop 30s
        > fired stop
        < judge_ending 1
        ? end judge plan 1 attempt 1
        """,
    )


# -- plateau test mode, branches


def test_plateau_test_mode_uses_the_agents_signal_instead_of_a_judge() -> None:
    conversation = play(
        judged(consensus=2),
        f"""{START.replace("> start", "> start plateau_test")}{begin(1)}
        > completed plateau
        ? prepare plan 2
        {begin(2)}
        > completed
        ? prepare plan 3
        {begin(3)}
        > completed plateau
        ? prepare plan 4
        {begin(4)}
        > completed plateau
        < node_complete plan: Consensus reached: 2 consecutive agents agree to stop
        < session_complete all_loops_complete
        = completed
        """,
    )
    assert "judge_start" not in [event.fact.TYPE for event in conversation.events]


def test_plateau_test_mode_minds_min_iterations() -> None:
    play(
        judged(min_iterations=2, consensus=1),
        f"""{START.replace("> start", "> start plateau_test")}{begin(1)}
        > completed plateau
        ? prepare plan 2
        {begin(2)}
        > completed plateau
        < node_complete plan: Consensus reached: 1 consecutive agents agree to stop
        < session_complete all_loops_complete
        """,
    )


def test_suspected_plateaus_are_ignored_without_plateau_test_mode() -> None:
    play(judged(), f"{START}{begin(1)}\n> completed plateau\n< judge_start 1\n? judge plan 1 attempt 1")


def test_each_branch_of_a_block_has_its_own_judge_and_counters() -> None:
    conversation = play(
        plan_of(block("claude codex", stage("draft", termination=Judgment(3, 1, 1)))),
        """
        > start
        < node_start duel
        < claude: parallel_provider_start
        < codex: parallel_provider_start
        ? claude: prepare draft 1
        ? codex: prepare draft 1
        > claude: prepared
        < claude: attempt_start 1
        ? claude: execute draft 1 attempt 1
        ? codex: prepare draft 1
        > codex: prepared
        < codex: attempt_start 1
        ? claude: execute draft 1 attempt 1
        ? codex: execute draft 1 attempt 1
        > claude: completed
        < claude: judge_start 1
        ? claude: judge draft 1 attempt 1
        ? codex: execute draft 1 attempt 1
        > codex: completed
        < codex: judge_start 1
        ? claude: judge draft 1 attempt 1
        ? codex: judge draft 1 attempt 1
        > codex: judged failed invalid_json
        ? claude: judge draft 1 attempt 1
        ? codex: prepare draft 2
        > claude: judged stop enough
        < claude: stage_complete draft: Consensus reached: 1 consecutive agents agree to stop Reason: enough
        < claude: parallel_provider_complete completed
        ? codex: prepare draft 2
        """,
    )
    assert conversation.state is not None
    codex = conversation.state.stage("codex")
    assert codex is not None
    assert (codex.judge_failures, codex.stops) == (1, 0)
