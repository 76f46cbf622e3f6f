"""Playbooks of stages that deliver: what is prepared, asked, performed, and found after a crash."""

import pytest
from msgspec.structs import replace
from tests.engine.plans import plan_of, stage
from tests.engine.playbook import play

from agentforge.engine.decide.run import decide
from agentforge.engine.evolve.run import evolve
from agentforge.engine.rehearsal.rehearse import rehearse
from agentforge.model import facts as f
from agentforge.model.delivery import DeliveredWork, DeliverRule, DeliveryBase, DeliveryMode
from agentforge.model.event import Event
from agentforge.model.failure import FailureKind
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.model.task import DeliverTask


def delivering(mode: DeliveryMode = "commit", **rule: object) -> Plan:
    return plan_of(stage(), stage("ship", deliver=DeliverRule(mode, **rule)))  # type: ignore[arg-type]


PLAIN = """
    > start
    < node_start plan
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
    > completed
    < node_complete plan: Completed 1 iterations (max: 1)
    < node_start ship
    ? prepare ship 1
    > prepared
    < attempt_start 1
    ? execute ship 1 attempt 1
    > completed
    < node_complete ship: Completed 1 iterations (max: 1)
    < session_complete all_loops_complete
"""
WORKED = """
    > start
    < node_start plan
    ? repository plan 0
    > seen
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
    > completed tree=t1
    < node_complete plan: Completed 1 iterations (max: 1)
    < node_start ship
    < deliver_start prepare 1
    ? deliver prepare 1 of t1
"""
KEPT = "0af7651916cd43dd/1/1"
COMMITTED = """
    < deliver_start commit 1
    < effect_intended 1 refs/heads/main c1
    ? deliver commit 1 of t1
"""
DONE = """
    < delivered commit committed c1
    < node_complete ship: committed
    < session_complete all_loops_complete
    = completed
"""


def test_a_commit_is_prepared_and_made_with_an_intent() -> None:
    play(
        delivering(),
        f"""{WORKED}
        > delivery prepared
        {COMMITTED}
        > delivery done
        < effect_done 1 done
        {DONE}
        """,
    )


def test_a_change_may_be_staged_only() -> None:
    play(
        delivering(auto_commit=False),
        f"""{WORKED}
        > delivery prepared staged
        < deliver_start commit 1
        < effect_intended 1 index
        ? deliver commit 1 of t1
        > delivery done
        < effect_done 1 done
        < delivered commit staged
        < node_complete ship: staged
        < session_complete all_loops_complete
        """,
    )


@pytest.mark.parametrize("mode", ["commit", "files", "patch", "pr"])
def test_without_a_change_nothing_is_delivered(mode: DeliveryMode) -> None:
    play(
        delivering(mode),
        f"""{WORKED}
        > delivery prepared no-changes
        < delivered {mode} no_changes
        < node_complete ship: no_changes
        < session_complete all_loops_complete
        """,
    )


def test_files_need_no_further_step() -> None:
    play(
        delivering("files"),
        f"""{WORKED}
        > delivery prepared
        < delivered files files c1
        < node_complete ship: files
        < session_complete all_loops_complete
        """,
    )


def test_a_patch_is_written() -> None:
    play(
        delivering("patch"),
        f"""{WORKED}
        > delivery prepared
        < deliver_start patch 1
        < effect_intended 1 x.patch
        ? deliver patch 1 of t1
        > delivery done
        < effect_done 1 done
        < delivered patch patched x.patch
        < node_complete ship: patched
        < session_complete all_loops_complete
        """,
    )


def test_a_pull_request_has_three_effects() -> None:
    play(
        delivering("pr"),
        f"""{WORKED}
        > delivery prepared
        {COMMITTED}
        > delivery done
        < effect_done 1 done
        < deliver_start push 1
        < effect_intended 1 host refs/heads/main
        ? deliver push 1 of t1
        > delivery done
        < effect_done 1 done
        < deliver_start pull_request 1
        < effect_intended 1 host refs/heads/main
        ? deliver pull_request 1 of t1
        > delivery done url=https://host/1
        < effect_done 1 done
        < delivered pr pull_request c1 https://host/1
        < node_complete ship: pull_request
        < session_complete all_loops_complete
        """,
    )


