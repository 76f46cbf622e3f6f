"""Continuing a run with another plan: its new position, and what prevents it."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, block, event, nested, plan_of, stage, started

from agentforge.engine.evolve.run import evolve
from agentforge.engine.replan import moved_paths, plan_change
from agentforge.model import facts as f
from agentforge.model.artifact import PlannedItem
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.errors import IllegalMove
from agentforge.model.failure import FailureKind
from agentforge.model.plan import Fixed, Items, Plan, ProviderChoice
from agentforge.model.result import Decision, Result
from agentforge.model.state import AgentSession, Between, RunState


def state_after(plan: Plan, *said: tuple[f.AnyFact, Cursor | None]) -> RunState:
    state = evolve(None, event(1, started(plan), Cursor("0", 0, 0)))
    for number, (fact, cursor) in enumerate(said, 2):
        state = evolve(state, event(number, fact, cursor))
    return state


def entered(name: str, path: str, rounds: tuple[int, ...] = (1,), run: int = 1) -> tuple[f.AnyFact, Cursor]:
    return f.NodeStarted(name, path, run, f"stage-{name}", rounds), Cursor(path, run, 0)


def done(name: str, path: str, following: str | None = None) -> tuple[f.AnyFact, Cursor]:
    destination = Destination(following) if following else None
    return f.NodeCompleted(name, "done", 1, next=destination), Cursor(path, 1, 1)


def place_in(new: Plan, old: Plan, state: RunState) -> str | None:
    """The path at which the run continues; None at its end."""
    at = plan_change(new, old, state).at
    return at.path if at else None


def attempt_in_flight(path: str, provider: str | None = None) -> list[tuple[f.AnyFact, Cursor]]:
    cursor = Cursor(path, 1, 1, provider)
    return [
        (f.IterationStarted("x", "x", "claude", "opus", "0"), cursor),
        (f.AttemptStarted(1, 2, "claude", "opus"), cursor),
    ]


def duel(*providers: str) -> tuple[f.AnyFact, Cursor]:
    return f.NodeStarted("duel", "0", kind="parallel", providers=providers), Cursor("0", 1, 0)


OLD = plan_of(stage("plan"), stage("build"))


def test_replan_before_the_first_node_starts_at_the_first_node() -> None:
    assert place_in(plan_of(stage("other")), OLD, state_after(OLD)) == "0"


def test_replan_between_nodes_continues_after_the_completed_or_at_the_next_node() -> None:
    between = state_after(OLD, entered("plan", "0"), done("plan", "0", "1"))
    assert place_in(plan_of(stage("plan"), stage("new"), stage("build")), OLD, between) == "1"
    assert place_in(plan_of(stage("new"), stage("build")), OLD, between) == "1"
    with pytest.raises(IllegalMove, match=r"the current node 'build' is no longer in refine\.yaml"):
        place_in(plan_of(stage("new")), OLD, between)


def test_replan_between_nodes_keeps_the_destination() -> None:
    """A router sent it back, and the engine died before that node was entered."""
    sent_back = state_after(OLD, entered("build", "1"), done("build", "1", "0"))
    assert place_in(plan_of(stage("new"), stage("plan"), stage("build")), OLD, sent_back) == "1"
    with pytest.raises(IllegalMove, match=r"the current node 'plan' is no longer in refine\.yaml"):
        place_in(plan_of(stage("build"), stage("more")), OLD, sent_back)


@pytest.mark.parametrize(
    ("new", "path"), [(("build", "plan"), "1"), (("plan", "build"), "0"), (("more", "more", "plan"), "2")]
)
def test_replan_moves_the_cursor_with_the_node(new: tuple[str, ...], path: str) -> None:
    """What is recorded next is about the node at its new place."""
    state = state_after(OLD, entered("plan", "0"))
    change = plan_change(plan_of(*map(stage, new)), OLD, state)
    assert evolve(state, event(3, change, state.cursor)).cursor == Cursor(path, 1, 0)


def test_replan_after_the_last_node_is_refused_if_it_was_removed() -> None:
    over = state_after(OLD, entered("build", "1"), done("build", "1"))
    assert place_in(plan_of(stage("build"), stage("more")), OLD, over) == "1"
    with pytest.raises(IllegalMove, match="node 'build'"):
        place_in(plan_of(stage("plan")), OLD, over)


def test_replan_another_kind_of_node_is_another_node() -> None:
    inside = state_after(OLD, entered("plan", "0"))
    with pytest.raises(IllegalMove, match="node 'plan'"):
        place_in(plan_of(block("claude", stage("plan"), id="plan")), OLD, inside)


def test_replan_keeps_to_the_pass_and_the_nested_pipeline() -> None:
    old = plan_of(stage("a"), nested("in", stage("b"), stage("c")), passes=2)
    new = plan_of(nested("in", stage("x"), stage("c")), passes=2)
    inside = state_after(old, entered("c", "1.1", (2, 1), run=2))
    assert plan_change(new, old, inside).at == Destination("0.1", (2, 1))
    assert moved_paths(old, new) == {"0": None, "1.0": None, "1.1": "0.1"}


@pytest.mark.parametrize(
    ("new", "refused"),
    [
        (plan_of(stage("plan"), stage("more")), False),
        (plan_of(stage("first"), stage("plan")), False),
        (plan_of(stage("plan", provider=ProviderChoice("codex", ""))), True),
        (plan_of(stage("plan", provider=ProviderChoice("claude", "haiku"))), False),
    ],
)
def test_replan_while_the_agent_may_be_running_keeps_its_provider(new: Plan, refused: bool) -> None:
    busy = state_after(OLD, entered("plan", "0"), *attempt_in_flight("0"))
    if not refused:
        moved = evolve(busy, event(9, plan_change(new, OLD, busy)))
        assert moved.node is not None
        assert moved.node.folder == "stage-plan"
        assert new.by_path[moved.node.path].id == "plan"
        return
    with pytest.raises(IllegalMove, match="the agent of node 'plan' may still be running"):
        place_in(new, OLD, busy)


def test_replan_while_the_judge_may_be_running_keeps_its_judge() -> None:
    judged: list[tuple[f.AnyFact, Any]] = [(f.JudgeStarted("claude", "haiku"), Cursor("0", 1, 1))]
    busy = state_after(OLD, entered("plan", "0"), *judged)
    assert place_in(OLD, OLD, busy) == "0"
    with pytest.raises(IllegalMove, match="may still be running"):
        place_in(replace(OLD, judge=ProviderChoice("codex", "")), OLD, busy)


BLOCK = plan_of(block("claude codex", stage("ideas"), stage("rate")))


def test_replan_keeps_the_list_of_a_visit_that_has_begun() -> None:
    old, other, fixed = (
        plan_of(stage("do", termination=ends)) for ends in (Items(9, "plan.a"), Items(9, "plan.b"), Fixed(3))
    )
    state = state_after(old, entered("do", "0"))
    assert place_in(other, old, state) == "0", "it has no items yet"
    state = evolve(state, event(9, f.ItemsPlanned((PlannedItem("a", "1"),)), Cursor("0", 1, 0)))
    assert place_in(old, old, state) == place_in(fixed, old, state) == "0"
    with pytest.raises(IllegalMove, match=r"takes 'plan\.b' in the new plan"):
        plan_change(other, old, state)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (plan_of(block("claude codex", stage("ideas"), stage("rate"), stage("more"))), ""),
        (plan_of(block("claude", stage("ideas"), stage("rate"))), "the providers of block 'duel' changed"),
        (plan_of(block("claude codex", stage("other"), stage("rate"))), "stages that claude has started"),
    ],
)
def test_replan_of_a_running_block_keeps_its_providers_and_started_stages(new: Plan, message: str) -> None:
    busy = state_after(BLOCK, duel("claude", "codex"), *attempt_in_flight("0.0", "claude"))
    if not message:
        assert place_in(new, BLOCK, busy) == "0"
        return
    with pytest.raises(IllegalMove, match=message):
        place_in(new, BLOCK, busy)


def test_replanned_block_has_its_new_paths() -> None:
    new = plan_of(stage("first"), block("claude codex", stage("ideas"), stage("rate")))
    completed = f.IterationCompleted(
        "ideas", 1, Decision.CONTINUE, "", "/r", Result(summary="x"), duration_ms=1
    )
    said = [*attempt_in_flight("0.0", "claude"), (completed, Cursor("0.0", 1, 1, "claude"))]
    quiet = state_after(BLOCK, duel("claude", "codex"), *said)
    changed = evolve(quiet, event(9, plan_change(new, BLOCK, quiet)))
    assert changed.block is not None
    assert changed.block.path == "1"
    claude = changed.block.branch("claude")
    assert claude is not None
    assert claude.stage is not None
    assert (claude.stage.path, claude.stage.completed) == ("1.0", 1)
    assert moved_paths(BLOCK, new) == {"0": "1", "0.0": "1.0", "0.1": "1.1"}


def test_replanned_records_follow_their_nodes() -> None:
    between = state_after(OLD, entered("plan", "0"), done("plan", "0", "1"))
    new = plan_of(stage("new"), stage("plan"), stage("build"))
    changed = evolve(between, event(9, plan_change(new, OLD, between)))
    assert [record.path for record in changed.stages] == ["1"]
    assert changed.visits == {"1": 1}
    assert changed.at == Between(Destination("2"))
    gone = evolve(between, event(9, plan_change(plan_of(stage("build")), OLD, between)))
    assert gone.stages == ()


def test_visit_count_continues_for_a_node_that_returns() -> None:
    """Its folders are still there."""
    inside = state_after(OLD, entered("plan", "0"), done("plan", "0", "1"), entered("build", "1"))
    without, again = plan_of(stage("build")), plan_of(stage("new"), stage("build"), stage("plan"))
    gone = evolve(inside, event(9, plan_change(without, OLD, inside)))
    assert gone.visits == {"stage-plan": 1, "0": 1}
    still_gone = evolve(gone, event(10, plan_change(without, without, gone)))
    assert still_gone.visits == gone.visits
    back = evolve(still_gone, event(11, plan_change(again, without, still_gone)))
    assert back.visits == {"2": 1, "1": 1}


@pytest.mark.parametrize("branch", [None, "claude"])
def test_replan_drops_the_session_and_unavailable_providers_because_the_chain_may_differ(
    branch: str | None,
) -> None:
    at = stage("plan", fallbacks=(ProviderChoice("codex", "gpt"),))
    plan = plan_of(block("claude codex", at)) if branch else plan_of(at)
    path = "0.0" if branch else "0"
    begun = duel("claude", "codex") if branch else entered("plan", "0")
    here = Cursor(path, 1, 1, branch)
    failed = f.ErrorOccurred(FailureKind.PROVIDER_AUTH, "log in", "plan", 1, agent_session="abc")
    gave_way = f.ProviderChanged(1, "claude", 0, "codex", 1, "log in")
    state = state_after(plan, begun, *attempt_in_flight(path, branch), (failed, here), (gave_way, here))
    moved = evolve(state, event(9, plan_change(plan, plan, state)))
    now = moved.stage(branch)
    assert now is not None
    assert now.unavailable == ()
    assert now.iteration is not None
    assert now.iteration.agent is None


def test_replan_keeps_the_session_of_a_running_agent() -> None:
    here = Cursor("0", 1, 1)
    lost = f.AttemptLost(1, "died", started=True, agent_session="abc")
    again = f.AttemptStarted(2, 2, "claude", "opus", resume="abc")
    state = state_after(OLD, entered("plan", "0"), *attempt_in_flight("0"), (lost, here), (again, here))
    moved = evolve(state, event(9, plan_change(OLD, OLD, state)))
    assert moved.iteration is not None
    assert moved.iteration.agent == AgentSession("abc", 0, 1)


def test_replan_replaces_the_end_of_a_delay() -> None:
    delay = (f.DelayStarted(NOON), Cursor("1", 1, 0))
    inside = state_after(OLD, entered("plan", "0"), done("plan", "0", "1"), entered("build", "1"), delay)
    moved = evolve(inside, event(9, plan_change(OLD, OLD, inside)))
    assert (inside.node and inside.node.delay_due, moved.node and moved.node.delay_due) == (NOON, None)


# -- nodes that the run has passed without running them


def skipped_in(new: Plan, old: Plan, state: RunState) -> list[str]:
    return [new.places[path].node.id for path in plan_change(new, old, state).skipped]


A_B = plan_of(stage("a"), stage("b"), stage("c"))


@pytest.mark.parametrize(
    ("nodes", "skipped"),
    [("abc", ""), ("bac", "b"), ("bca", "bc"), ("xabc", "x"), ("axbc", ""), ("ac", "")],
)
def test_replan_in_a_node_skips_what_comes_before_it_now(nodes: str, skipped: str) -> None:
    inside, new = state_after(A_B, entered("a", "0")), plan_of(*map(stage, nodes))
    assert skipped_in(new, A_B, inside) == list(skipped)
    moved = evolve(inside, event(9, plan_change(new, A_B, inside)))
    assert sorted(new.places[path].node.id for path in moved.skipped) == sorted(skipped)


def test_replan_before_the_first_node_skips_nothing() -> None:
    assert skipped_in(plan_of(*map(stage, "ba")), A_B, state_after(A_B)) == []


def test_replan_between_nodes_and_at_the_end_skips_what_was_not_run() -> None:
    between = state_after(A_B, entered("a", "0"), done("a", "0", "1"))
    assert skipped_in(plan_of(*map(stage, "xba")), A_B, between) == ["x", "b"]
    over = state_after(A_B, entered("a", "0"), done("a", "0", "1"), entered("c", "2"), done("c", "2"))
    assert skipped_in(plan_of(*map(stage, "abxc")), A_B, over) == ["b", "x"]


def requiring(plan: Plan, *ids: str) -> Plan:
    return replace(plan, pipeline=replace(plan.pipeline, require=ids))


@pytest.mark.parametrize(
    ("nodes", "required", "refused"),
    [
        ("xab", "x", "x"),
        ("xab", "a", ""),
        ("xab", "b", ""),
        ("axb", "x", ""),
        ("abx", "x", ""),
        ("bxa", "bx", "b"),
    ],
)
def test_replan_is_refused_if_the_run_is_past_a_required_node(
    nodes: str, required: str, refused: str
) -> None:
    """Inserted before the place of the run, or passed over by a route."""
    inside = state_after(A_B, entered("a", "0"))
    new = requiring(plan_of(*map(stage, nodes)), *required)
    if not refused:
        assert plan_change(new, A_B, inside).at == Destination(str(nodes.index("a")))
        return
    with pytest.raises(IllegalMove, match=f"requires '{refused}', which was not visited"):
        plan_change(new, A_B, inside)


def test_replan_leaves_a_required_stage_behind_that_a_person_skips() -> None:
    inside = state_after(A_B, entered("a", "0"), (f.Waived("", "why", "Ada", "x"), None))
    assert plan_change(requiring(plan_of(*map(stage, "xab")), "x"), A_B, inside).skipped == ("0",)


def test_replan_looks_at_the_required_nodes_of_nested_pipelines() -> None:
    old = plan_of(nested("in", stage("a"), stage("b")), stage("c"))
    inner = requiring(plan_of(stage("x"), stage("a"), stage("b")), "x")
    inside = state_after(old, entered("a", "0.0", (1, 1)))
    with pytest.raises(IllegalMove, match="requires 'x'"):
        plan_change(plan_of(replace(nested("in"), plan=inner), stage("c")), old, inside)
    # The nested pipeline itself was visited.
    new = requiring(plan_of(nested("in", stage("x"), stage("a"), stage("b")), stage("c")), "in")
    assert plan_change(new, old, inside).skipped == ("0.0",)


def test_replan_in_a_later_round_skips_what_was_run_in_the_round_before() -> None:
    twice = replace(A_B, passes=2)
    first = [entered("a", "0"), done("a", "0"), entered("b", "1"), done("b", "1")]
    state = state_after(twice, *first, entered("c", "2"), done("c", "2"), entered("a", "0", (2,), 2))
    assert skipped_in(replace(plan_of(*map(stage, "bac")), passes=2), twice, state) == ["b"]
    assert skipped_in(twice, twice, state) == []


def test_replan_again_names_a_skipped_node_once_and_one_that_moves_behind_is_run() -> None:
    inside, new = state_after(A_B, entered("a", "0")), plan_of(*map(stage, "bac"))
    moved = evolve(inside, event(9, plan_change(new, A_B, inside)))
    assert skipped_in(plan_of(*map(stage, "bxac")), new, moved) == ["x"]
    back = evolve(moved, event(10, plan_change(A_B, new, moved)))
    entered_b = evolve(back, event(11, *entered("b", "1")))
    assert entered_b.skipped == {}
