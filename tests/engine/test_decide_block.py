"""Playbooks of parallel blocks: each provider goes its own way, the block waits for all of them."""

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, plan_of, stage
from tests.engine.playbook import Play, play

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.plan import RetryPolicy
from agentforge.model.status import NodeStatus

DUEL = plan_of(block("claude codex", stage("draft", runs=2), stage("check")), stage("merge"))
QUICK = plan_of(block("claude codex", stage("draft", retry=RetryPolicy(max_attempts=1))), stage("merge"))

BEGIN = """
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
"""
CLAUDE_IS_DONE = """
    > claude: completed
    < claude: stage_complete draft: Completed 1 iterations (max: 1)
    < claude: parallel_provider_complete completed
    ? codex: execute draft 1 attempt 1
"""


def types(conversation: Play) -> list[str]:
    return [event.fact.TYPE for event in conversation.events]


def statuses(conversation: Play) -> list[str]:
    assert conversation.state is not None
    assert conversation.state.block is not None
    return [branch.status.value for branch in conversation.state.block.branches]


def test_providers_run_at_once_and_their_stages_one_after_another() -> None:
    conversation = play(
        DUEL,
        f"""{BEGIN}
        > claude: completed
        ? claude: prepare draft 2
        ? codex: execute draft 1 attempt 1
        > claude: prepared
        < claude: attempt_start 1
        ? claude: execute draft 2 attempt 1
        ? codex: execute draft 1 attempt 1
        > claude: completed
        < claude: stage_complete draft: Completed 2 iterations (max: 2)
        ? claude: prepare check 1
        ? codex: execute draft 1 attempt 1
        > claude: prepared
        < claude: attempt_start 1
        ? claude: execute check 1 attempt 1
        ? codex: execute draft 1 attempt 1
        > claude: completed
        < claude: stage_complete check: Completed 1 iterations (max: 1)
        < claude: parallel_provider_complete completed
        ? codex: execute draft 1 attempt 1
        > codex: completed stop
        < codex: stage_complete draft: Agent requested stop at iteration 1
        ? codex: prepare check 1
        > codex: prepared
        < codex: attempt_start 1
        ? codex: execute check 1 attempt 1
        > codex: completed
        < codex: stage_complete check: Completed 1 iterations (max: 1)
        < codex: parallel_provider_complete completed
        ? manifest duel
        > manifest
        < node_complete duel: all providers complete
        < node_start merge
        ? prepare merge 1
        = running
        """,
    )
    assert conversation.state is not None
    (record,) = conversation.state.stages
    assert (record.name, record.path, record.iterations) == ("duel", "0", 5)
    assert conversation.state.block is None


def test_events_of_a_branch_carry_its_provider_and_the_path_of_its_stage() -> None:
    conversation = play(DUEL, BEGIN)
    cursors = {event.fact.TYPE: event.cursor for event in conversation.events}
    assert cursors["node_start"] == Cursor("0", 1, 0)
    assert cursors["parallel_provider_start"] == Cursor("0", 1, 0, "codex")
    assert cursors["iteration_start"] == Cursor("0.0", 1, 1, "codex")
    assert cursors["attempt_start"] == Cursor("0.0", 1, 1, "codex")


def test_block_that_is_entered_names_its_providers_and_stages() -> None:
    entered = play(DUEL, BEGIN).events[1].fact
    assert isinstance(entered, f.NodeStarted)
    assert (entered.kind, entered.providers, entered.stages, entered.path, entered.folder) == (
        "parallel",
        ("claude", "codex"),
        ("draft", "check"),
        "0",
        "parallel-00-duel",
    )


def test_block_waits_for_a_slow_branch_but_other_branches_do_not() -> None:
    play(
        plan_of(block("a b c", stage("draft"))),
        """
        > start
        < node_start duel
        < a: parallel_provider_start
        < b: parallel_provider_start
        < c: parallel_provider_start
        ? a: prepare draft 1
        ? b: prepare draft 1
        ? c: prepare draft 1
        > b: prepared
        < b: attempt_start 1
        ? a: prepare draft 1
        ? b: execute draft 1 attempt 1
        ? c: prepare draft 1
        > c: prepared
        < c: attempt_start 1
        ? a: prepare draft 1
        ? b: execute draft 1 attempt 1
        ? c: execute draft 1 attempt 1
        @ 3600
        > c: completed
        < c: stage_complete draft: Completed 1 iterations (max: 1)
        < c: parallel_provider_complete completed
        ? a: prepare draft 1
        ? b: execute draft 1 attempt 1
        > b: completed
        < b: stage_complete draft: Completed 1 iterations (max: 1)
        < b: parallel_provider_complete completed
        ? a: prepare draft 1
        > a: prepared
        < a: attempt_start 1
        ? a: execute draft 1 attempt 1
        > a: completed
        < a: stage_complete draft: Completed 1 iterations (max: 1)
        < a: parallel_provider_complete completed
        ? manifest duel
        > manifest
        < node_complete duel: all providers complete
        < session_complete all_loops_complete
        = completed
        """,
    )