def test_an_effect_that_was_done_before_a_crash_is_not_repeated() -> None:
    play(
        delivering(),
        f"""{WORKED}
        > delivery prepared
        {COMMITTED}
        > delivery present
        < effect_reconciled 1 present skip
        {DONE}
        """,
    )


def test_an_effect_that_was_not_done_is_repeated_as_another_try() -> None:
    play(
        delivering(),
        f"""{WORKED}
        > delivery prepared
        {COMMITTED}
        > delivery lost
        < effect_reconciled 1 absent repeat
        < deliver_start commit 2
        < effect_intended 2 refs/heads/main c1
        ? deliver commit 2 of t1
        > delivery done
        < effect_done 2 done
        {DONE}
        """,
    )


def test_a_step_that_is_lost_again_and_again_is_asked_about() -> None:
    again = "".join(
        f"""
        > delivery lost
        < effect_reconciled {number} absent repeat
        < deliver_start commit {number + 1}
        < effect_intended {number + 1} refs/heads/main c1
        ? deliver commit {number + 1} of t1
        """
        for number in (1, 2)
    )
    play(
        delivering(),
        f"""{WORKED}
        > delivery prepared
        {COMMITTED}{again}
        > delivery lost
        < effect_reconciled 3 absent repeat
        < request_opened deliver_lost-23
        < session_paused deliver_lost
        > answer deliver_lost-23 retry
        < session_continued deliver_lost-23
        < request_resolved deliver_lost-23 continue
        < deliver_start commit 4
        < effect_intended 4 refs/heads/main c1
        ? deliver commit 4 of t1
        """,
    )


def test_a_failed_step_fails_the_run_and_a_resume_repeats_it() -> None:
    play(
        delivering(),
        f"""{WORKED}
        > delivery prepared
        {COMMITTED}
        > delivery failed
        < effect_done 1 failed
        < session_failed delivery_failed
        > resume
        < deliver_start commit 2
        < effect_intended 2 refs/heads/main c1
        ? deliver commit 2 of t1
        """,
    )


def test_a_failed_preparation_is_repeated_by_a_resume() -> None:
    play(
        delivering(),
        f"""{WORKED}
        > delivery failed
        < session_failed delivery_failed
        > resume
        < deliver_start prepare 2
        ? deliver prepare 2 of t1
        """,
    )


def test_a_repository_that_changed_meanwhile_is_looked_at_again() -> None:
    play(
        delivering(),
        f"""{WORKED}
        > delivery prepared
        {COMMITTED}
        > delivery outdated
        < effect_done 1 failed
        < deliver_start prepare 2
        ? deliver prepare 2 of t1
        > delivery prepared problems=moved
        < request_opened delivery-17
        < session_paused delivery
        """,
    )


ASKED = """
    < request_opened delivery-{number}
    < session_paused delivery
    > answer delivery-{number} {answer}
    < session_continued delivery-{number}
    < request_resolved delivery-{number} {effect}
"""


def asked(number: int, answer: str, effect: str = "continue") -> str:
    return ASKED.format(number=number, answer=answer, effect=effect)


def test_a_branch_that_moved_is_delivered_on_its_new_commit_if_a_person_says_so() -> None:
    play(
        delivering(),
        f"""{WORKED}
        > delivery prepared problems=moved
        {asked(11, "retry")}
        {COMMITTED}
        > delivery done
        < effect_done 1 done
        {DONE}
        """,
    )


def test_edits_of_the_user_are_delivered_only_if_a_person_accepts_them() -> None:
    play(
        delivering(),
        f"""{WORKED}
        > delivery prepared problems=moved,edited
        {asked(11, "retry")}
        {asked(16, "accept fine", "accepted")}
        {COMMITTED}
        """,
    )


@pytest.mark.parametrize("kind", ["tree", "changed", "content", "busy", "branch", "edited"])
def test_other_problems_are_looked_at_again(kind: str) -> None:
    play(
        delivering(),
        f"""{WORKED}
        > delivery prepared problems={kind}
        {asked(11, "retry")}
        < deliver_start prepare 2
        ? deliver prepare 2 of t1
        > delivery prepared
        < deliver_start commit 1
        < effect_intended 1 refs/heads/main c2
        ? deliver commit 1 of t1
        """,
    )


