"""The small machines: every legal move is made, every other one refused with both names."""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest

from agentforge.model.errors import IllegalMove
from agentforge.model.request import Request, RequestKind
from agentforge.model.status import (
    FINAL,
    ITERATION_MOVES,
    RUN_MOVES,
    STAGE_MOVES,
    TASK_MOVES,
    IterationStatus,
    NodeStatus,
    RunStatus,
    TaskStatus,
    move,
    status_text,
)

LEGAL = {
    "run": {
        "pending": "running failed aborted",
        "running": "paused awaiting_approval completed failed aborted",
        "paused": "running aborted",
        "awaiting_approval": "running aborted",
        "failed": "running",
        "completed": "",
        "aborted": "",
    },
    "stage": {
        "pending": "running",
        "running": "completed failed",
        "failed": "running",
        "completed": "running",
    },
    "iteration": {"started": "completed failed", "failed": "started", "completed": ""},
    "task": {
        "running": "ending succeeded failed lost",
        "ending": "cancelled succeeded failed lost",
        "failed": "waiting due succeeded",
        "waiting": "due",
        "succeeded": "",
        "due": "",
        "lost": "succeeded",
        "cancelled": "succeeded",
    },
}
TABLES: dict[str, tuple[Mapping[Any, frozenset[Any]], type[StrEnum]]] = {
    "run": (RUN_MOVES, RunStatus),
    "stage": (STAGE_MOVES, NodeStatus),
    "iteration": (ITERATION_MOVES, IterationStatus),
    "task": (TASK_MOVES, TaskStatus),
}
MOVES = [
    (machine, one, other)
    for machine, (_, statuses) in TABLES.items()
    for one in statuses
    for other in statuses
]


@pytest.mark.parametrize(("machine", "one", "other"), MOVES)
def test_legal_moves_are_allowed_and_illegal_ones_refused(machine: str, one: StrEnum, other: StrEnum) -> None:
    table, _ = TABLES[machine]
    if other.value in LEGAL[machine][one.value].split():
        assert move(table, one, other) is other
    else:
        with pytest.raises(IllegalMove, match=f"invalid transition: {one} → {other}"):
            move(table, one, other)


def test_running_to_running_is_an_error() -> None:
    with pytest.raises(IllegalMove, match="running → running"):
        move(RUN_MOVES, RunStatus.RUNNING, RunStatus.RUNNING)


def test_completed_and_aborted_are_final() -> None:
    assert {RunStatus.COMPLETED, RunStatus.ABORTED} == FINAL


def asked(*kinds: RequestKind) -> list[Request]:
    return [Request("r-1", kind, "k", "", "Go on?", (), datetime(2026, 1, 1, tzinfo=UTC)) for kind in kinds]


@pytest.mark.parametrize(
    ("kinds", "text"),
    [
        (("approval",), "awaiting approval"),
        (("approval", "checkpoint"), "awaiting approval"),
        (("question",), "waiting for an answer"),
        (("approval", "question"), "waiting for an answer"),
        ((), "waiting for an answer"),
    ],
)
def test_status_of_a_run_that_asks_says_what_it_waits_for(kinds: tuple[RequestKind, ...], text: str) -> None:
    assert status_text("awaiting_approval", asked(*kinds)) == text
    assert status_text("paused", asked(*kinds)) == "paused"
