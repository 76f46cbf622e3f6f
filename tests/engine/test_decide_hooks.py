"""Playbooks of hooks: at every point, with every answer, failing, lost, and after a restart."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, RUN_ID, block, nested, plan_of, stage
from tests.engine.playbook import Play, play

from agentforge.engine.decide.hooks import grant_limit
from agentforge.engine.legal import refuse_illegal
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.condition import ConstantTerm, Operation, VariableTerm
from agentforge.model.cursor import Cursor
from agentforge.model.errors import IllegalMove
from agentforge.model.hook import Hook, HookPoint, delivery_id
from agentforge.model.plan import Approval, Judgment, Plan, RetryPolicy, SandboxChoice
from agentforge.model.request import Request
from agentforge.model.spending import Amount
from agentforge.model.state import RunState
from agentforge.model.task import HookTask, QueueTask


def hook(point: HookPoint, id: str = "h", action: Any = "call", **changes: Any) -> Hook:
    return Hook(id, point, action, **changes)


def one(*hooks: Hook, runs: int = 1) -> Plan:
    return plan_of(stage(runs=runs), hooks=hooks)


def state_of(conversation: Play) -> RunState:
    assert conversation.state is not None
    return conversation.state


def task_of(conversation: Play) -> HookTask:
    return next(work for work in conversation.work if isinstance(work, HookTask))


BEGIN = """
    > start
    < node_start plan
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
"""
STOPPED = """
    < node_complete plan: Agent requested stop at iteration 1
    < session_complete all_loops_complete
    = completed
"""


# -- points


def test_hooks_of_every_point_of_a_run_are_called_in_order() -> None:
    points: list[HookPoint] = [
        "session_start",
        "session_end",
        "stage_start",
        "stage_end",
        "iteration_start",
        "iteration_end",
    ]
    conversation = play(
        plan_of(stage(runs=2), hooks=tuple(hook(point, point) for point in points)),
        """
        > start
        < hook_start session_start 1
        ? hook session_start 1
        > hook continue
        < node_start plan
        < hook_start stage_start 1
        ? hook stage_start 1
        > hook continue
        < hook_start iteration_start 1
        ? hook iteration_start 1
        > hook continue
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        > completed
        < hook_start iteration_end 1
        ? hook iteration_end 1
        > hook continue
        < hook_start iteration_start 1
        ? hook iteration_start 1
        > hook continue
        ? prepare plan 2
        > prepared
        < attempt_start 1
        ? execute plan 2 attempt 1
        > completed
        < hook_start iteration_end 1
        ? hook iteration_end 1
        > hook continue
        < hook_start stage_end 1
        ? hook stage_end 1
        > hook continue
        < node_complete plan: Completed 2 iterations (max: 2)
        < hook_start session_end 1
        ? hook session_end 1
        > hook continue
        < session_complete all_loops_complete
        = completed
        """,
    )
    deliveries = [e.fact.delivery for e in conversation.events if isinstance(e.fact, f.HookStarted)]
    assert len(set(deliveries)) == len(deliveries) == 8


def test_several_hooks_per_point_execute_in_registration_order_files_first() -> None:
    hooks = (hook("stage_start", "sdk"), hook("stage_start", "file", "script"), hook("stage_start", "sdk-2"))
    play(
        one(*hooks),
        """
        > start
        < node_start plan
        < hook_start file 1
        ? hook file 1
        > hook continue
        < hook_start sdk 1
        ? hook sdk 1
        > hook continue
        < hook_start sdk-2 1
        ? hook sdk-2 1
        > hook continue
        ? prepare plan 1
        """,
    )


def test_hooks_apply_to_their_stage_and_hooks_of_outer_pipelines_come_first() -> None:
    inner = nested("polish", stage("refine"))
    inner = replace(inner, plan=plan_of(stage("refine"), hooks=(hook("stage_start", "inner"),)))
    hooks = (hook("stage_start", "outer"), hook("stage_start", "plan", stage="plan"))
    plan = plan_of(stage("plan"), inner, hooks=hooks)
    assert [h.id for h in plan.hooks("stage_start", "0")] == ["outer", "plan"]
    assert [h.id for h in plan.hooks("stage_start", "1.0")] == ["outer", "inner"]
    assert plan.hooks("stage_end", "0") == ()


def test_condition_decides_whether_a_hook_is_called() -> None:
    every_second = Operation(
        "==", (Operation("%", (VariableTerm("iteration"), ConstantTerm(2))), ConstantTerm(0))
    )
    play(
        one(hook("iteration_end", condition=every_second), runs=3),
        f"""{BEGIN}
        > completed
        ? prepare plan 2
        > prepared
        < attempt_start 1
        ? execute plan 2 attempt 1
        > completed
        < hook_start h 1
        ? hook h 1
        """,
    )


def test_condition_without_a_value_skips_the_hook() -> None:
    broken = Operation("%", (VariableTerm("iteration"), ConstantTerm(0)))
    conversation = play(
        one(hook("iteration_end", condition=Operation("==", (broken, ConstantTerm(0)))), runs=2),
        f"""{BEGIN}
        > completed
        < hook_skipped h: its condition has no value: `iteration % 0` divides by zero
        ? prepare plan 2
        """,
    )
    assert [p.done for p in state_of(conversation).hooks] == [("h",)]


def test_block_and_its_branches_have_hooks() -> None:
    points: list[HookPoint] = [
        "stage_start",
        "stage_end",
        "parallel_provider_start",
        "parallel_provider_end",
    ]
    hooks = tuple(hook(point, point, "call", stage="duel") for point in points)
    conversation = play(
        plan_of(block("claude codex", stage("draft")), hooks=hooks),
        """
        > start
        < node_start duel
        < hook_start stage_start 1
        ? hook stage_start 1
        > hook continue
        < claude: parallel_provider_start
        < codex: parallel_provider_start
        < claude: hook_start parallel_provider_start 1
        < codex: hook_start parallel_provider_start 1
        ? claude: hook parallel_provider_start 1
        ? codex: hook parallel_provider_start 1
        > claude: hook continue
        ? claude: prepare draft 1
        ? codex: hook parallel_provider_start 1
        > codex: hook continue
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
        > claude: completed stop
        < claude: stage_complete draft: Agent requested stop at iteration 1
        < claude: hook_start parallel_provider_end 1
        ? claude: hook parallel_provider_end 1
        ? codex: execute draft 1 attempt 1
        > claude: hook continue
        < claude: parallel_provider_complete completed
        ? codex: execute draft 1 attempt 1
        > codex: completed stop
        < codex: stage_complete draft: Agent requested stop at iteration 1
        < codex: hook_start parallel_provider_end 1
        ? codex: hook parallel_provider_end 1
        > codex: hook continue
        < codex: parallel_provider_complete completed
        ? manifest duel
        > manifest
        < hook_start stage_end 1
        ? hook stage_end 1
        """,
    )
    assert task_of(conversation).name == "duel"


def test_failing_hook_of_a_branch_fails_the_branch() -> None:
    play(
        plan_of(
            block("claude codex", stage("draft")), hooks=(hook("parallel_provider_start", on_failure="fail"),)
        ),
        """
        > start
        < node_start duel
        < claude: parallel_provider_start
        < codex: parallel_provider_start
        < claude: hook_start h 1
        < codex: hook_start h 1
        ? claude: hook h 1
        ? codex: hook h 1
        > claude: hook failed
        < claude: parallel_provider_complete failed
        ? codex: hook h 1
        > codex: hook failed
        < codex: parallel_provider_complete failed
        < session_failed parallel_block_failed
        = failed
        > resume
        < claude: hook_start h 2
        < codex: hook_start h 2
        ? claude: hook h 2
        ? codex: hook h 2
        """,
    )


# -- answers


def test_hook_continue() -> None:
    play(
        one(hook("iteration_end")),
        f"""{BEGIN}
        > completed stop
        < hook_start h 1
        ? hook h 1
        > hook continue
        {STOPPED}
        """,
    )


def test_hook_modify_context_is_a_note_for_later_iterations() -> None:
    conversation = play(
        one(hook("iteration_end"), runs=2),
        f"""{BEGIN}
        > completed
        < hook_start h 1
        ? hook h 1
        > hook modify_context context=Shorter
        ? prepare plan 2
        """,
    )
    assert [(note.text, note.by) for note in state_of(conversation).notes] == [("Shorter", "hook h")]


PAUSED = f"""{BEGIN}
    > completed stop
    < hook_start h 1
    ? hook h 1
    > hook pause Look at it.
    < request_opened hook_pause-8
    < session_paused hook_pause
    = paused
