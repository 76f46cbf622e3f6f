"""The earlier outputs that context.json lists: the latest of the current visit, and how many there are."""

from datetime import UTC, datetime

import msgspec
import pytest
from tests.engine.plans import plan_of, stage

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.layout import RunLayout
from agentforge.model.place import Place
from agentforge.model.result import Decision, Result
from agentforge.model.task import PrepareTask
from agentforge.views.files.context import MAX_PREVIOUS_OUTPUTS, Inputs, context_file
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
        history.apply(completed(number, output))
    return history


def inputs_of(history: History, place: Place = HERE) -> Inputs:
    task = PrepareTask(place, "plan", 1, node=stage("plan"))
    return context_file(task, plan_of(stage("plan")), RunLayout("/r", "s"), history).inputs


@pytest.mark.parametrize("count", [0, 1, MAX_PREVIOUS_OUTPUTS])
def test_context_lists_all_earlier_outputs_while_they_are_few(count: int) -> None:
    outputs = [f"/r/{number:03d}/output.md" for number in range(count)]
    inputs = msgspec.to_builtins(inputs_of(history_of(outputs)))
    assert list(inputs["from_previous_iterations"]) == outputs
    assert inputs["from_previous_iterations_omitted"] == 0
    assert "previous_iterations" not in inputs


def test_context_lists_the_latest_hundred_with_total_and_directory() -> None:
    outputs = [f"/r/{number:03d}/output.md" for number in range(3 * KEPT)]
    inputs = inputs_of(history_of(outputs))
    assert inputs.from_previous_iterations == tuple(outputs[-100:])
    assert inputs.from_previous_iterations_omitted == 3 * KEPT - 100
    assert msgspec.to_builtins(inputs.previous_iterations) == {
        "count": 3 * KEPT,
        "directory": "/r/stage-00-plan/iterations",
    }


@pytest.mark.parametrize(
    "elsewhere",
    [Place("1", 1, ""), Place("0", 2, ""), Place("0", 1, "", "claude")],
    ids=["node", "run", "branch"],
)
def test_outputs_are_those_of_the_current_node_run_and_branch_only(elsewhere: Place) -> None:
    history = history_of(["/first/output.md"])
    assert inputs_of(history, elsewhere).from_previous_iterations == ()
    assert inputs_of(history).from_previous_iterations == ("/first/output.md",)


def test_history_keeps_the_last_thousand_iterations_and_counts_the_others() -> None:
    history = history_of([""] * (KEPT + 3))
    assert [entry.iteration for entry in history.entries] == list(range(4, KEPT + 4))
    assert history.omitted == 3
    assert not history.stage("0").paths
