"""Playbooks of what a plan lays out in a row: passes of a whole pipeline, pipelines within it, a new plan."""

import pytest
from tests.engine.plans import block, nested, plan_of, stage
from tests.engine.playbook import Play, play

from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.errors import IllegalMove
from agentforge.model.plan import Plan


def iteration(name: str, number: int = 1) -> str:
    """From its preparation to its end."""
    return f"""
        > prepared
        < attempt_start 1
        ? execute {name} {number} attempt 1
        > completed
    """


def done(name: str, runs: int = 1) -> str:
    return f"< node_complete {name}: Completed {runs} iterations (max: {runs})"


def places(conversation: Play, kind: str = "node_start") -> list[Cursor | None]:
    return [event.cursor for event in conversation.events if kind == event.fact.TYPE]


def test_pass_after_pass_enters_every_node_as_its_next_run() -> None:
    conversation = play(
        plan_of(stage("plan"), stage("build"), passes=2),
        f"""
        > start
        < node_start plan
        ? prepare plan 1
        {iteration("plan")}
        {done("plan")}
        < node_start build
        ? prepare build 1
        {iteration("build")}
        {done("build")}
        < node_start plan
        ? prepare plan 1
        {iteration("plan")}
        {done("plan")}
        < node_start build
        ? prepare build 1
        {iteration("build")}
        {done("build")}
        < session_complete all_loops_complete
        = completed
        """,
    )
    assert places(conversation) == [Cursor(p, r, 0) for r in (1, 2) for p in ("0", "1")]
    assert conversation.state is not None
    assert [(done.path, done.run) for done in conversation.state.stages] == [("0", 2), ("1", 2)]
    assert conversation.state.visits == {"0": 2, "1": 2}


def test_iterations_of_a_later_pass_are_counted_from_one() -> None:
    conversation = play(
        plan_of(stage("plan", runs=2), passes=2),
        f"""
        > start
        < node_start plan
        ? prepare plan 1
        {iteration("plan", 1)}
        ? prepare plan 2
        {iteration("plan", 2)}
        {done("plan", 2)}
        < node_start plan
        ? prepare plan 1
        > recover
        ? prepare plan 1
        {iteration("plan", 1)}
        ? prepare plan 2
        """,
    )
    cursors = places(conversation, "iteration_complete")
    assert cursors == [Cursor("0", 1, 1), Cursor("0", 1, 2), Cursor("0", 2, 1)]


@pytest.mark.requirement("NFR-010")
def test_nested_pipeline_runs_its_nodes_at_paths_below_its_own() -> None:
    conversation = play(
        plan_of(stage("plan"), nested("polish", stage("refine"), stage("vote"), runs=2), stage("ship")),
        f"""
        > start
        < node_start plan
        ? prepare plan 1
        {iteration("plan")}
        {done("plan")}
        < node_start refine
        ? prepare refine 1
        {iteration("refine")}
        {done("refine")}
        < node_start vote
        ? prepare vote 1
        {iteration("vote")}
        {done("vote")}
        < node_start refine
        ? prepare refine 1
        {iteration("refine")}
        {done("refine")}
        < node_start vote
        ? prepare vote 1
        {iteration("vote")}
        {done("vote")}
        < node_start ship
        ? prepare ship 1
        """,
    )
    assert places(conversation) == [
        Cursor("0", 1, 0),
        Cursor("1.0", 1, 0),
        Cursor("1.1", 1, 0),
        Cursor("1.0", 2, 0),
        Cursor("1.1", 2, 0),
        Cursor("2", 1, 0),
    ]