"""


def test_hook_pause_opens_a_request_and_continue_ends_it() -> None:
    conversation = play(
        one(hook("iteration_end")),
        f"""{PAUSED}
        > answer hook_pause-8 continue
        < session_continued hook_pause-8
        < request_resolved hook_pause-8 continue
        {STOPPED}
        """,
    )
    asked = next(e.fact for e in conversation.events if isinstance(e.fact, f.RequestOpened))
    assert (asked.kind, asked.question, asked.options) == ("pause", "Look at it.", ("continue", "abort"))
    assert asked.subject == "h"


def test_hook_pause_answered_with_abort_cancels_the_run() -> None:
    play(
        one(hook("iteration_end")),
        f"""{PAUSED}
        > answer hook_pause-8 abort
        < session_continued hook_pause-8
        < cancel_requested answered by person
        < request_resolved hook_pause-8 cancel
        < session_aborted answered by person
        = aborted
        """,
    )


@pytest.mark.parametrize(("action", "reason"), [("pause", "hook_pause"), ("confirm", "hook_confirm")])
def test_hooks_that_ask_need_no_call(action: str, reason: str) -> None:
    conversation = play(
        one(hook("stage_end", action=action, message="All right?")),
        f"""{BEGIN}
        > completed stop
        < hook_start h 1
        < hook_complete h pause
        < request_opened {reason}-8
        < session_paused {reason}
        = paused
        > answer {reason}-8 continue
        < session_continued {reason}-8
        < request_resolved {reason}-8 continue
        {STOPPED}
        """,
    )
    asked = next(e.fact for e in conversation.events if isinstance(e.fact, f.RequestOpened))
    assert asked.question == "All right?"


def test_hook_abort_stops_the_run() -> None:
    play(
        one(hook("session_start")),
        """
        > start
        < hook_start h 1
        ? hook h 1
        > hook abort
        < cancel_requested hook h aborted the run
        < session_aborted hook h aborted the run
        = aborted
        """,
    )


def test_hook_restart_stage_starts_at_iteration_one_with_its_context() -> None:
    conversation = play(
        one(hook("iteration_end"), runs=2),
        f"""{BEGIN}
        > completed
        < hook_start h 1
        ? hook h 1
        > hook restart_stage Not good enough.
        < restart_requested hook h
        < node_restart plan requested round=1
        < node_start plan
        ? prepare plan 1
        """,
    )
    assert state_of(conversation).visits == {"0": 2}


@pytest.mark.parametrize(
    ("answer", "effect"),
    [("1", "granted"), ("retry", "continue"), ("resume", "reset"), ("accept", "accepted")],
)
def test_stage_that_hooks_start_over_too_often_is_asked_about(answer: str, effect: str) -> None:
    again = """
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        > completed
        < hook_start h 1
        ? hook h 1
        > hook restart_stage
    """
    restarts = """
        < restart_requested hook h
        < node_restart plan requested round=1
        < node_start plan
        ? prepare plan 1
    """
    script = "> start\n< node_start plan\n? prepare plan 1\n" + f"{again}{restarts}" * 10 + again
    conversation = Play(one(hook("iteration_end"), runs=2))
    asked = play(
        conversation.plan,
        f"""{script}
        < request_opened hook_restarts-88
        < session_paused hook_restarts
        = paused
        > answer hook_restarts-88 {answer}
        < session_continued hook_restarts-88
        < request_resolved hook_restarts-88 {effect}
        {restarts if answer != "accept" else "? prepare plan 2"}
        """,
    )
    assert state_of(asked).node is not None


@pytest.mark.parametrize(
    ("point", "said", "why"),
    [
        ("session_end", "pause", "`pause` is not possible at session_end"),
        ("session_end", "restart_stage", "`restart_stage` is only possible after an iteration of a stage"),
        ("session_end", "answer yes", "`answer` is only possible for a request"),
    ],
)
def test_answers_that_are_not_possible_at_a_point_are_skipped(point: HookPoint, said: str, why: str) -> None:
    play(
        one(hook(point)),
        f"""{BEGIN}
        > completed stop
        < node_complete plan: Agent requested stop at iteration 1
        < hook_start h 1
        ? hook h 1
        > hook {said}
        < hook_skipped h: {why}
        < session_complete all_loops_complete
        """,
    )


def test_stage_stays_over_while_its_hooks_are_called() -> None:
    """A resume resets the stops of a judge, which had ended the stage."""
    conversation = play(
        plan_of(stage(termination=Judgment(5, 1, 1)), hooks=(hook("stage_end", on_failure="fail"),)),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        > completed
        < judge_start 1
        ? judge plan 1 attempt 1
        > judged stop good
        < hook_start h 1
        ? hook h 1
        > hook failed
        < session_failed hook_failed
        = failed
        > resume
        < hook_start h 2
        ? hook h 2
        > hook continue
        < node_complete plan: Consensus reached: 1 consecutive agents agree to stop Reason: good
        < session_complete all_loops_complete
        """,
    )
    started = [e.fact for e in conversation.events if isinstance(e.fact, f.HookStarted)]
    assert started[0].delivery == started[1].delivery
    assert started[0].subject.startswith("Consensus")


