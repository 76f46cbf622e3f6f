"""Whole mock-mode sessions through the command line, compared with the agent-pipelines shell engine: per
iteration, including the start and end of the program."""

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from statistics import median
from time import perf_counter

from msgspec import Struct

import agentforge
from bench.measure import Measure

TIMES_LESS = 100
FLAT = 1.25
STAGE = "name: work\ntermination:\n  type: fixed\ndelay: 0\n"
BLOCK = """\
name: both
nodes:
  - id: both
    parallel:
      providers: [claude, codex]
      stages:
        - id: work
          stage: work
          runs: {runs}
"""


class ShellEngine(Struct, frozen=True):
    """The shell engine's time per iteration in mock mode without delays, by the number of iterations:
    measured once, on two shared cores."""

    words: str
    seconds: dict[int, float]


JQ_16 = ShellEngine("shell engine, jq 1.6", {20: 1.42, 50: 1.38, 100: 1.42})
JQ_17 = ShellEngine("shell engine, jq 1.7", {20: 0.39, 50: 0.42, 100: 0.44})
JQ_16_PIPELINE = ShellEngine("shell engine, a pipeline, jq 1.6", {20: 1.65, 50: 1.45, 100: 1.34})


class Session(Struct, frozen=True):
    seconds: float
    """From the program's start to its end."""
    gaps: list[float]
    """From one completed iteration to the next; in a block, divided by the number of providers."""


def sessions(root: Path, counts: tuple[int, ...], rounds: int) -> list[Measure]:
    project = _project(root)
    measures: list[Measure] = []
    for count in counts:
        runs = [_loop(project, f"loop-{count}-{number}", count) for number in range(rounds)]
        measures.append(_each(f"mock loop of {count}, each iteration", runs, count, JQ_17))
        measures.append(_whole(f"mock loop of {count}, start and end included", runs, count, JQ_17))
        measures.append(_whole(f"mock loop of {count}, beside the slower jq", runs, count, JQ_16))
    measures.append(_growth(runs))
    for count in counts:
        runs = [_block(project, f"block-{count}-{number}", count) for number in range(rounds)]
        measures.append(_each(f"mock block of {count}, each iteration", runs, count, JQ_16_PIPELINE))
        measures.append(_whole(f"mock block of {count}, start and end included", runs, count, JQ_16_PIPELINE))
    return measures


def _each(name: str, runs: list[Session], count: int, shell: ShellEngine) -> Measure:
    """An iteration of a running session, which the target is for."""
    seconds = median(gap for run in runs for gap in run.gaps)
    return _beside(name, seconds, count, shell, is_aimed_at=True)


def _whole(name: str, runs: list[Session], count: int, shell: ShellEngine) -> Measure:
    return _beside(name, median(run.seconds for run in runs) / count, count, shell, is_aimed_at=False)


def _beside(name: str, seconds: float, count: int, shell: ShellEngine, *, is_aimed_at: bool) -> Measure:
    nearest = min(shell.seconds, key=lambda known: abs(known - count))
    theirs = shell.seconds[nearest]
    times = theirs / seconds
    return Measure(
        name=name,
        unit="ms",
        value=seconds * 1000,
        floor=f"{shell.words}: {times:,.0f} × as much",
        floor_value=theirs * 1000,
        ratio=seconds / theirs,
        aim=f"≥ {TIMES_LESS} × less" if is_aimed_at else None,
        met=times >= TIMES_LESS if is_aimed_at else None,
    )


def _growth(runs: list[Session]) -> Measure:
    """The last fifth of a session's iterations compared with the first."""
    fifth = max(1, len(runs[0].gaps) // 5)
    first = median(gap for run in runs for gap in run.gaps[:fifth])
    last = median(gap for run in runs for gap in run.gaps[-fifth:])
    ratio = last / first
    name = "mock loop, last fifth of its iterations"
    return Measure(
        name, "ms", last * 1000, "the first fifth", first * 1000, ratio, f"≤ {FLAT:g} × floor", ratio <= FLAT
    )


def _project(root: Path) -> Path:
    project = root / "sessions"
    stage = project / ".claude" / "stages" / "work"
    stage.mkdir(parents=True)
    (stage / "stage.yaml").write_text(STAGE)
    (stage / "prompt.md").write_text("Do ${ITERATION}: ${CTX}\n")
    return project


def _loop(project: Path, session: str, count: int) -> Session:
    return _run(project, session, count, "loop", "work", session, str(count))


def _block(project: Path, session: str, count: int) -> Session:
    """The same total number of iterations, by two concurrent providers."""
    file = project / f"{session}.yaml"
    file.write_text(BLOCK.format(runs=count // 2))
    return _run(project, session, count // 2 * 2, "pipeline", file.name, session, at_once=2)


def _run(project: Path, session: str, count: int, *words: str, at_once: int = 1) -> Session:
    environment = {
        "PATH": os.defpath,
        "HOME": str(project / "home"),
        "MOCK_MODE": "true",
        "PYTHONPATH": str(Path(agentforge.__file__).parents[1]),
    }
    argv = [sys.executable, "-m", "agentforge", *words, "--foreground"]
    began = perf_counter()
    subprocess.run(
        argv, cwd=project, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    seconds = perf_counter() - began
    log = project / ".claude" / "pipeline-runs" / session / "events.jsonl"
    events = (json.loads(line) for line in log.read_text().splitlines())
    done = [_seconds(event["timestamp"]) for event in events if event["type"] == "iteration_complete"]
    assert len(done) == count, (session, len(done))
    pairs = zip(done, done[at_once:], strict=False)
    return Session(seconds, [(after - before) / at_once for before, after in pairs])


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