def test_branch_failing_after_its_retries_fails_the_block_after_the_others() -> None:
    conversation = play(
        plan_of(block("claude codex", stage("draft")), stage("merge")),
        f"""{BEGIN}
        > codex: error provider_crashed
        < codex: retry_scheduled 2/2 in 2s
        ? claude: execute draft 1 attempt 1
        ? codex: wait retry 2s
        > codex: fired retry
        < codex: attempt_start 2
        ? claude: execute draft 1 attempt 1
        ? codex: execute draft 1 attempt 2
        > codex: error provider_crashed
        < codex: parallel_provider_complete failed
        ? claude: execute draft 1 attempt 1
        = running
        > claude: completed
        < claude: stage_complete draft: Completed 1 iterations (max: 1)
        < claude: parallel_provider_complete completed
        < session_failed parallel_block_failed
        = failed
        """,
    )
    assert "manifest_written" not in types(conversation), "a manifest is of a block that succeeded"
    failed = conversation.events[-1].fact
    assert isinstance(failed, f.SessionFailed)
    assert failed.message == ("Parallel block 'duel' failed. Failed providers: codex: draft: it went wrong")
    assert failed.stage == "duel"


@pytest.mark.parametrize(
    ("codex", "kind"),
    [("iteration_timeout", "iteration_timeout"), ("provider_crashed", "parallel_block_failed")],
)
def test_block_fails_with_a_timeout_if_that_ended_all_branches_that_failed(codex: str, kind: str) -> None:
    once = RetryPolicy(max_attempts=1)
    play(
        plan_of(block("claude codex", stage("draft", retry=once))),
        f"""{BEGIN}
        > claude: error iteration_timeout
        < claude: parallel_provider_complete failed
        ? codex: execute draft 1 attempt 1
        > codex: error {codex}
        < codex: parallel_provider_complete failed
        < session_failed {kind}
        """,
    )


def test_resume_skips_completed_providers_and_continues_the_failed_one() -> None:
    conversation = play(
        DUEL,
        f"""{BEGIN}
        > codex: completed
        ? claude: execute draft 1 attempt 1
        ? codex: prepare draft 2
        > codex: prepared
        < codex: attempt_start 1
        ? claude: execute draft 1 attempt 1
        ? codex: execute draft 2 attempt 1
        > codex: error result_invalid
        < codex: parallel_provider_complete failed
        ? claude: execute draft 1 attempt 1
        > claude: completed stop
        < claude: stage_complete draft: Agent requested stop at iteration 1
        ? claude: prepare check 1
        > claude: prepared
        < claude: attempt_start 1
        ? claude: execute check 1 attempt 1
        > claude: completed
        < claude: stage_complete check: Completed 1 iterations (max: 1)
        < claude: parallel_provider_complete completed
        < session_failed parallel_block_failed
        = failed
        @ 60
        > resume
        < codex: attempt_start 2
        ? codex: execute draft 2 attempt 2
        = running
        > codex: completed
        < codex: stage_complete draft: Completed 2 iterations (max: 2)
        ? codex: prepare check 1
        > codex: prepared
        < codex: attempt_start 1
        ? codex: execute check 1 attempt 1
        > codex: completed
        < codex: stage_complete check: Completed 1 iterations (max: 1)
        < codex: parallel_provider_complete completed
        ? manifest duel
        """,
    )
    assert statuses(conversation) == ["completed", "completed"]
    assert types(conversation).count("parallel_provider_start") == 2


def test_all_failed_branches_are_named_and_continue_after_a_resume() -> None:
    conversation = play(
        QUICK,
        f"""{BEGIN}
        > codex: error result_invalid
        < codex: parallel_provider_complete failed
        ? claude: execute draft 1 attempt 1
        > claude: error agent_error
        < claude: parallel_provider_complete failed
        < session_failed parallel_block_failed
        > resume
        < claude: attempt_start 2
        < codex: attempt_start 2
        ? claude: execute draft 1 attempt 2
        ? codex: execute draft 1 attempt 2
        """,
    )
    failed = next(e.fact for e in conversation.events if isinstance(e.fact, f.SessionFailed))
    assert "claude: draft: it went wrong; codex: draft: it went wrong" in failed.message