def test_another_commit_than_the_accepted_one_is_asked_about_again() -> None:
    play(
        delivering(),
        f"""{WORKED}
        > delivery prepared problems=moved
        {asked(11, "retry")}
        {COMMITTED}
        > delivery outdated
        < effect_done 1 failed
        < deliver_start prepare 2
        ? deliver prepare 2 of t1
        > delivery prepared problems=moved
        < request_opened delivery-22
        < session_paused delivery
        """,
    )


def test_a_plain_resume_looks_again() -> None:
    play(
        delivering(),
        f"""{WORKED}
        > delivery prepared problems=changed
        < request_opened delivery-11
        < session_paused delivery
        > resume
        < request_resolved delivery-11 reset
        < deliver_start prepare 2
        ? deliver prepare 2 of t1
        """,
    )


def test_a_repository_that_nothing_can_be_delivered_to_fails_the_run_before_the_first_agent() -> None:
    conversation = play(
        delivering(),
        """
        > start
        < node_start plan
        ? repository plan 0
        > seen no trees
        < session_failed delivery_failed
        """,
    )
    assert conversation.state is not None
    assert conversation.state.failure is not None
    assert conversation.state.failure.message == "no trees"


def test_the_files_at_the_start_are_not_guessed_later() -> None:
    plan = plan_of(stage())
    conversation = play(
        plan,
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        """,
    )
    state = None
    for event in conversation.events:
        state = evolve(state, event)
    assert state is not None
    # As after a recompilation.
    both = delivering()
    late = replace(state, at=replace(state.at, path="1"))  # type: ignore[type-var]
    late = replace(late, at=replace(late.at, iteration=None))  # type: ignore[type-var]
    decision = decide(both, late)
    assert [type(draft.fact).TYPE for draft in decision.facts] == ["session_failed"]
    assert decision.facts[0].fact.kind is FailureKind.DELIVERY_FAILED  # type: ignore[union-attr]


def test_a_stop_ends_the_step_and_a_resume_looks_what_it_did() -> None:
    play(
        delivering(),
        f"""{WORKED}
        > delivery prepared
        {COMMITTED}
        > pause asked now
        < deliver_ending commit 1
        ? end deliver commit 1 of t1
        > delivery lost
        < session_paused asked
        > resume
        < effect_reconciled 1 absent repeat
        < deliver_start commit 2
        < effect_intended 2 refs/heads/main c1
        ? deliver commit 2 of t1
        """,
    )


def test_a_replay_delivers_nothing() -> None:
    play(
        delivering(),
        """
        > start replay
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        > completed
        < node_complete plan: Completed 1 iterations (max: 1)
        < node_start ship
        < delivered commit not_delivered
        < node_complete ship: not_delivered
        < session_complete all_loops_complete
        """,
    )


def test_a_skipped_stage_delivers_nothing() -> None:
    play(
        delivering(),
        f"""{WORKED}
        > skip ship
        < deliver_ending prepare 1
        ? end deliver prepare 1 of t1
        > delivery lost
        < stage_verdict pass
        < node_complete ship: skipped
        < session_complete all_loops_complete
        """,
    )


def test_the_latest_tree_of_the_run_is_delivered() -> None:
    """That of a verdict, or of an iteration after it; None if that isn't known."""
    state = play(delivering(), WORKED).state
    assert state is not None
    assert state.tree == "t1"


def test_a_second_look_at_the_repository_changes_nothing() -> None:
    conversation = play(delivering(), WORKED)
    assert conversation.state is not None
    seen = Event(99, conversation.now, "auth", "x", f.RepositorySeen(DeliveryBase("t9")), None)
    assert evolve(conversation.state, seen).base == conversation.state.base


def test_step_of_a_damaged_log_is_not_a_task() -> None:
    conversation = play(delivering(), f"{WORKED}\n> delivery prepared\n{COMMITTED}")
    assert conversation.state is not None
    assert [task.about for task in started_tasks(conversation.state)] == ["commit"]
    assert not started_tasks(replace(conversation.state, base=None))


def started_tasks(state: RunState) -> list[DeliverTask]:
    return [task for task in decide(delivering(), state).work if isinstance(task, DeliverTask)]


def test_run_rehearsed_with_a_delivery_delivers_nothing() -> None:
    past = play(plan_of(stage(), stage("ship")), PLAIN).events
    rehearsal = rehearse(delivering(), past)
    assert "delivered: no_changes" in [step.detail for step in rehearsal.now]


def test_delivery_is_progress() -> None:
    assert f.Delivered(DeliveredWork("commit", "no_changes")).is_progress