def test_hooks_of_the_end_come_after_the_approval() -> None:
    play(
        plan_of(stage(approve=Approval()), hooks=(hook("stage_end"),)),
        f"""{BEGIN}
        > completed stop
        < request_opened approval-6
        < awaiting_approval approval-6
        > answer approval-6 approve
        < session_continued approval-6
        < request_resolved approval-6 approved
        < hook_start h 1
        ? hook h 1
        > hook continue
        < node_complete plan: approved
        < session_complete all_loops_complete
        """,
    )


def test_pause_during_parallel_block_lets_branches_complete_their_iteration() -> None:
    play(
        plan_of(block("claude codex", stage("draft", runs=2)), hooks=(hook("iteration_end"),)),
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
        < claude: hook_start h 1
        ? claude: hook h 1
        ? codex: execute draft 1 attempt 1
        > claude: hook pause Wait.
        < claude: request_opened hook_pause-12
        ? codex: execute draft 1 attempt 1
        > codex: completed
        < session_paused hook_pause
        = paused
        > answer hook_pause-12 continue
        < session_continued hook_pause-12
        < claude: request_resolved hook_pause-12 continue
        < codex: hook_start h 1
        ? claude: prepare draft 2
        ? codex: hook h 1
        """,
    )


# -- failures


@pytest.mark.parametrize(
    ("action", "said", "reason"),
    [
        ("webhook", "failed", "hook_webhook_failed"),
        ("webhook", "timeout", "hook_webhook_failed"),
        ("script", "failed", "hook_script_failed"),
        ("call", "failed", "hook_call_failed"),
    ],
)
def test_hook_that_fails_pauses_the_run_by_default(action: str, said: str, reason: str) -> None:
    effect = action == "webhook"
    conversation = play(
        one(hook("stage_start", action=action, url="https://example.com/")),
        f"""
        > start
        < node_start plan
        < hook_start h 1
        {"< effect_intended 1 https://example.com/" if effect else ""}
        ? hook h 1
        > hook {said}
        {"< effect_done 1 failed" if effect else ""}
        < request_opened {reason}-{7 if effect else 5}
        < session_paused {reason}
        = paused
        """,
    )
    request = state_of(conversation).requests[0]
    assert request.options == ("continue", "retry", "abort")
    assert request.question.startswith("Hook 'h' failed: ")


def test_failed_hook_is_called_again_or_left_out_as_a_person_says() -> None:
    play(
        one(hook("stage_start", action="script")),
        """
        > start
        < node_start plan
        < hook_start h 1
        ? hook h 1
        > hook failed
        < request_opened hook_script_failed-5
        < session_paused hook_script_failed
        > answer hook_script_failed-5 retry
        < session_continued hook_script_failed-5
        < request_resolved hook_script_failed-5 retry
        < hook_start h 2
        ? hook h 2
        > hook failed
        < request_opened hook_script_failed-12
        < session_paused hook_script_failed
        > answer hook_script_failed-12 continue
        < session_continued hook_script_failed-12
        < request_resolved hook_script_failed-12 continue
        ? prepare plan 1
        """,
    )


def test_webhook_that_cannot_be_reached_is_retried_with_the_same_key() -> None:
    conversation = play(
        one(hook("stage_start", action="webhook", url="u", tries=2)),
        """
        > start
        < node_start plan
        < hook_start h 1
        < effect_intended 1 u
        ? hook h 1
        > hook unreachable
        < effect_done 1 failed
        < hook_retry h in 1s
        ? wait hook 1s
        > fired hook
        < hook_start h 2
        < effect_intended 2 u
        ? hook h 2
        > hook continue
        < effect_done 2 done
        ? prepare plan 1
        """,
    )
    keys = {e.fact.key for e in conversation.events if isinstance(e.fact, f.EffectIntended | f.EffectDone)}
    assert keys == {delivery_id(RUN_ID, "stage-plan/plan/1/0/", "h", "stage_start")}


def test_webhook_is_tried_as_often_as_its_hook_says() -> None:
    play(
        one(hook("stage_start", action="webhook", url="u", tries=3)),
        """
        > start
        < node_start plan
        < hook_start h 1
        < effect_intended 1 u
        ? hook h 1
        > hook unreachable
        < effect_done 1 failed
        < hook_retry h in 1s
        ? wait hook 1s
        > fired hook
        < hook_start h 2
        < effect_intended 2 u
        ? hook h 2
        > hook unreachable
        < effect_done 2 failed
        < hook_retry h in 2s
        ? wait hook 2s
        > fired hook
        < hook_start h 3
        < effect_intended 3 u
        ? hook h 3
        > hook unreachable
        < effect_done 3 failed
        < request_opened hook_webhook_failed-19
        < session_paused hook_webhook_failed
        """,
    )


def test_webhook_that_a_person_retries_has_all_its_tries_again() -> None:
    play(
        one(hook("stage_start", action="webhook", url="u", tries=2)),
        """
        > start
        < node_start plan
        < hook_start h 1
        < effect_intended 1 u
        ? hook h 1
        > hook unreachable
        < effect_done 1 failed
        < hook_retry h in 1s
        ? wait hook 1s
        > fired hook
        < hook_start h 2
        < effect_intended 2 u
        ? hook h 2
        > hook unreachable
        < effect_done 2 failed
        < request_opened hook_webhook_failed-13
        < session_paused hook_webhook_failed
        > answer hook_webhook_failed-13 retry
        < session_continued hook_webhook_failed-13
        < request_resolved hook_webhook_failed-13 retry
        < hook_start h 3
        < effect_intended 3 u
        ? hook h 3
        > hook unreachable
        < effect_done 3 failed
        < hook_retry h in 1s
        ? wait hook 1s
        """,
    )


def test_retry_of_a_replayed_hook_does_not_wait() -> None:
    play(
        one(hook("stage_start", action="webhook", url="u", tries=2)),
        """
        > start replay
        < node_start plan
        < hook_start h 1
        < effect_intended 1 u
        ? hook h 1
        > hook unreachable
        < effect_done 1 failed
        < hook_retry h in 0s
        ? wait hook 0s
        """,
    )


def test_on_failure_and_on_timeout_continue_skip_the_hook_without_its_context() -> None:
    for said, changes in (("failed", {"on_failure": "continue"}), ("timeout", {"on_timeout": "continue"})):
        why = "it timed out" if said == "timeout" else "it failed: no answer"
        conversation = play(
            one(hook("stage_start", action="script", **changes)),
            f"""
            > start
            < node_start plan
            < hook_start h 1
            ? hook h 1
            > hook {said}
            < hook_skipped h: {why}
            ? prepare plan 1
            """,
        )
        assert not state_of(conversation).notes


def test_on_failure_fail_fails_the_run_which_can_be_resumed() -> None:
    play(
        one(hook("session_start", on_failure="fail")),
        """
        > start
        < hook_start h 1
        ? hook h 1
        > hook failed
        < session_failed hook_failed
        = failed
        > resume
        < hook_start h 2
        ? hook h 2
        > hook continue
        < node_start plan
        ? prepare plan 1
        """,
    )


def test_failure_at_the_end_of_the_session_does_not_pause_it() -> None:
    play(
        one(hook("session_end")),
        f"""{BEGIN}
        > completed stop
        < node_complete plan: Agent requested stop at iteration 1
        < hook_start h 1
        ? hook h 1
        > hook failed
        < hook_skipped h: it failed: no answer
        < session_complete all_loops_complete
        """,
    )


# -- lost calls


def test_lost_call_is_repeated_with_the_same_delivery() -> None:
    conversation = play(
        one(hook("stage_start", action="webhook", url="u")),
        """
        > start
        < node_start plan
        < hook_start h 1
        < effect_intended 1 u
        ? hook h 1
        > recover
        ? hook h 1
        > hook lost
        < effect_reconciled 1 unknown repeat
        < hook_start h 2
        < effect_intended 2 u
        ? hook h 2
        > hook continue
        < effect_done 2 done
        ? prepare plan 1
        """,
    )
    started = [e.fact.delivery for e in conversation.events if isinstance(e.fact, f.HookStarted)]
    assert len(started) == 2
    assert len(set(started)) == 1


def test_on_lost_pause_asks_before_a_call_is_repeated() -> None:
    play(
        one(hook("stage_start", action="webhook", url="u", on_lost="pause")),
        """
        > start
        < node_start plan
        < hook_start h 1
        < effect_intended 1 u
        ? hook h 1
        > hook lost
        < effect_reconciled 1 unknown ask
        < request_opened hook_lost-7
        < session_paused hook_lost
        = paused
        > answer hook_lost-7 retry
        < session_continued hook_lost-7
        < request_resolved hook_lost-7 retry
        < hook_start h 2
        < effect_intended 2 u
        ? hook h 2
        > hook unsent
        < effect_reconciled 2 absent repeat
        < hook_start h 3
        < effect_intended 3 u
        ? hook h 3
        """,
    )


def test_three_lost_calls_in_a_row_ask_a_person() -> None:
    play(
        one(hook("stage_start")),
        """
        > start
        < node_start plan
        < hook_start h 1
        ? hook h 1
        > hook lost
        < hook_start h 2
        ? hook h 2
        > hook lost
        < hook_start h 3
        ? hook h 3
        > hook lost
        < request_opened hook_lost-9
        < session_paused hook_lost
        """,
    )


def test_effect_that_was_lost_three_times_is_asked_about() -> None:
    conversation = play(
        one(hook("stage_start", action="webhook", url="u")),
        """
        > start
        < node_start plan
        < hook_start h 1
        < effect_intended 1 u
        ? hook h 1
        > hook lost
        < effect_reconciled 1 unknown repeat
        < hook_start h 2
        < effect_intended 2 u
        ? hook h 2
        > hook lost
        < effect_reconciled 2 unknown repeat
        < hook_start h 3
        < effect_intended 3 u
        ? hook h 3
        > hook lost
        < effect_reconciled 3 unknown ask
        < request_opened hook_lost-15
        < session_paused hook_lost
        """,
    )
    (request,) = state_of(conversation).requests
    assert request.question.startswith("The answer of hook 'h' was lost, because the engine or the machine d")


def test_lost_try_uses_no_retry() -> None:
    play(
        one(hook("stage_start", action="webhook", url="u", tries=2)),
        """
        > start
        < node_start plan
        < hook_start h 1
        < effect_intended 1 u
        ? hook h 1
        > hook lost
        < effect_reconciled 1 unknown repeat
        < hook_start h 2
        < effect_intended 2 u
        ? hook h 2
        > hook unreachable
        < effect_done 2 failed
        < hook_retry h in 1s
        ? wait hook 1s
        """,
    )


def test_lost_calls_at_the_end_of_the_session_are_left_out() -> None:
    play(
        one(hook("session_end")),
        f"""{BEGIN}
        > completed stop
        < node_complete plan: Agent requested stop at iteration 1
        < hook_start h 1
        ? hook h 1
        > hook lost
        < hook_start h 2
        ? hook h 2
        > hook lost
        < hook_start h 3
        ? hook h 3
        > hook lost
        < hook_skipped h: 3 calls were lost in a row
        < session_complete all_loops_complete
        """,
    )


def test_effect_of_a_call_that_is_left_out_is_closed() -> None:
    lost = "\n".join(
        f"""
        < hook_start h {number}
        < effect_intended {number} u
        ? hook h {number}
        > hook lost
        < effect_reconciled {number} unknown {then}
        """
        for number, then in ((1, "repeat"), (2, "repeat"), (3, "skip"))
    )
    play(
        one(hook("session_end", action="webhook", url="u")),
        f"""{BEGIN}
        > completed stop
        < node_complete plan: Agent requested stop at iteration 1
        {lost}
        < hook_skipped h: 3 calls were lost in a row
        < session_complete all_loops_complete
        """,
    )


def test_stopped_call_is_repeated_after_a_resume() -> None:
    play(
        one(hook("stage_start", action="script")),
        """
        > start
        < node_start plan
        < hook_start h 1
        ? hook h 1
        > pause asked
        ? hook h 1
        > pause asked now
        < hook_ending h 1
        ? end hook h 1
        > hook lost
        < session_paused asked
        = paused
        > resume
        < hook_start h 2
        ? hook h 2
        """,
    )


def test_question_about_a_stopped_call_says_that_the_run_was_stopped() -> None:
    conversation = play(
        one(hook("stage_start", action="script", on_lost="pause")),
        """
        > start
        < node_start plan
        < hook_start h 1
        ? hook h 1
        > pause asked now
        < hook_ending h 1
        ? end hook h 1
        > hook lost
        < session_paused asked
        = paused
        > resume
        < request_opened hook_lost-9
        < session_paused hook_lost
        """,
    )
    (request,) = state_of(conversation).requests
    assert "because the run was stopped" in request.question


def test_restart_stops_the_hook_of_the_stage_first() -> None:
    play(
        one(hook("iteration_end"), runs=2),
        f"""{BEGIN}
        > completed
        < hook_start h 1
        ? hook h 1
        > restart
        < hook_ending h 1
        ? end hook h 1
        > hook lost
        < node_restart plan requested round=1
        < node_start plan
        ? prepare plan 1
        """,
    )


def test_restart_of_a_branch_leaves_the_hooks_of_others_alone() -> None:
    play(
        plan_of(block("claude codex", stage("draft", runs=2)), hooks=(hook("iteration_end"),)),
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
        < claude: hook_start h 1
        ? claude: hook h 1
        ? codex: execute draft 1 attempt 1
        > codex: completed
        < codex: hook_start h 1
        ? claude: hook h 1
        ? codex: hook h 1
        > restart codex
        < codex: hook_ending h 1
        ? claude: hook h 1
        ? codex: end hook h 1
        """,
    )


