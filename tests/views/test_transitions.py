"""The transitions of a run: all, with what the visit before each took."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.views.item_runs import PLAN, ItemStory, at
from tests.views.test_work import Story

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.failure import FailureKind
from agentforge.model.result import Usage
from agentforge.views.transitions import StageTransition, Transitions, transitions_before

PAUSED = f.SessionPaused("requested")
RESUMED = f.SessionResumed("ada")


def transitions(story: Story) -> list[StageTransition]:
    fold = Transitions()
    found = [fold.apply(event) for event in story.events]
    return [one for one in found if one is not None]


def names(story: Story) -> list[tuple[str | None, str]]:
    return [(one.from_stage, one.to_stage) for one in transitions(story)]


def left(story: Story, where: Cursor, **more: Any) -> Story:
    node = PLAN.stage(where.node_path, where.provider)
    assert node is not None
    return story.add(f.NodeCompleted(node.id, "enough", 1, **more), where)


def entered() -> ItemStory:
    return ItemStory().enter("0")


def test_a_run_from_its_start_to_its_end() -> None:
    story = entered().iteration(at("0", 1), usage=Usage(2000, 450))
    left(story, at("0", 1))
    story.enter("2").add(f.SessionCompleted("all_loops_complete"))
    assert transitions(story) == [
        StageTransition("auth", None, "plan", 0, 0, 1, 0, ""),
        StageTransition("auth", "plan", "verify", 4000, 2450, 1, 0, "enough"),
        StageTransition("auth", "verify", "COMPLETE", 1000, 0, 1, 0, "reached the end of the pipeline"),
    ]


def test_a_way_back_has_its_reason_and_its_cycle() -> None:
    story = ItemStory().enter("2").iteration(at("2", 1))
    story.add(f.StageVerdictReached("fail", "a test fails"), at("2", 1))
    story.add(f.StageTransitioned("verify", "build", "fail", cycle=2, of=3), at("2", 1))
    left(story, at("2", 1), verdict="fail")
    story.enter("1", 2)
    back = transitions(story)[-1]
    assert (back.reason, back.cycle, back.cycle_limit) == ("fail: a test fails", 2, 3)
    assert back.words == "verify → build (cycle 2 of 3)"
    left(story, at("1", 0, 2), verdict="pass")
    story.add(f.StageVerdictReached("pass"), at("1", 0, 2)).enter("2", 2)
    onward = transitions(story)[-1]
    assert (onward.cycle_count, onward.cycle, onward.words) == (2, 0, "build → verify")


def test_a_verdict_without_a_reason_is_the_reason() -> None:
    story = entered().add(f.StageVerdictReached("pass"), at("0", 1))
    left(story, at("0", 1), verdict="pass")
    assert transitions(story.enter("1"))[-1].reason == "pass"


def test_a_rejected_stage_is_entered_again() -> None:
    story = entered().add(f.NodeRestarted("plan", "rejected", "too long", "ada", 1), at("0", 1))
    again = transitions(story.enter("0", 2))[-1]
    assert (again.from_stage, again.to_stage, again.reason) == ("plan", "plan", "too long")


@pytest.mark.parametrize(
    ("fact", "stop", "reason"),
    [
        (PAUSED, "PAUSED", "on request"),
        (f.SessionFailed(FailureKind.AGENT_ERROR, "it gave up", "plan"), "FAILED", "it gave up"),
        (f.SessionAborted("no time"), "CANCELLED", "no time"),
        (f.AwaitingApproval(()), "AWAITING_APPROVAL", ""),
    ],
)
def test_a_stop_is_a_transition_and_so_is_the_way_back_into_the_stage(
    fact: f.AnyFact, stop: str, reason: str
) -> None:
    story = entered().begin(at("0", 1)).add(fact)
    (_, stopped) = transitions(story)
    assert stopped == StageTransition("auth", "plan", stop, 3000, 0, 1, 0, reason)
    if stop == "CANCELLED":
        return
    story.add(RESUMED).begin(at("0", 1), attempt=2)
    assert transitions(story)[2:] == [StageTransition("auth", stop, "plan", 0, 0, 1, 0, "")]


def test_a_duration_leaves_out_what_the_run_waited() -> None:
    story = entered().add(PAUSED).add(RESUMED)
    left(story, at("0"))
    assert transitions(story.enter("1"))[-1].duration_ms == 2000


def test_a_stop_between_two_stages() -> None:
    story = entered()
    left(story, at("0"))
    story.add(PAUSED)
    (_, stopped) = transitions(story)
    assert (stopped.from_stage, stopped.to_stage, stopped.duration_ms) == ("plan", "PAUSED", 1000)
    assert names(story.add(RESUMED).enter("1"))[2:] == [("PAUSED", "build")]


def test_a_stop_before_the_first_stage_and_after_another_stop() -> None:
    story = ItemStory().add(PAUSED).add(f.SessionAborted("no time"))
    assert names(story) == [(None, "PAUSED"), ("PAUSED", "CANCELLED")]
    assert names(entered().add(PAUSED).add(f.SessionAborted("no time")))[1:] == [
        ("plan", "PAUSED"),
        ("PAUSED", "CANCELLED"),
    ]


def test_a_run_that_stops_again_before_it_comes_to_a_stage_has_not_moved() -> None:
    story = ItemStory().add(PAUSED).add(RESUMED).add(PAUSED)
    assert names(story) == [(None, "PAUSED")]


def test_attempts_after_failed_ones_are_retries() -> None:
    story = entered().begin(at("0", 1))
    story.add(f.ErrorOccurred(FailureKind.PROVIDER_CRASHED, "it died", "plan", 1), at("0", 1))
    story.begin(at("0", 1), attempt=2).complete(at("0", 1), attempt=2)
    left(story, at("0", 1))
    after = transitions(story.enter("1"))[-1]
    assert (after.retry_count, after.tokens_used) == (1, None)


def test_branches_of_a_block_have_transitions_of_their_own() -> None:
    story = ItemStory()
    block = Cursor("3", 1, 0)
    story.add(f.NodeStarted("duel", "3", kind="parallel", providers=("claude", "codex")), block)
    for provider in ("claude", "codex"):
        story.add(f.ProviderStarted(provider, ("vote",)), replace(block, provider=provider))
        story.iteration(at("3.0", 1, branch=provider))
    story.add(f.StageCompleted("vote", "enough", 1), at("3.0", 1, branch="claude"))
    story.add(f.ProviderCompleted("claude"), replace(block, provider="claude"))
    failed = f.ProviderCompleted("codex", "failed", error="it died")
    story.add(failed, replace(block, provider="codex"))
    story.add(f.ProviderCompleted("ghost"), replace(block, provider="ghost"))
    found = transitions(story)
    assert [one.words for one in found] == [
        "start → duel",
        "claude: duel → vote",
        "codex: duel → vote",
        "claude: vote → duel",
        "codex: vote → FAILED",
    ]
    assert found[-1].reason == "it died"


def test_a_branch_without_its_block_starts_it() -> None:
    story = ItemStory().iteration(at("3.0", 1, branch="claude"))
    assert names(story) == [(None, "vote")]


def test_a_new_plan_is_not_a_transition() -> None:
    story = ItemStory().iteration(at("3.0", 1, branch="claude"))
    story.add(f.PlanChanged(PLAN, None, {"3.0": "3.0", "0": None}, {}))
    story.add(f.AttemptStarted(2, 2, "claude", "opus"), at("3.0", 1, branch="claude"))
    assert len(names(story)) == 1


def test_the_fold_continues_a_log_that_another_process_began() -> None:
    story = entered().begin(at("0", 1)).add(PAUSED)
    next_one = story.events[-1]
    stopped = transitions_before(next_one, story.events).apply(next_one)
    assert stopped is not None
    assert (stopped.from_stage, stopped.to_stage) == ("plan", "PAUSED")
    assert transitions_before(next_one, story.events[:2]).apply(next_one) is not None
    first = story.events[0]
    assert transitions_before(first, story.events).apply(first) is None
