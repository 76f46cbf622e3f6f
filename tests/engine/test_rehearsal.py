"""Rehearsing a past run with another pipeline: the course is the same, or it is said where it parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.engine.any_log import PLAN, any_log
from tests.engine.any_run import PLANS, any_run
from tests.engine.plans import block, event, nested, plan_of, stage
from tests.engine.playbook import Play, play

from agentforge.engine.rehearsal.rehearse import Rehearsal, rehearse
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.course import CourseStep
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.event import Event
from agentforge.model.plan import Guardrails, Judgment, Plan, ProviderChoice, RetryPolicy

THREE = plan_of(stage("review", runs=3))
PAST = """
    > start
    < node_start review
    ? prepare review 1
    > prepared
    < attempt_start 1
    ? execute review 1 attempt 1
    > completed
    ? prepare review 2
    > prepared
    < attempt_start 1
    ? execute review 2 attempt 1
    > completed stop
    < node_complete review: Agent requested stop at iteration 2
    < session_complete all_loops_complete
"""


def past(plan: Plan, script: str) -> list[Event]:
    return play(plan, script).events


def test_events_without_a_plan_have_nothing_to_rehearse() -> None:
    assert rehearse(THREE, [event(1, f.TimerFired("retry"))]) == Rehearsal((), ())


def parted(rehearsal: Rehearsal) -> tuple[CourseStep, CourseStep | None]:
    assert rehearsal.difference is not None
    return rehearsal.difference.past, rehearsal.difference.now


# -- the same course


@given(any_run())
def test_any_run_rehearsed_with_its_own_plan_has_no_difference(run: tuple[Plan, list[Event]]) -> None:
    plan, events = run
    rehearsal = rehearse(plan, events)
    assert rehearsal.difference is None
    assert rehearsal.past == rehearsal.now


@given(any_run(), st.sampled_from(PLANS))
def test_any_run_can_be_rehearsed_with_any_plan(run: tuple[Plan, list[Event]], other: Plan) -> None:
    rehearsal = rehearse(other, run[1])
    assert rehearsal.is_same == (rehearsal.difference is None)


@given(any_log, st.sampled_from([PLAN, *PLANS]))
def test_even_a_damaged_log_can_be_rehearsed(events: list[Event], plan: Plan) -> None:
    for log in (events, events[1:]):
        rehearsal = rehearse(plan, log)
        assert rehearsal.is_same == (rehearsal.difference is None)


def test_outcome_of_a_node_that_its_own_plan_does_not_have_is_ignored() -> None:
    events = past(THREE, PAST)
    strange = replace(events[-1], fact=f.AttemptLost(1, "the engine died", started=True))
    strange = replace(strange, cursor=Cursor("9", 1, 1))
    assert rehearse(THREE, [*events, strange]).is_same


def test_decision_at_a_node_that_its_own_plan_does_not_have_is_ignored() -> None:
    plan = plan_of(stage())
    first = past(plan, "> start\n< node_start plan\n? prepare plan 1")
    unknown = event(len(first) + 1, f.NodeStarted("other", "9"), Cursor("9", 1, 0))
    assert rehearse(plan, [*first, unknown]).difference is None


def test_a_log_without_its_start_is_rehearsed_from_the_plan_change() -> None:
    plan = plan_of(stage("review"))
    change = f.PlanChanged(plan, Destination("0"), {"0": "0"}, {})
    rehearsal = rehearse(plan, [event(7, change, Cursor("0", 0, 0))])
    assert rehearsal.past == ()


@pytest.mark.parametrize("answer", ["succeeded", "resume", "cancel"])
def test_answers_are_replayed(answer: str) -> None:
    """Also where it counts an iteration as complete that no agent completed."""
    plan = plan_of(stage("review", runs=2, semantics="at_most_once"))
    conversation = Play(plan)
    for words in ("start", "prepared", "lost", f"answer at_most_once-6 {answer}"):
        conversation.happens(words)
    rehearsal = rehearse(plan, conversation.events)
    assert rehearsal.is_same
    assert rehearsal.past == rehearsal.now


def test_prompts_models_and_delays_are_not_part_of_the_course() -> None:
    events = past(THREE, PAST)
    other = stage("review", runs=3, delay=60, prompt="other", provider=ProviderChoice("claude", "haiku"))
    assert rehearse(plan_of(other), events).is_same


def test_a_removed_delay_makes_no_difference() -> None:
    slow = plan_of(stage("review", runs=2, delay=5))
    events = past(
        slow,
        """
        > start
        < node_start review
        ? prepare review 1
        > prepared
        < attempt_start 1
        ? execute review 1 attempt 1
        > completed
        < delay_start in 5s
        ? wait delay 5s
        > fired delay
        ? prepare review 2
        > prepared
        < attempt_start 1
        ? execute review 2 attempt 1
        > completed
        < node_complete review: Completed 2 iterations (max: 2)
        < session_complete all_loops_complete
        """,
    )
    assert rehearse(plan_of(stage("review", runs=2)), events).is_same


def test_a_stage_that_moved_but_comes_at_the_same_time_is_the_same() -> None:
    events = past(THREE, PAST)
    assert rehearse(plan_of(stage("review", runs=9)), events).is_same


# -- where courses part


def test_a_lower_maximum_ends_the_stage_earlier() -> None:
    was, now = parted(rehearse(plan_of(stage("review", runs=1)), past(THREE, PAST)))
    assert was == CourseStep("iteration", "review", iteration=2)
    assert now == CourseStep("node_over", "review", iteration=1, detail="Completed 1 iterations (max: 1)")


def test_a_judge_instead_of_the_agents_decision_continues_to_unrecorded_work() -> None:
    rehearsal = rehearse(plan_of(stage("review", termination=Judgment(5, 3))), past(THREE, PAST))
    was, now = parted(rehearsal)
    assert was == CourseStep("node_over", "review", iteration=2, detail="Agent requested stop at iteration 2")
    assert now == CourseStep("iteration", "review", iteration=3)
    assert rehearsal.unrecorded == (CourseStep("attempt", "review", iteration=3, attempt=1),)


def test_an_inserted_stage_is_entered() -> None:
    rehearsal = rehearse(plan_of(stage("plan"), stage("review", runs=3)), past(THREE, PAST))
    was, now = parted(rehearsal)
    assert was == CourseStep("node_entered", "review")
    assert now == CourseStep("node_entered", "plan")
    assert rehearsal.unrecorded == (CourseStep("attempt", "plan", iteration=1, attempt=1),)


def test_a_stage_behind_the_last_one_keeps_the_run_from_being_complete() -> None:
    was, now = parted(rehearse(plan_of(stage("review", runs=3), stage("ship")), past(THREE, PAST)))
    assert was.what == "run_completed"
    assert now == CourseStep("node_entered", "ship")


def test_stages_in_another_order_are_answered_from_the_record() -> None:
    two = plan_of(stage("a"), stage("b"))
    script = "> start\n< node_start a\n" + "".join(
        f"""
        ? prepare {name} 1
        > prepared
        < attempt_start 1
        ? execute {name} 1 attempt 1
        > completed
        < node_complete {name}: Completed 1 iterations (max: 1)
        < {after}
        """
        for name, after in (("a", "node_start b"), ("b", "session_complete all_loops_complete"))
    )
    rehearsal = rehearse(plan_of(stage("b"), stage("a")), past(two, script))
    assert parted(rehearsal)[1] == CourseStep("node_entered", "b")
    assert rehearsal.unrecorded == ()
    assert rehearsal.now[-1].what == "run_completed"


def test_another_provider_is_a_difference_and_the_rest_is_still_compared() -> None:
    other = plan_of(stage("review", runs=3, provider=ProviderChoice("codex", "gpt")))
    rehearsal = rehearse(other, past(THREE, PAST))
    was, now = parted(rehearsal)
    assert (was.detail, now and now.detail) == ("claude", "codex")
    assert rehearsal.now[-1] == rehearsal.past[-1]


FAILED = """
    > start
    < node_start review
    ? prepare review 1
    > prepared
    < attempt_start 1
    ? execute review 1 attempt 1
    > error provider_crashed
    < retry_scheduled 2/2 in 2s
    ? wait retry 2s
    > fired retry
    < attempt_start 2
    ? execute review 1 attempt 2
    > error provider_crashed
    < session_failed provider_crashed
    > resume
    < attempt_start 3
    ? execute review 1 attempt 3
    > completed stop
    < node_complete review: Agent requested stop at iteration 1
    < session_complete all_loops_complete