def test_a_call_is_not_started_twice_and_has_one_outcome() -> None:
    conversation = play(
        one(hook("stage_start")),
        """
        > start
        < node_start plan
        < hook_start h 1
        ? hook h 1
        """,
    )
    of = ("h", "stage_start", task_of(conversation).delivery)
    with pytest.raises(IllegalMove, match="starts while hook 1 is running"):
        refuse_illegal(conversation.state, f.HookStarted(*of, 2), task_of(conversation).at)
    with pytest.raises(IllegalMove, match="invalid transition"):
        refuse_illegal(conversation.state, f.HookRetryScheduled(*of, 1), task_of(conversation).at)
    other = f.HookStarted("h", "stage_start", "another")
    refuse_illegal(conversation.state, other, task_of(conversation).at)


# -- the points of the SDK


def test_hooks_of_a_resume_get_its_text_while_agents_finish() -> None:
    conversation = play(
        one(hook("resume"), runs=2),
        f"""{BEGIN}
        > taken-up-by-person Focus on X
        < hook_start h 1
        ? hook h 1
        ? execute plan 1 attempt 1
        > hook modify_context context=User
        ? execute plan 1 attempt 1
        """,
    )
    started = next(e.fact for e in conversation.events if isinstance(e.fact, f.HookStarted))
    assert started.subject == str(state_of(conversation).resumption.seq)  # type: ignore[union-attr]
    assert [note.text for note in state_of(conversation).notes] == ["Focus on X", "User"]


