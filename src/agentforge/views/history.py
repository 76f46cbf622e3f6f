"""The latest iterations, for state.json and `from_previous_iterations`: bounded, however long a run is."""

from collections import deque
from collections.abc import Mapping
from datetime import datetime

import msgspec
from msgspec import Struct

from agentforge.model import facts as f
from agentforge.model.adopted import StageLeft
from agentforge.model.event import Cursor, Event
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


class StageOutputs:
    """What a stage's iterations left, in one of its runs."""

    def __init__(self, run: int = 1) -> None:
        self.run = run
        self.encoded: deque[bytes] = deque(maxlen=KEPT)
        """output.md of each iteration that said something, oldest first, each as JSON."""
        self.written = 0
        self.iterations = 0
        self.result_file = ""
        self.reason = ""
        """Why the stage ended; empty while it goes on."""

    @property
    def omitted(self) -> int:
        return self.written - len(self.encoded)

    @property
    def paths(self) -> list[str]:
        return [msgspec.json.decode(path, type=str) for path in self.encoded]

    @property
    def status_file(self) -> str:
        """Beside the latest result; nothing before the first."""
        folder, slash, _ = self.result_file.rpartition("/")
        return f"{folder}{slash}status.json" if self.result_file else ""

    @property
    def latest(self) -> str | None:
        return msgspec.json.decode(self.encoded[-1], type=str) if self.encoded else None


NOTHING = StageOutputs()


class History:
    """Taken in event by event, in place: an iteration must not cost more because many came before it."""

    def __init__(self) -> None:
        self._entries: deque[HistoryEntry] = deque(maxlen=KEPT)
        self._completed = 0
        self._stages: dict[tuple[str, str | None], tuple[int, StageOutputs]] = {}
        self.manifests: dict[str, str] = {}
        """Of each block, the latest."""

    @property
    def entries(self) -> tuple[HistoryEntry, ...]:
        return tuple(self._entries)

    @property
    def omitted(self) -> int:
        """How many earlier ones are in the log only."""
        return self._completed - len(self._entries)

    def stage(self, path: str, provider: str | None = None, run: int | None = None) -> StageOutputs:
        """What the stage at that path left in its latest run; nothing if another run is asked for."""
        latest, outputs = self._stages.get((path, provider), (0, NOTHING))
        return outputs if run is None or run == latest else NOTHING

    def take(self, event: Event) -> None:
        match event.fact:
            case f.IterationStarted() | f.AttemptStarted():
                return  # The frequent ones first.
            case f.IterationCompleted() as fact:
                self._entries.append(_entry(event, fact))
                self._completed += 1
                self._complete(event, fact)
            case f.NodeCompleted(reason=reason) | f.StageCompleted(reason=reason):
                if event.cursor is not None:
                    self._of(event.cursor).reason = reason
            case f.ManifestWritten(path=path):
                if event.cursor is not None:
                    self.manifests[event.cursor.node_path] = path
            case f.LogAdopted(left=left):
                self._stages = {(stage.path, stage.provider): (1, _left(stage)) for stage in left}

    def move(self, paths: Mapping[str, str | None]) -> None:
        """The run goes on by another plan: what stages left belongs to the paths that they have there."""
        found = {(paths.get(path, path), who): left for (path, who), left in self._stages.items()}
        self._stages = {(path, who): left for (path, who), left in found.items() if path is not None}
        moved = {paths.get(path, path): manifest for path, manifest in self.manifests.items()}
        self.manifests = {path: manifest for path, manifest in moved.items() if path is not None}

    def _complete(self, event: Event, fact: f.IterationCompleted) -> None:
        if event.cursor is None:
            return
        outputs = self._of(event.cursor)
        outputs.iterations = event.cursor.iteration
        outputs.result_file = fact.result_file
        if fact.output:
            outputs.encoded.append(msgspec.json.encode(fact.output))
            outputs.written += 1

    def _of(self, cursor: Cursor) -> StageOutputs:
        key = (cursor.node_path, cursor.provider)
        run, outputs = self._stages.get(key, (0, NOTHING))
        if run != cursor.node_run:
            outputs = StageOutputs(cursor.node_run)
            self._stages[key] = (cursor.node_run, outputs)
        return outputs


def _left(stage: StageLeft) -> StageOutputs:
    outputs = StageOutputs()
    outputs.encoded.extend(msgspec.json.encode(path) for path in stage.outputs)
    outputs.written = stage.omitted + len(stage.outputs)
    outputs.iterations, outputs.result_file, outputs.reason = (
        stage.iterations,
        stage.result_file,
        stage.reason,
    )
    return outputs


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