"""


def test_a_run_that_failed_and_was_resumed_is_followed_to_its_end() -> None:
    assert rehearse(plan_of(stage("review", runs=8)), past(THREE, FAILED)).is_same


def test_fewer_attempts_fail_the_run_earlier() -> None:
    other = plan_of(stage("review", runs=3, retry=RetryPolicy(max_attempts=1)))
    was, now = parted(rehearse(other, past(THREE, FAILED)))
    assert was == CourseStep("attempt", "review", iteration=1, attempt=2, detail="claude")
    assert now is not None
    assert (now.what, now.detail) == ("run_failed", "provider_crashed")


def test_a_runtime_limit_would_have_opened_a_request() -> None:
    slow = PAST.replace("> completed\n", "@ 100\n    > completed\n", 1)
    rehearsal = rehearse(plan_of(stage("review", runs=3, guardrails=Guardrails(50))), past(THREE, slow))
    was, now = parted(rehearsal)
    assert was == CourseStep("iteration", "review", iteration=2)
    assert now is not None
    assert (now.what, now.detail) == ("person_asked", "runtime_limit")
    assert rehearsal.now[-1].what == "run_paused"


def test_preparation_and_queue_errors_are_not_outcomes_of_other_tasks() -> None:
    unprepared = """
        > start
        < node_start review
        ? prepare review 1
        > unprepared
        < session_failed prompt_unreadable
    """
    rehearsal = rehearse(plan_of(stage("first"), stage("review", runs=3)), past(THREE, unprepared))
    assert parted(rehearsal)[1] == CourseStep("node_entered", "first")
    swapped = rehearse(plan_of(stage("review", runs=3), stage("last")), past(THREE, unprepared))
    assert swapped.is_same


def test_a_stop_is_carried_out_where_the_courses_have_parted_already() -> None:
    stopped = """
        > start
        < node_start review
        ? prepare review 1
        > prepared
        < attempt_start 1
        ? execute review 1 attempt 1
        > completed
        ? prepare review 2
        > prepared
        < attempt_start 1
        ? execute review 2 attempt 1
        > pause asked grace=5
        ? execute review 2 attempt 1
        ? wait stop 5s
        > completed
        < session_paused asked
    """
    judged = plan_of(stage("review", termination=Judgment(5)))
    rehearsal = rehearse(judged, past(THREE, stopped))
    was, now = parted(rehearsal)
    assert was == CourseStep("iteration", "review", iteration=2)
    assert now == CourseStep("judge", "review", iteration=1, attempt=1)
    assert rehearsal.unrecorded == (CourseStep("judge", "review", iteration=1, attempt=1),)


# -- blocks, nested pipelines, changed plans

DUEL = """
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
    > codex: completed
    < codex: stage_complete draft: Completed 1 iterations (max: 1)
    < codex: parallel_provider_complete completed
    ? claude: execute draft 1 attempt 1
    > claude: completed
    < claude: stage_complete draft: Completed 1 iterations (max: 1)
    < claude: parallel_provider_complete completed
    ? manifest duel
    > manifest
    < node_complete duel: all providers complete
    < session_complete all_loops_complete