LIMITED = """
    > start
    < node_start plan
    ? prepare plan 1
    @ 90
    > prepared
    < request_opened runtime_limit-4
    < hook_start h 1
    ? hook h 1
"""


def test_hook_of_a_request_raises_a_limit_within_the_bounds_of_the_plan() -> None:
    play(
        plan_of(stage(), max_runtime=60, hooks=(hook("request"),)),
        f"""{LIMITED}
        > hook answer 60
        < request_answered runtime_limit-4 60 hook h
        < request_resolved runtime_limit-4 granted
        < attempt_start 1 timeout=60
        ? execute plan 1 attempt 1
        """,
    )


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("answer 61", "hooks may grant at most 60 seconds, got 61"),
        ("answer nonsense", "'nonsense' is not an answer to the request"),
        ("pause", "`pause` is not possible at request"),
        ("failed", "it failed: no answer"),
    ],
)
def test_request_that_a_hook_cannot_answer_is_left_to_a_person(said: str, why: str) -> None:
    play(
        plan_of(stage(), max_runtime=60, hooks=(hook("request"),)),
        f"""{LIMITED}
        > hook {said}
        < hook_skipped h: {why}
        < session_paused runtime_limit
        = paused
        """,
    )


def test_hook_leaves_a_request_to_a_person_whose_answer_ends_the_call() -> None:
    play(
        plan_of(stage(), max_runtime=60, hooks=(hook("request"),)),
        f"""{LIMITED}
        > answer runtime_limit-4 retry
        < request_resolved runtime_limit-4 continue
        < attempt_start 1 timeout=60
        ? execute plan 1 attempt 1
        """,
    )


