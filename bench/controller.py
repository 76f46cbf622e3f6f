"""What the controller costs: saving and loading a state, a pipeline beside the same plan on the engine, and
what a program keeps of the pipelines that it has run."""

import gc
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from agentforge import SyncEngine
from agentforge.core.pipeline import (
    PipelineConfig,
    PipelineController,
    PipelineState,
    PipelineStateStore,
    PipelineStatus,
    StageContext,
    StageExecutor,
    StageResult,
    StageStatus,
)
from agentforge.core.pipeline.executor_provider import ExecutorProvider
from bench.floors import PlainLog
from bench.long_runs import rss
from bench.measure import Measure, beside

MAX_STATE = 5.0
CEILING = 100
"""Milliseconds for a save or a load, as the controller promises."""
STAGES = ("plan", "build", "check", "ship")
ARTIFACT_BYTES = 262_144
MAX_PIPELINE = 1.3
MAX_KEPT = 1.1
PIPELINE = "four"
DEFINITION = {
    "name": PIPELINE,
    "request": "required",
    "views": ["escalations", "controller"],
    "nodes": [{"id": stage, "stage": stage} for stage in STAGES],
}


def states(root: Path, rounds: int) -> list[Measure]:
    """Saved durably, and loaded, with 1 MB of artifacts."""
    store = PipelineStateStore(root / ".agentforge/pipeline")
    folder = root / "plain"
    folder.mkdir()
    saves: list[float] = []
    loads: list[float] = []
    writes: list[float] = []
    reads: list[float] = []
    for number in range(rounds):
        state = _state(number)
        began = perf_counter()
        store.save(state)
        saves.append(perf_counter() - began)
        parts = {str(stage): msgspec.json.encode(data) for stage, data in state.stage_artifacts.items()}
        writes.append(sum(_write(folder / f"{number}-{stage}", part) for stage, part in parts.items()))
        began = perf_counter()
        loaded = store.load(state.pipeline_id)
        loads.append(perf_counter() - began)
        assert loaded == state
        began = perf_counter()
        for stage in parts:
            msgspec.json.decode((folder / f"{number}-{stage}").read_bytes())
        reads.append(perf_counter() - began)
    aims = {"maximum": MAX_STATE, "ceiling": CEILING}
    return [
        beside("save a state with 1 MB", "ms", saves, "synced writes of its artifacts", writes, **aims),
        beside("load a state with 1 MB", "ms", loads, "reading and decoding its artifacts", reads, **aims),
    ]


def _state(number: int) -> PipelineState:
    component = {
        "name": f"component-{number}",
        "type": "class",
        "files": ["a.py"],
        "text": "What it does. " * 12,
    }
    count = ARTIFACT_BYTES // len(msgspec.json.encode(component))
    artifacts = {stage: {"stage": stage, "components": [component] * count} for stage in STAGES}
    config = PipelineConfig("design", list(STAGES))
    return PipelineState(
        f"PL-{number}",
        "design",
        config,
        "Add OAuth2",
        {},
        PipelineStatus.RUNNING,
        3,
        stage_artifacts=artifacts,
    )


def _write(path: Path, content: bytes) -> float:
    log = PlainLog(path)
    try:
        return log.append(content)
    finally:
        log.close()


class Quick(StageExecutor):
    def __init__(self, stage: str) -> None:
        super().__init__()
        self.stage_name = stage

    def _execute(self, context: StageContext) -> StageResult:  # noqa: ARG002 - the phase's
        return StageResult(self.stage_name, StageStatus.COMPLETED, artifact={self.stage_name: "done"})


def _controller(project: Path) -> PipelineController:
    folder = project / ".claude" / "pipelines"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{PIPELINE}.yaml").write_bytes(msgspec.json.encode(DEFINITION))
    made = PipelineController(project)
    for stage in STAGES:
        made.stage_registry.register(stage, Quick(stage))
    return made


def pipelines(root: Path, rounds: int) -> list[Measure]:
    """Four executors in the program, by the controller and by the engine itself."""
    project = root / "controlled"
    project.mkdir()
    made = _controller(project)
    provider = ExecutorProvider(made.stage_registry)
    ours: list[float] = []
    engines: list[float] = []
    for number in range(rounds + 1):
        began = perf_counter()
        assert made.execute("Add OAuth2", PIPELINE).success
        ours.append(perf_counter() - began)
        began = perf_counter()
        with SyncEngine(project, providers={"executor": provider}) as engine:
            how: Mapping[str, Any] = {"request": "Add OAuth2", "executors": STAGES}
            assert engine.run(PIPELINE, session=f"PL-{number}-engine", **how).completed
        engines.append(perf_counter() - began)
    name = "pipeline of four executors, by the controller"
    return [beside(name, "ms", ours[1:], "the same plan by Engine.run", engines[1:], maximum=MAX_PIPELINE)]


def kept(root: Path, count: int) -> list[Measure]:
    """Memory, descriptors and threads after many pipelines in one process, beside those after a tenth."""
    project = root / "many"
    project.mkdir()
    made = _controller(project)
    young = (0, 0, 0)
    for number in range(1, count + 1):
        assert made.execute("Add OAuth2", PIPELINE).success
        if number == max(1, count // 10):
            young = _held()
    names = (("memory", "MB"), ("descriptors", ""), ("threads", ""))
    return [
        _flat(f"{name} after {count} pipelines", unit, now, before)
        for (name, unit), now, before in zip(names, _held(), young, strict=True)
    ]


def _held() -> tuple[int, int, int]:
    gc.collect()
    return rss(), len(os.listdir("/proc/self/fd")), threading.active_count()


def _flat(name: str, unit: str, now: int, before: int) -> Measure:
    scale = 1e6 if unit == "MB" else 1.0
    ratio = now / before
    aim = f"≤ {MAX_KEPT:g} × floor"
    floor = "the same after a tenth of them"
    return Measure(name, unit, now / scale, floor, before / scale, ratio, aim, ratio <= MAX_KEPT)
