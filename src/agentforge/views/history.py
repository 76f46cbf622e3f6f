"""The latest iterations, for state.json and the inputs of later ones: bounded for runs of any length.

Unlike the state, it is changed in place: copying the latest thousand for each event would make an iteration
cost more, the longer the run is. Who keeps a model of an earlier event sees a later history.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.artifact import Artifact
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.layout import RunLayout
from agentforge.model.plan import ArtifactSource
from agentforge.model.result import Decision, Result, Signals

KEPT = 1000
SLACK = 100
MAX_LIGHT = 10
"""Of each stage, the latest light iterations."""


MAX_TEXT = 1000
MAX_LISTED = 20
WITHOUT_OUTPUT = frozenset({f.IterationStarted, f.AttemptStarted})
"""Most of the other events."""


class HistoryEntry(Struct, frozen=True):
    """An iteration's result in brief: texts and lists are cut. The log and result.json have all of it."""

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


class StageOutputs(Struct):
    """The outputs of a stage's latest visit."""

    run: int = 1
    outputs: list[str] = field(default_factory=list)
    """output.md of each iteration with output, oldest first; may temporarily exceed the limit. Paths are
    relative to the run directory."""
    written: int = 0
    iterations: int = 0
    result_file: str = ""
    result: Result | None = None
    """Of the latest iteration."""
    reason: str = ""
    """Why the stage ended; empty while it is running."""

    def located(self, layout: RunLayout) -> "StageOutputs":
        """The same with the paths of the files, for agents and tools."""
        result = layout.absolute(self.result_file) if self.result_file else ""
        return replace(self, outputs=layout.absolutes(self.paths), result_file=result)

    @property
    def paths(self) -> list[str]:
        return self.outputs[-KEPT:]

    @property
    def omitted(self) -> int:
        return self.written - len(self.paths)

    @property
    def status_file(self) -> str:
        """status.json next to the latest result; empty before the first."""
        folder, slash, _ = self.result_file.rpartition("/")
        return f"{folder}{slash}status.json" if self.result_file else ""

    @property
    def latest(self) -> str | None:
        return self.outputs[-1] if self.outputs else None


class StageArtifacts(Struct):
    """The latest artifacts of a stage, across its visits."""

    latest: Artifact | None = None
    by_item: dict[str, Artifact] = field(default_factory=dict)
    """Of a stage over items: of each that the list has."""
    over_items: bool = False