def test_hooks_answer_a_bounded_number_of_requests_in_a_row() -> None:
    conversation = Play(plan_of(stage(), hooks=(hook("request"),)))
    conversation.happens("start")
    conversation.happens("prepared")
    answers = 0
    for _ in range(100):
        while not any(isinstance(work, HookTask) for work in conversation.work):
            if state_of(conversation).status.value == "paused":
                break
            conversation.happens("lost")
        if state_of(conversation).status.value == "paused":
            break
        conversation.happens("hook answer retry")
        answers += 1
    assert answers == 21
    (skipped,) = [e.fact for e in conversation.events if isinstance(e.fact, f.HookSkipped)]
    assert skipped.reason == "hooks have answered 20 requests in a row; a person must answer this one"
    assert skipped.answered
    conversation.happens(f"answer {state_of(conversation).requests[0].id} retry")
    assert state_of(conversation).hook_answers == 0


def test_hook_may_grant_as_many_rounds_as_the_approval_has() -> None:
    plan = plan_of(stage(approve=Approval(rounds=2)), max_runtime=60)
    at = Cursor("0", 1, 1)

    def limit(reason: str, grants: str, at: Cursor | None = at) -> float:
        return grant_limit(plan, Request("r", "escalation", "k", reason, "?", (), NOON, grants=grants, at=at))

    assert limit("approval_rounds", "rounds") == 2
    assert limit("question_rounds", "rounds") == 3
    assert limit("runtime_limit", "seconds") == 60
    assert limit("runtime_limit", "seconds", None) == 60


def test_hook_may_allow_a_run_at_its_cap_as_much_again() -> None:
    plan = plan_of(stage()).with_caps(Amount(cost_usd=1.5))
    asked = Request(
        "r", "escalation", "k", "spending_cap", "?", (), NOON, subject="cost_usd", grants="cost_usd"
    )
    assert grant_limit(plan, asked) == 1.5


def test_timer_of_a_call_that_is_over_changes_nothing() -> None:
    conversation = play(
        one(hook("stage_start")),
        """
        > start
        < node_start plan
        < hook_start h 1
        ? hook h 1
        > hook continue
        ? prepare plan 1
        """,
    )
    before = state_of(conversation)
    conversation.record(f.TimerFired("hook:unknown"), None)
    assert state_of(conversation).hooks == before.hooks
    assert conversation.happens("pause asked") == ["< session_paused asked"], "no call is in flight"


# -- recompiled plans


def test_hook_that_the_plan_no_longer_has_is_left_out_and_moved_stages_keep_their_hooks() -> None:
    plan = plan_of(stage("plan"), hooks=(hook("stage_start", "h"), hook("stage_start", "gone")))
    conversation = play(
        plan,
        """
        > start
        < node_start plan
        < hook_start h 1
        ? hook h 1
        > hook continue
        < hook_start gone 1
        ? hook gone 1
        """,
    )
    new = plan_of(stage("first"), stage("plan"), hooks=(hook("stage_start", "h"),))
    conversation.record(plan_change(new, plan, state_of(conversation)), state_of(conversation).cursor)
    assert conversation.answer() == ["< hook_skipped gone: the plan no longer has it", "? prepare plan 1"]


def recompile(conversation: Play, new: Plan) -> list[str]:
    """What follows from it."""
    change = plan_change(new, conversation.plan, state_of(conversation))
    conversation.record(change, state_of(conversation).cursor)
    return conversation.answer()


def test_effect_of_a_webhook_that_the_plan_no_longer_has_is_closed() -> None:
    conversation = play(
        one(hook("stage_start", "gone", "webhook", url="u"), hook("stage_start")),
        """
        > start
        < node_start plan
        < hook_start gone 1
        < effect_intended 1 u
        ? hook gone 1
        """,
    )
    assert recompile(conversation, one(hook("stage_start"))) == [
        "< effect_reconciled 1 unknown skip",
        "< hook_skipped gone: the plan no longer has it",
        "< hook_start h 1",
        "? hook h 1",
    ]


@pytest.mark.parametrize(
    ("kept", "is_refused"),
    [
        (hook("stage_start", "s", "script", script="other"), False),
        (hook("stage_start", "s", "webhook", url="u"), True),
        (hook("stage_end", "s", "script", script="x"), True),
        (hook("stage_start", "s", "script", script="x", stage="first"), True),
    ],
)
def test_plan_keeps_the_hook_of_a_script_that_may_be_running(kept: Hook, is_refused: bool) -> None:
    conversation = play(
        one(hook("stage_start", "s", "script", script="x")),
        """
        > start
        < node_start plan
        < hook_start s 1
        ? hook s 1
        """,
    )
    new = plan_of(stage("first"), stage("plan"), hooks=(kept,))
    if is_refused:
        with pytest.raises(IllegalMove, match="the script of hook 's' may still be running") as refused:
            recompile(conversation, new)
        assert refused.value.hint.startswith("resume without --recompile, pause after the hook")
    else:
        assert recompile(conversation, new) == ["? hook s 1"]