def test_block_within_a_nested_pipeline_and_a_later_pass() -> None:
    plan = plan_of(nested("polish", block("claude", stage("draft"))), passes=2)
    once = """
        < node_start duel
        < claude: parallel_provider_start
        ? claude: prepare draft 1
        > claude: prepared
        < claude: attempt_start 1
        ? claude: execute draft 1 attempt 1
        > claude: completed
        < claude: stage_complete draft: Completed 1 iterations (max: 1)
        < claude: parallel_provider_complete completed
        ? manifest duel
        > manifest
        < node_complete duel: all providers complete
    """
    conversation = play(plan, f"> start{once}{once}< session_complete all_loops_complete\n= completed")
    assert places(conversation) == [Cursor("0.0", 1, 0), Cursor("0.0", 2, 0)]
    assert places(conversation, "iteration_complete") == [
        Cursor("0.0.0", 1, 1, "claude"),
        Cursor("0.0.0", 2, 1, "claude"),
    ]
    folders = [event.fact.folder for event in conversation.events if isinstance(event.fact, f.NodeStarted)]
    assert folders == ["pipeline-00-polish/parallel-00-duel", "pipeline-00-polish/run-002/parallel-00-duel"]


# -- a person had the pipeline compiled again


def apply_plan_change(conversation: Play, new: Plan) -> list[str]:
    """Pause, continue with the new plan; the engine's next decision."""
    conversation.happens("pause lunch")
    assert conversation.state is not None
    changed = plan_change(new, conversation.plan, conversation.state)
    conversation.record(changed, conversation.state.cursor)
    return conversation.happens("resume")


AFTER_ONE = f"""
    > start
    < node_start plan
    ? prepare plan 1
    {iteration("plan")}
    ? prepare plan 2
"""


def test_new_plan_continues_at_the_current_node() -> None:
    conversation = play(plan_of(stage("plan", runs=3)), AFTER_ONE)
    new = plan_of(stage("first"), stage("plan", runs=2), stage("last"))
    assert apply_plan_change(conversation, new) == ["? prepare plan 2"]
    assert conversation.state is not None
    assert conversation.state.recompiled
    assert conversation.happens("prepared") == ["< attempt_start 1", "? execute plan 2 attempt 1"]
    assert conversation.happens("completed") == [
        done("plan", 2),
        "< node_start last",
        "? prepare last 1",
    ]
    assert places(conversation, "iteration_complete") == [Cursor("0", 1, 1), Cursor("1", 1, 2)]


def test_new_plan_may_end_the_stage_at_once() -> None:
    conversation = play(plan_of(stage("plan", runs=3)), AFTER_ONE)
    assert apply_plan_change(conversation, plan_of(stage("plan", runs=1)))[0] == done("plan", 1)


def test_new_plan_between_two_nodes_continues_after_the_completed_one() -> None:
    old = plan_of(stage("plan"), stage("build"))
    conversation = play(
        old,
        f"> start\n< node_start plan\n? prepare plan 1{iteration('plan')}{done('plan')}"
        "\n< node_start build\n? prepare build 1",
    )
    new = plan_of(stage("plan"), stage("check"), stage("build"))
    assert apply_plan_change(conversation, new) == ["? prepare build 1"]
    assert conversation.state is not None
    assert [(record.name, record.path) for record in conversation.state.stages] == [("plan", "0")]


def test_new_plan_of_a_running_block_keeps_its_branches() -> None:
    old = plan_of(block("claude codex", stage("draft", runs=2)))
    conversation = play(
        old,
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
        > claude: completed
        ? claude: prepare draft 2
        ? codex: prepare draft 1
        """,
    )
    new = plan_of(stage("first"), block("claude codex", stage("draft", runs=3)))
    assert apply_plan_change(conversation, new) == ["? claude: prepare draft 2", "? codex: prepare draft 1"]
    answer = conversation.happens("claude: prepared")
    assert answer[0] == "< claude: attempt_start 1"
    assert conversation.events[-1].cursor == Cursor("1.0", 1, 2, "claude")


def test_new_plan_without_the_current_node_is_refused() -> None:
    conversation = play(plan_of(stage("plan", runs=3)), AFTER_ONE)
    with pytest.raises(IllegalMove, match=r"the current node 'plan' is no longer in refine\.yaml"):
        apply_plan_change(conversation, plan_of(stage("other")))