def test_branch_whose_prompt_cannot_be_read_fails_alone() -> None:
    play(
        plan_of(block("claude codex", stage("draft"))),
        """
        > start
        < node_start duel
        < claude: parallel_provider_start
        < codex: parallel_provider_start
        ? claude: prepare draft 1
        ? codex: prepare draft 1
        > codex: unprepared
        < codex: parallel_provider_complete failed
        ? claude: prepare draft 1
        > claude: prepared
        < claude: attempt_start 1
        ? claude: execute draft 1 attempt 1
        > claude: completed
        < claude: stage_complete draft: Completed 1 iterations (max: 1)
        < claude: parallel_provider_complete completed
        < session_failed parallel_block_failed
        > resume
        ? codex: prepare draft 1
        """,
    )


def test_manifest_is_written_after_all_providers_and_again_if_not_recorded() -> None:
    play(
        QUICK,
        f"""{BEGIN}{CLAUDE_IS_DONE}
        > codex: completed
        < codex: stage_complete draft: Completed 1 iterations (max: 1)
        < codex: parallel_provider_complete completed
        ? manifest duel
        > recover
        ? manifest duel
        > manifest
        < node_complete duel: all providers complete
        < node_start merge
        ? prepare merge 1
        """,
    )


def test_delays_and_retries_of_the_branches_do_not_disturb_each_other() -> None:
    play(
        plan_of(block("claude codex", stage("draft", runs=2, delay=9))),
        f"""{BEGIN}
        > claude: completed
        < claude: delay_start in 9s
        ? claude: wait delay 9s
        ? codex: execute draft 1 attempt 1
        > codex: error provider_timeout
        < codex: retry_scheduled 2/2 in 2s
        ? claude: wait delay 9s
        ? codex: wait retry 2s
        > codex: fired retry
        < codex: attempt_start 2
        ? claude: wait delay 7s
        ? codex: execute draft 1 attempt 2
        > claude: fired delay
        ? claude: prepare draft 2
        ? codex: execute draft 1 attempt 2
        """,
    )


def test_failure_of_a_branch_costs_the_others_no_attempt() -> None:
    conversation = play(
        QUICK,
        f"""{BEGIN}
        > codex: error provider_crashed
        < codex: parallel_provider_complete failed
        ? claude: execute draft 1 attempt 1
        """,
    )
    assert conversation.state is not None
    stage = conversation.state.stage("claude")
    assert stage is not None
    assert stage.iteration is not None
    assert stage.iteration.failures == ()
    assert statuses(conversation) == ["running", "failed"]


# -- pause, cancel, recovery


def test_pause_waits_for_the_current_iteration_of_all_providers() -> None:
    play(
        DUEL,
        f"""{BEGIN}
        > pause lunch
        ? claude: execute draft 1 attempt 1
        ? codex: execute draft 1 attempt 1
        > codex: completed
        ? claude: execute draft 1 attempt 1
        = running
        > claude: completed
        < session_paused lunch
        = paused
        > resume
        ? claude: prepare draft 2
        ? codex: prepare draft 2
        """,
    )


def test_pause_stops_running_agents_after_the_grace() -> None:
    play(
        DUEL,
        f"""{BEGIN}
        > pause lunch grace=30
        ? claude: execute draft 1 attempt 1
        ? codex: execute draft 1 attempt 1
        ? wait stop 30s
        > codex: completed
        ? claude: execute draft 1 attempt 1
        ? wait stop 30s
        > fired stop
        < claude: attempt_ending 1
        ? claude: end draft 1 attempt 1
        > claude: cancelled
        < session_paused lunch
        > resume
        < claude: attempt_start 2
        ? claude: execute draft 1 attempt 2
        ? codex: prepare draft 2
        """,
    )


def test_pause_now_ends_the_agents_of_all_branches() -> None:
    play(
        DUEL,
        f"""{BEGIN}
        > pause lunch now
        < claude: attempt_ending 1
        < codex: attempt_ending 1
        ? claude: end draft 1 attempt 1
        ? codex: end draft 1 attempt 1
        > codex: cancelled
        ? claude: end draft 1 attempt 1
        > claude: completed
        < session_paused lunch
        > resume
        < codex: attempt_start 2
        ? claude: prepare draft 2
        ? codex: execute draft 1 attempt 2
        """,
    )