def test_hooks_of_the_start_are_called_after_a_recompilation() -> None:
    conversation = play(
        one(hook("session_start", "first", "pause"), hook("session_start")),
        """
        > start
        < hook_start first 1
        < hook_complete first pause
        < request_opened hook_pause-4
        < session_paused hook_pause
        > answer hook_pause-4 continue
        < session_continued hook_pause-4
        < request_resolved hook_pause-4 continue
        < hook_start h 1
        ? hook h 1
        """,
    )
    assert recompile(conversation, one(hook("session_start", "first", "pause"), hook("session_start"))) == [
        "? hook h 1"
    ]


def test_repeat_of_a_moved_call_has_its_key_and_other_nodes_have_others() -> None:
    conversation = play(
        one(hook("stage_start", tries=2, action="webhook", url="u")),
        """
        > start
        < node_start plan
        < hook_start h 1
        < effect_intended 1 u
        ? hook h 1
        """,
    )
    first = task_of(conversation)
    recompile(conversation, plan_of(stage("other"), stage("plan"), hooks=conversation.plan.pipeline.hooks))
    conversation.happens("hook lost")
    repeated = task_of(conversation)
    assert (repeated.place.path, repeated.attempt, repeated.delivery) == ("1", 2, first.delivery)


def test_plan_without_hooks_at_the_point_has_no_call_in_flight() -> None:
    plan = plan_of(stage("plan"), hooks=(hook("stage_start", "gone"),))
    conversation = play(
        plan,
        """
        > start
        < node_start plan
        < hook_start gone 1
        ? hook gone 1
        """,
    )
    new = plan_of(stage("plan"))
    conversation.record(plan_change(new, plan, state_of(conversation)), state_of(conversation).cursor)
    assert conversation.answer() == ["? prepare plan 1"]
    assert conversation.happens("pause asked") == ["< session_paused asked"]


# -- tasks


def test_task_of_a_hook_is_self_contained() -> None:
    box = SandboxChoice("bwrap")
    hooks = (hook("session_start", "first", "script"), hook("stage_start", "second", "script"))
    conversation = play(
        plan_of(stage(sandbox=box), hooks=hooks),
        """
        > start
        < hook_start first 1
        ? hook first 1
        """,
    )
    first = task_of(conversation)
    assert (first.at, first.recorded_at, first.sandbox, first.provider) == (None, None, box, "")
    conversation.happens("hook continue")
    second = task_of(conversation)
    assert (second.name, second.provider, second.sandbox) == ("plan", "claude", box)
    assert (second.about, QueueTask(second.place, "plan").about) == (second.delivery, "")
    assert second.mark("r").startswith(f"r/hook/{second.delivery}/1@")
    assert second.id == f"hook/{second.delivery}/1"
    assert replace(second, ending=True).id.endswith("/end")


def test_task_of_a_hook_in_a_branch_names_the_folder_of_the_branch() -> None:
    hooks = (hook("stage_start", "block", stage="duel"), hook("parallel_provider_start", "branch"))
    conversation = play(
        plan_of(block("claude codex", stage("draft")), hooks=hooks),
        """
        > start
        < node_start duel
        < hook_start block 1
        ? hook block 1
        """,
    )
    assert task_of(conversation).place.scope == ""
    conversation.happens("hook continue")
    scopes = [work.place.scope for work in conversation.work if isinstance(work, HookTask)]
    folder = conversation.plan.places["0"].dir
    assert scopes == [f"{folder}/providers/claude", f"{folder}/providers/codex"]


def test_calls_at_different_iterations_and_branches_have_different_keys() -> None:
    conversation = play(
        one(hook("iteration_start"), runs=2),
        """
        > start
        < node_start plan
        < hook_start h 1
        ? hook h 1
        > hook continue
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        > completed
        < hook_start h 1
        ? hook h 1
        """,
    )
    keys = {e.fact.delivery for e in conversation.events if isinstance(e.fact, f.HookStarted)}
    assert len(keys) == 2
    branches = play(
        plan_of(block("claude codex", stage("draft")), hooks=(hook("parallel_provider_start"),)),
        """
        > start
        < node_start duel
        < claude: parallel_provider_start
        < codex: parallel_provider_start
        < claude: hook_start h 1
        < codex: hook_start h 1
        ? claude: hook h 1
        ? codex: hook h 1
        """,
    )
    assert len({work.delivery for work in branches.work if isinstance(work, HookTask)}) == 2


def test_delivery_ids_differ_by_place_hook_and_run() -> None:
    ids = {
        delivery_id("r", "a", "h", "iteration_end"),
        delivery_id("r2", "a", "h", "iteration_end"),
        delivery_id("r", "b", "h", "iteration_end"),
        delivery_id("r", "a", "h2", "iteration_end"),
        delivery_id("r", "a", "h", "request"),
        delivery_id("r", "a", "h", "request", "approval-4"),
    }
    assert len(ids) == 6


# -- after a failure

FAILING = """
    > start
    < node_start plan
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
    > error agent_error
"""
RESTART_REFUSED = "`restart_stage` is only possible after an iteration of a stage"
IF_FAILED = Operation("==", (VariableTerm("status"), ConstantTerm("failed")))


def test_hooks_of_the_end_are_called_after_a_failure() -> None:
    conversation = play(
        one(
            hook("stage_end", "ok", condition=Operation("!", (IF_FAILED,))),
            hook("stage_end", "asks", "confirm", message="Publish?"),
            hook("stage_end", "all"),
            hook("stage_end", "bad", condition=IF_FAILED),
        ),
        f"""{FAILING}
        < hook_start all 1
        ? hook all 1
        > hook continue
        < hook_start bad 1
        ? hook bad 1
        > hook continue
        < session_failed agent_error
        """,
    )
    started = [e.fact for e in conversation.events if isinstance(e.fact, f.HookStarted)]
    assert [fact.subject for fact in started] == ["failed: agent_error"] * 2