"""


def test_a_block_with_another_provider_waits_for_that_one() -> None:
    two = plan_of(block("claude codex", stage("draft")))
    rehearsal = rehearse(plan_of(block("claude codex gemini", stage("draft"))), past(two, DUEL))
    was, now = parted(rehearsal)
    assert (was.detail, now and now.detail) == ("claude, codex", "claude, codex, gemini")
    assert rehearsal.unrecorded == (CourseStep("attempt", "duel/draft", "gemini", iteration=1, attempt=1),)


def test_a_longer_stage_in_one_block_parts_in_the_branch_that_is_first() -> None:
    two = plan_of(block("claude codex", stage("draft")))
    rehearsal = rehearse(plan_of(block("claude codex", stage("draft", runs=2))), past(two, DUEL))
    was, now = parted(rehearsal)
    assert (was.what, was.branch) == ("stage_over", "codex")
    assert now == CourseStep("iteration", "duel/draft", "codex", iteration=2)
    assert {turn.branch for turn in rehearsal.unrecorded} == {"claude", "codex"}


def test_the_same_stage_in_a_nested_pipeline_is_another_place() -> None:
    was, now = parted(rehearse(plan_of(nested("polish", stage("review", runs=3))), past(THREE, PAST)))
    assert was.stage == "review"
    assert now == CourseStep("node_entered", "polish/review")


def recompiled(before: Plan, after: Plan) -> list[Event]:
    """Paused after the first iteration of `review`, continued with another plan, stopped by the agent."""
    paused = """
        > start
        < node_start review
        ? prepare review 1
        > prepared
        < attempt_start 1
        ? execute review 1 attempt 1
        > pause asked
        ? execute review 1 attempt 1
        > completed
        < session_paused asked
    """
    conversation = play(before, paused)
    assert conversation.state is not None
    conversation.record(plan_change(after, before, conversation.state), conversation.state.cursor)
    for line in ("resume", "prepared", "completed stop"):
        conversation.happens(line)
    assert conversation.state is not None
    assert conversation.state.status.value == "completed"
    return conversation.events


def test_a_recompiled_run_is_compared_with_the_plan_that_is_in_force() -> None:
    after = plan_of(stage("first"), stage("review", runs=9))
    events = recompiled(THREE, after)
    rehearsal = rehearse(after, events)
    assert rehearsal.is_same
    assert [turn.what for turn in rehearsal.now][:3] == ["resumed", "iteration", "attempt"]
    assert parted(rehearse(plan_of(stage("review", runs=1)), events)) == (
        CourseStep("iteration", "review", iteration=2),
        CourseStep("node_over", "review", iteration=1, detail="Completed 1 iterations (max: 1)"),
    )


def test_a_pipeline_without_the_node_of_the_recompiled_run_is_reported() -> None:
    events = recompiled(THREE, plan_of(stage("review", runs=9)))
    difference = rehearse(plan_of(stage("other")), events).difference
    assert difference is not None
    assert difference.why == "the current node 'review' is no longer in refine.yaml"
