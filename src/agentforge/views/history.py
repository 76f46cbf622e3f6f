"""The latest iterations, for state.json and `from_previous_iterations`: bounded, however long a run is."""

from datetime import datetime
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.result import Decision, Signals

KEPT = 1000

T = TypeVar("T")


class HistoryEntry(Struct, frozen=True):
    iteration: int
    timestamp: datetime
    stage: str
    decision: Decision
    reason: str
    summary: str
    files_touched: tuple[str, ...]
    items_completed: tuple[str, ...]
    signals: Signals
    plateau: bool
    risk: str


class History(Struct, frozen=True):
    entries: tuple[HistoryEntry, ...] = ()
    omitted: int = 0
    """How many earlier ones are in the log only."""
    outputs: tuple[str, ...] = ()
    """output.md of the current node's iterations, oldest first."""
    outputs_omitted: int = 0
    source: Literal["events.jsonl"] = "events.jsonl"


def remember(history: History, event: Event) -> History:
    match event.fact:
        case f.NodeStarted():
            return replace(history, outputs=(), outputs_omitted=0)
        case f.IterationCompleted() as fact:
            entries, omitted = _bounded((*history.entries, _entry(event, fact)), history.omitted)
            outputs, outputs_omitted = history.outputs, history.outputs_omitted
            if fact.output:
                outputs, outputs_omitted = _bounded((*outputs, fact.output), outputs_omitted)
            return History(entries, omitted, outputs, outputs_omitted)
        case _:
            return history


def _entry(event: Event, fact: f.IterationCompleted) -> HistoryEntry:
    result = fact.result
    return HistoryEntry(
        iteration=event.cursor.iteration if event.cursor else 0,
        timestamp=event.at,
        stage=fact.stage,
        decision=fact.decision,
        reason=fact.reason,
        summary=result.summary,
        files_touched=result.work.files_touched,
        items_completed=result.work.items_completed,
        signals=result.signals,
        plateau=result.signals.plateau_suspected,
        risk=result.signals.risk,
    )


def _bounded(items: tuple[T, ...], omitted: int) -> tuple[tuple[T, ...], int]:
    return (items, omitted) if len(items) <= KEPT else (items[1:], omitted + 1)
