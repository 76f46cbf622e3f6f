"""What the controller's files cost: the state of a pipeline, beside writing and reading the same bytes."""

from pathlib import Path
from time import perf_counter

import msgspec

from agentforge.core.pipeline import PipelineConfig, PipelineState, PipelineStateStore, PipelineStatus
from bench.floors import PlainLog
from bench.measure import Measure, beside

MAX_STATE = 5.0
CEILING = 100
"""Milliseconds for a save or a load, as the controller promises."""
STAGES = ("intake", "clarify", "analyze", "spec")
ARTIFACT_BYTES = 262_144


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