class History(Struct):
    """Updated in place, event by event, so that the cost per iteration stays constant."""

    recent: list[HistoryEntry] = field(default_factory=list)
    """The latest entries; may temporarily exceed the limit."""
    completed: int = 0
    stages: dict[str, StageOutputs] = field(default_factory=dict)
    manifests: dict[str, str] = field(default_factory=dict)
    """The latest manifest of each block."""
    light: dict[str, list[f.IterationCompleted]] = field(default_factory=dict)
    """The latest light iterations of each stage, across its visits."""
    initial: Artifact | None = None
    """The artifact that the run was started with."""
    artifacts: dict[str, StageArtifacts] = field(default_factory=dict)
    artifact: Artifact | None = None
    """The latest of all stages."""

    @property
    def entries(self) -> tuple[HistoryEntry, ...]:
        return tuple(self.recent[-KEPT:])

    @property
    def omitted(self) -> int:
        """The number of earlier iterations that are only in the log."""
        return self.completed - len(self.recent[-KEPT:])

    def stage(self, path: str, provider: str | None = None, run: int | None = None) -> StageOutputs:
        """The outputs of the stage's latest visit; empty if `run` is another visit."""
        found = self.stages.get(_key(path, provider))
        return found if found is not None and run in (None, found.run) else StageOutputs()

    def result(self, at: Cursor) -> Result | None:
        """The result of the latest iteration there: of a stage's visit, or of a branch of a block."""
        known = self.stage(at.node_path, at.provider, at.node_run)
        if known.result is not None or at.provider is None:
            return known.result
        # `_complete` moves the stage to the end.
        start, end = f"{at.node_path}.", f"@{at.provider}"
        stages = reversed(self.stages.items())
        branch = (outputs.result for key, outputs in stages if key.startswith(start) and key.endswith(end))
        return next(branch, None)

    def summary(self, at: Cursor | None) -> str:
        """The summary of that result, or empty; of the latest iteration of the run for None."""
        if at is None:
            return self.recent[-1].summary if self.recent else ""
        result = self.result(at)
        return _cut(result.summary) if result else ""

    def artifacts_of(self, path: str, provider: str | None = None) -> StageArtifacts:
        return self.artifacts.get(_key(path, provider)) or StageArtifacts()

    def artifact_of(self, source: ArtifactSource) -> Artifact | None:
        """That of a stage; of one that was skipped, the one that the run was started with."""
        return self.artifacts_of(source.path, source.provider).latest or self.initial

    def apply(self, event: Event) -> None:
        fact = event.fact
        if type(fact) in WITHOUT_OUTPUT:
            return
        match fact:
            case f.IterationCompleted():
                _append(self.recent, _entry(event, fact))
                self.completed += 1
                self._complete(event, fact)
            case f.NodeCompleted(reason=reason) | f.StageCompleted(reason=reason):
                if event.cursor is not None:
                    self._of(event.cursor).reason = reason
            case f.ManifestWritten(path=path):
                if event.cursor is not None:
                    self.manifests[event.cursor.node_path] = path
            case f.ItemsPlanned(items=items):
                if event.cursor is not None:
                    known = self.artifacts.setdefault(_place_key(event.cursor), StageArtifacts())
                    kept = {item.id: known.by_item.get(item.id) for item in items}
                    known.by_item = {id: artifact for id, artifact in kept.items() if artifact}
                    known.over_items = True
            case f.SessionStarted(artifact=artifact):
                self.initial = artifact
            case f.LogImported(left=left):
                self.stages = {
                    _key(stage.path, stage.provider): StageOutputs(
                        outputs=list(stage.outputs),
                        written=stage.omitted + len(stage.outputs),
                        iterations=stage.iterations,
                        result_file=stage.result_file,
                        reason=stage.reason,
                    )
                    for stage in left
                }
            case f.PlanChanged(paths=paths):
                self.stages = _moved(self.stages, paths)
                self.manifests = _moved(self.manifests, paths)
                self.light = _moved(self.light, paths)
                self.artifacts = _moved(self.artifacts, paths)

    def _complete(self, event: Event, fact: f.IterationCompleted) -> None:
        if event.cursor is None:
            return
        outputs = self._of(event.cursor)
        key = _place_key(event.cursor)
        # At the end, where `result` looks for the latest stage of a branch.
        self.stages[key] = self.stages.pop(key)
        outputs.iterations = event.cursor.iteration
        outputs.result_file = fact.result_file
        outputs.result = fact.result
        if output := fact.output or fact.output_file:
            _append(outputs.outputs, output)
            outputs.written += 1
        if (artifact := fact.artifact) is not None:
            known = self.artifacts.setdefault(key, StageArtifacts())
            known.latest = self.artifact = artifact
            if artifact.item:
                known.by_item[artifact.item] = artifact
        if fact.text is not None:
            light = self.light.setdefault(key, [])
            light.append(fact)
            del light[:-MAX_LIGHT]

    def _of(self, cursor: Cursor) -> StageOutputs:
        key = _place_key(cursor)
        found = self.stages.get(key)
        if found is None or found.run != cursor.node_run:
            found = self.stages[key] = StageOutputs(cursor.node_run)
        return found


def _key(path: str, provider: str | None) -> str:
    return path if provider is None else f"{path}@{provider}"


def _place_key(at: Cursor) -> str:
    return _key(at.node_path, at.provider)


T = TypeVar("T")


def _append(kept: list[T], item: T) -> None:
    """Append, and trim in batches to keep appending cheap."""
    kept.append(item)
    if len(kept) >= KEPT + SLACK:
        del kept[:SLACK]


def _moved(known: dict[str, T], paths: Mapping[str, str | None]) -> dict[str, T]:
    """Re-key by the paths of a new plan; removed nodes are dropped."""
    moved: dict[str, T] = {}
    for key, value in known.items():
        path, at, provider = key.partition("@")
        now = paths.get(path, path)
        if now is not None:
            moved[f"{now}{at}{provider}"] = value
    return moved


def _entry(event: Event, fact: f.IterationCompleted) -> HistoryEntry:
    result, signals = fact.result, fact.result.signals
    risk, notes = _cut(signals.risk), _cut(signals.notes)
    if risk is not signals.risk or notes is not signals.notes:
        signals = Signals(signals.plateau_suspected, risk, notes)
    return HistoryEntry(
        iteration=event.cursor.iteration if event.cursor else 0,
        timestamp=event.at,
        stage=fact.stage,
        decision=fact.decision,
        reason=_cut(fact.reason),
        summary=_cut(result.summary),
        files_touched=_cut_list(result.work.files_touched),
        items_completed=_cut_list(result.work.items_completed),
        signals=signals,
        plateau=signals.plateau_suspected,
        risk=risk,
    )


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def _cut_list(texts: tuple[str, ...]) -> tuple[str, ...]:
    if len(texts) <= MAX_LISTED and sum(map(len, texts)) <= MAX_TEXT:
        return texts
    return tuple(map(_cut, texts[:MAX_LISTED]))