def test_hooks_are_called_again_after_each_failure_and_at_the_end() -> None:
    """Each time with a key of its own; those before are not called again."""
    conversation = play(
        plan_of(
            stage(retry=RetryPolicy(1, exhausted="ask")),
            hooks=(hook("stage_end"), hook("iteration_start", "i"), hook("iteration_end", "e")),
        ),
        """
        > start
        < node_start plan
        < hook_start i 1
        ? hook i 1
        > hook continue
        ? prepare plan 1
        > error prompt_unreadable
        < hook_start h 1
        ? hook h 1
        > hook continue
        < request_opened retries_exhausted-8
        < session_paused retries_exhausted
        > resume
        < request_resolved retries_exhausted-8 reset
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        > error provider_auth
        < hook_start h 1
        ? hook h 1
        > hook continue
        < request_opened retries_exhausted-18
        < session_paused retries_exhausted
        > answer retries_exhausted-18 retry
        < session_continued retries_exhausted-18
        < request_resolved retries_exhausted-18 continue
        < attempt_start 2
        ? execute plan 1 attempt 2
        > completed stop
        < hook_start e 1
        ? hook e 1
        > hook continue
        < hook_start h 1
        ? hook h 1
        > hook continue
        < node_complete plan: Agent requested stop at iteration 1
        < session_complete all_loops_complete
        """,
    )
    started = [
        e.fact for e in conversation.events if isinstance(e.fact, f.HookStarted) and e.fact.hook == "h"
    ]
    assert len({fact.delivery for fact in started}) == 3


def test_hooks_are_called_again_after_a_resume_of_a_failed_run() -> None:
    again = """
        < hook_start h 1
        ? hook h 1
        > hook continue
        < session_failed hook_failed
        """
    play(
        plan_of(stage(), hooks=(hook("stage_start", "s", on_failure="fail"), hook("stage_end"))),
        f"""
        > start
        < node_start plan
        < hook_start s 1
        ? hook s 1
        > hook failed
        {again}
        > resume
        < hook_start s 2
        ? hook s 2
        > hook failed
        {again}
        """,
    )


@pytest.mark.parametrize(
    ("said", "on_failure", "follows"),
    [
        ("pause Look!", "pause", ["< hook_skipped h: `pause` is not possible after a failure"]),
        ("failed", "pause", ["< hook_skipped h: it failed: no answer"]),
        ("failed", "fail", ["< hook_skipped h: it failed: no answer"]),
        ("failed", "continue", ["< hook_skipped h: it failed: no answer"]),
        (
            "restart_stage",
            "pause",
            ["< hook_skipped h: `restart_stage` is only possible after an iteration of a stage"],
        ),
    ],
)
def test_hook_cannot_hold_a_run_that_fails(said: str, on_failure: Any, follows: list[str]) -> None:
    conversation = Play(one(hook("stage_end", on_failure=on_failure)))
    for words in ("start", "prepared", "error agent_error"):
        conversation.happens(words)
    assert conversation.happens(f"hook {said}") == [*follows, "< session_failed agent_error"]


def test_lost_call_after_a_failure_is_repeated_and_then_skipped() -> None:
    play(
        one(hook("stage_end", action="script", script="x", on_lost="pause")),
        f"""{FAILING}
        < hook_start h 1
        ? hook h 1
        > hook lost
        < hook_start h 2
        ? hook h 2
        > hook lost
        < hook_start h 3
        ? hook h 3
        > hook lost
        < hook_skipped h: 3 calls were lost in a row
        < session_failed agent_error
        """,
    )


def test_hook_ends_a_run_that_would_ask() -> None:
    play(
        plan_of(stage(retry=RetryPolicy(1, exhausted="ask")), hooks=(hook("stage_end"),)),
        f"""{FAILING}
        < hook_start h 1
        ? hook h 1
        > hook abort hopeless
        < cancel_requested hopeless
        < session_aborted hopeless
        """,
    )


def test_hook_restarts_a_failed_stage_until_a_person_is_asked() -> None:
    conversation = Play(one(hook("stage_end"), runs=2))
    conversation.happens("start")
    for _ in range(10):
        for words in ("prepared", "completed", "prepared", "error agent_error"):
            conversation.happens(words)
        assert conversation.happens("hook restart_stage")[-1] == "? prepare plan 1"
    for words in ("prepared", "completed", "prepared", "error agent_error"):
        conversation.happens(words)
    conversation.happens("hook restart_stage")
    (asked,) = state_of(conversation).open_requests
    assert asked.reason == "hook_restarts"
    assert conversation.happens(f"answer {asked.id} accept")[-1] == "< session_failed agent_error"


def test_call_after_a_failure_is_awaited_although_a_person_resumed_the_run() -> None:
    """As by force, beside the engine that called it. The stage fails again: so its hooks are called again."""
    conversation = Play(one(hook("stage_end")))
    for words in ("start", "prepared", "error agent_error"):
        conversation.happens(words)
    state = state_of(conversation)
    conversation.record(f.SessionRecovered(1, "here", by="person"), state.cursor)
    assert conversation.answer() == ["? hook h 1"]
    assert conversation.happens("hook continue") == ["< attempt_start 2", "? execute plan 1 attempt 2"]
    assert conversation.happens("error agent_error") == ["< hook_start h 1", "? hook h 1"]


def test_block_that_failed_calls_its_hooks_and_those_of_the_stage() -> None:
    plan = plan_of(block("claude codex", stage("ideas")), hooks=(hook("stage_end"),))
    conversation = Play(plan)
    conversation.happens("start")
    for branch in ("claude", "codex"):
        conversation.happens(f"{branch}: prepared")
    assert "< claude: hook_start h 1" in conversation.happens("claude: error agent_error")
    conversation.happens("claude: hook continue")
    conversation.happens("codex: completed")
    conversation.happens("codex: hook continue")
    assert conversation.work == (task_of(conversation),)
    assert task_of(conversation).status == "failed"
    # Resumed by force, the block awaits the call first.
    state = state_of(conversation)
    conversation.record(f.SessionRecovered(1, "here", by="person"), state.cursor)
    assert conversation.answer() == ["? hook h 1"]
    said = conversation.happens("hook continue")
    assert said[-1] == "? claude: execute ideas 1 attempt 2"
