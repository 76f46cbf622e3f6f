"""Iterations in which an agent asks don't count against the maximum, so that no total changes meanwhile."""

from datetime import UTC

from tests.engine.plans import block, plan_of, stage
from tests.engine.playbook import Play

from agentforge.views.lines.events import run_line
from agentforge.views.lines.status import status_rows
from agentforge.views.results import RunInfo
from agentforge.views.run_model import RunModel
from agentforge.views.stage_progress import stage_progress
from agentforge.views.status import StatusView, status_view
from agentforge.views.top import top_row

STEPS = ("start", "prepared", "completed", "prepared", "asks Which?=this", "prepared", "completed")


def shown(conversation: Play, model: RunModel) -> StatusView:
    assert model.state is not None
    state = model.state
    info = RunInfo("auth", state.status.value, "", conversation.plan, state, model.summary)
    return status_view(info, conversation.now)


def test_place_of_a_stage_that_asked_is_shown_as_before() -> None:
    conversation, model, seen = Play(plan_of(stage("build", runs=3))), RunModel(), []
    lines, rows = [], []
    for words in (*STEPS, "prepared", "completed"):
        conversation.happens(words)
        for event in conversation.events[len(seen) :]:
            model.apply(event)
            line = run_line(event, conversation.plan, model.state)
            lines += [line.words] if line and line.mark in ("begin", "done") else []
        seen = list(conversation.events)
        assert model.state is not None
        (row,) = stage_progress(conversation.plan, model.state)
        view = shown(conversation, model)
        (place,) = [one.value for one in status_rows(view, conversation.now, UTC) if one.label == "Iteration"]
        assert top_row(view, conversation.now).cells[3] == place
        rows.append((f"{row.completed}/{row.total}", place))
    assert rows == [
        ("0/3", "0/3"),
        ("0/3", "1/3"),
        ("1/3", "1/3"),
        ("1/3", "2/3"),
        ("1/3", "2/3"),  # It asks.
        ("1/3", "2/3"),
        ("2/3", "2/3"),
        ("2/3", "3/3"),
        ("3/3", "3/3"),
    ]
    starts = [line for line in lines if line.endswith("started")]
    assert starts == [f"build {place} started" for place in ("1/3", "2/3", "2/3", "3/3")]
    assert any(line.startswith("build 2/3 asked a question after") for line in lines)


def test_total_of_a_block_never_changes_while_its_agents_ask() -> None:
    plan = plan_of(block("claude codex", stage("draft", runs=2), stage("check")), stage("merge"))
    conversation, rows = Play(plan), []
    conversation.happens("start")
    asks = ("prepared", "asks Which?=this", "prepared", "completed")
    for words in (*asks, *asks, "prepared", "completed"):
        for provider in ("claude", "codex"):
            conversation.happens(f"{provider}: {words}")
            assert conversation.state is not None
            block_row, _ = stage_progress(plan, conversation.state)
            rows.append([(row.completed, row.total) for row in (block_row, *block_row.branches)])
    assert {row[0][1] for row in rows} == {6}
    assert {branch[1] for row in rows for branch in row[1:]} == {3}
    assert rows[-2][1:] == [(3, 3), (2, 3)]
    conversation.happens("manifest")
    assert conversation.state is not None
    block_row, _ = stage_progress(plan, conversation.state)
    assert (block_row.completed, block_row.total, block_row.branches) == (6, 6, ())
