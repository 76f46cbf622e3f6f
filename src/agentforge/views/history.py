"""The latest iterations, for state.json and `from_previous_iterations`: bounded, however long a run is."""

from collections import deque
from datetime import datetime

import msgspec
from msgspec import Struct

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.result import Decision, Signals

KEPT = 1000


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


class History:
    """Taken in event by event, in place: an iteration must not cost more because many came before it."""

    def __init__(self) -> None:
        self._entries: deque[HistoryEntry] = deque(maxlen=KEPT)
        self._completed = 0
        self.outputs: deque[bytes] = deque(maxlen=KEPT)
        """output.md of the current node's iterations, oldest first, each as JSON."""
        self._written = 0

    @property
    def entries(self) -> tuple[HistoryEntry, ...]:
        return tuple(self._entries)

    @property
    def omitted(self) -> int:
        """How many earlier ones are in the log only."""
        return self._completed - len(self._entries)

    @property
    def outputs_omitted(self) -> int:
        return self._written - len(self.outputs)

    def take(self, event: Event) -> None:
        match event.fact:
            case f.IterationCompleted() as fact:
                self._entries.append(_entry(event, fact))
                self._completed += 1
                if fact.output:
                    self.outputs.append(msgspec.json.encode(fact.output))
                    self._written += 1
            case f.NodeStarted():
                self.outputs.clear()
                self._written = 0


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
