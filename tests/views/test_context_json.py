"""context.json's text: the same JSON as if it were encoded in one piece, however many outputs it lists."""

import json
from datetime import UTC, datetime

import pytest

from agentforge.model import facts as f
from agentforge.model.event import Cursor, Event
from agentforge.model.place import Place
from agentforge.model.result import Decision, Result
from agentforge.views.context_file import ContextFile, Inputs, Limits, Paths, StageRef, context_json
from agentforge.views.history import KEPT, History

AT = datetime(2026, 1, 2, tzinfo=UTC)
HERE = Place("0", 1, "stage-00-plan")


def completed(number: int, output: str | None) -> Event:
    fact = f.IterationCompleted(
        stage="work",
        attempt=1,
        decision=Decision.CONTINUE,
        reason="",
        result_file="result.json",
        result=Result(),
        duration_ms=1,
        output=output,
    )
    return Event(number, AT, "s", "r", fact, Cursor("0", 1, number))


def history_of(outputs: list[str]) -> History:
    history = History()
    for number, output in enumerate(outputs, start=1):
        history.take(completed(number, output))
    return history


def context(history: History, commands: dict[str, str]) -> ContextFile:
    return ContextFile(
        session='an "odd" one: "from_previous_iterations": []',
        pipeline="p",
        stage=StageRef("work", 0, "work"),
        iteration=1,
        paths=Paths("a", "b", "c", "d", "e", "f"),
        inputs=Inputs((), {}, {}, (), history.stage("0").omitted),
        limits=Limits(3, -1),
        commands=commands,
    )


@pytest.mark.parametrize(
    "outputs",
    [[], ["/r/001/output.md"], ["/r/001/output.md", '/r/"quoted" \\ 部分/output.md', "/r/\n/output.md"]],
)
def test_context_json_lists_the_earlier_outputs_as_pretty_json(outputs: list[str]) -> None:
    history = history_of(outputs)
    text = context_json(context(history, {"from_previous_iterations": "[]"}), HERE, history)
    value = json.loads(text)
    assert value["inputs"]["from_previous_iterations"] == outputs
    assert text.decode() == json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def test_context_json_lists_the_last_thousand_outputs_and_counts_the_others() -> None:
    outputs = [f"/r/{number:03d}/output.md" for number in range(KEPT + 7)]
    history = history_of(outputs)
    inputs = json.loads(context_json(context(history, {}), HERE, history))["inputs"]
    assert inputs["from_previous_iterations"] == outputs[7:]
    assert inputs["from_previous_iterations_omitted"] == 7


@pytest.mark.parametrize(
    "elsewhere",
    [Place("1", 1, ""), Place("0", 2, ""), Place("0", 1, "", "claude")],
    ids=["node", "run", "branch"],
)
def test_outputs_are_those_of_the_current_node_run_and_branch_only(elsewhere: Place) -> None:
    history = history_of(["/first/output.md"])
    text = context_json(context(history, {}), elsewhere, history)
    assert json.loads(text)["inputs"]["from_previous_iterations"] == []
    assert history.stage(elsewhere.path, elsewhere.branch, elsewhere.run).omitted == 0
    assert len(history.entries) == 1


def test_history_keeps_the_last_thousand_iterations_and_counts_the_others() -> None:
    history = history_of([""] * (KEPT + 3))
    assert [entry.iteration for entry in history.entries] == list(range(4, KEPT + 4))
    assert history.omitted == 3
    assert not history.stage("0").paths