def test_pause_while_one_branch_waits_for_a_retry_applies_after_the_other_finishes() -> None:
    play(
        DUEL,
        f"""{BEGIN}
        > codex: error provider_timeout
        < codex: retry_scheduled 2/2 in 2s
        ? claude: execute draft 1 attempt 1
        ? codex: wait retry 2s
        > pause lunch
        ? claude: execute draft 1 attempt 1
        > claude: completed
        < session_paused lunch
        > resume
        < codex: attempt_start 2
        ? claude: prepare draft 2
        ? codex: execute draft 1 attempt 2
        """,
    )


def test_cancel_ends_the_agents_of_all_branches_and_is_final() -> None:
    conversation = play(
        QUICK,
        f"""{BEGIN}{CLAUDE_IS_DONE}
        > cancel enough
        < codex: attempt_ending 1
        ? codex: end draft 1 attempt 1
        > recover
        ? codex: end draft 1 attempt 1
        > codex: cancelled
        < session_aborted enough
        = aborted
        """,
    )
    assert "manifest_written" not in types(conversation)


def test_recovery_continues_every_branch_where_it_was() -> None:
    play(
        DUEL,
        f"""{BEGIN}
        > claude: completed
        ? claude: prepare draft 2
        ? codex: execute draft 1 attempt 1
        > recover
        ? claude: prepare draft 2
        ? codex: execute draft 1 attempt 1
        > codex: reattached
        ? claude: prepare draft 2
        ? codex: execute draft 1 attempt 1
        > codex: lost
        < codex: attempt_start 2
        ? claude: prepare draft 2
        ? codex: execute draft 1 attempt 2
        """,
    )


def test_branch_asks_at_once_while_the_others_continue() -> None:
    conversation = play(
        QUICK,
        f"""{BEGIN}
        > codex: lost
        < codex: attempt_start 2
        ? claude: execute draft 1 attempt 1
        ? codex: execute draft 1 attempt 2
        > codex: lost
        < codex: attempt_start 3
        ? claude: execute draft 1 attempt 1
        ? codex: execute draft 1 attempt 3
        > codex: lost
        < codex: request_opened attempts_lost-14
        ? claude: execute draft 1 attempt 1
        = running
        > claude: completed
        < claude: stage_complete draft: Completed 1 iterations (max: 1)
        < claude: parallel_provider_complete completed
        < session_paused attempts_lost
        = paused
        > resume
        < codex: request_resolved attempts_lost-14 reset
        < codex: attempt_start 4
        ? codex: execute draft 1 attempt 4
        """,
    )
    opened = next(e.fact for e in conversation.events if isinstance(e.fact, f.RequestOpened))
    assert "3 attempts at iteration 1 of stage 'draft' were lost" in opened.question


def test_runtime_limit_opens_one_request_for_all_branches() -> None:
    play(
        plan_of(block("claude codex", stage("draft", runs=2)), max_runtime=100),
        f"""{BEGIN.replace("attempt_start 1", "attempt_start 1 timeout=100")}
        @ 100
        > claude: completed
        < claude: request_opened runtime_limit-10
        ? codex: execute draft 1 attempt 1
        > codex: completed
        < session_paused runtime_limit
        > resume
        < claude: request_resolved runtime_limit-10 reset
        ? claude: prepare draft 2
        ? codex: prepare draft 2
        """,
    )


def test_progress_in_any_branch_ends_the_count_of_recoveries() -> None:
    conversation = play(
        DUEL,
        f"""{BEGIN}
        > recover
        ? claude: execute draft 1 attempt 1
        ? codex: execute draft 1 attempt 1
        > recover
        ? claude: execute draft 1 attempt 1
        ? codex: execute draft 1 attempt 1
        > claude: completed
        ? claude: prepare draft 2
        ? codex: execute draft 1 attempt 1
        """,
    )
    assert conversation.state is not None
    assert conversation.state.recoveries == 0


def test_branch_state_of_the_plan_s_providers_only() -> None:
    """What a damaged log says of providers that the plan doesn't have is left out."""
    conversation = play(DUEL, BEGIN)
    assert conversation.state is not None
    assert conversation.state.block is not None
    codex = conversation.state.block.branches[1]
    stranger = replace(codex, provider="nobody", status=NodeStatus.FAILED)
    block_state = replace(conversation.state.block, branches=(stranger, codex))
    conversation.state = replace(conversation.state, at=block_state)
    assert conversation.answer() == [
        "< claude: parallel_provider_start",
        "? claude: prepare draft 1",
        "? codex: execute draft 1 attempt 1",
    ]
