"""Memory and disk of a long run, thousand by thousand: flat once the first thousand is through."""

import gc
import os
import resource
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from agentforge.model.layout import RunLayout
from agentforge.ports.provider import ExecuteRequest
from bench.agents import InProcess, engine_in, in_process_pipeline
from bench.measure import Measure

FLAT = 1.05


class Stretch(Struct, frozen=True):
    """Some consecutive iterations of the run, and how it stood at their end."""

    to: int
    bytes_per_iteration: float
    """On disk: its files, and its events."""
    python_bytes: int
    """Objects alive."""
    rss_bytes: int


class Watch:
    """Looks at the run at the end of each stretch."""

    def __init__(self, layout: RunLayout, every: int) -> None:
        self._layout = layout
        self._every = every
        self._log_bytes = 0
        self.stretches: list[Stretch] = []

    def __call__(self, request: ExecuteRequest) -> None:
        done = request.iteration - 1
        if done == 0 or done % self._every:
            return
        gc.collect()
        log_bytes = Path(self._layout.log).stat().st_size
        written = log_bytes - self._log_bytes + self._file_bytes(done)
        self._log_bytes = log_bytes
        alive = tracemalloc.get_traced_memory()[0]
        self.stretches.append(Stretch(done, written / self._every, alive, _rss()))

    def _file_bytes(self, to: int) -> int:
        stage = Path(self._layout.root) / "stage-00-work" / "iterations"
        folders = (stage / f"{number:03d}" for number in range(to - self._every + 1, to + 1))
        return sum(file.stat().st_size for folder in folders for file in folder.iterdir())


async def long_run(root: Path, iterations: int, every: int) -> tuple[list[Measure], list[Stretch]]:
    watch = Watch(RunLayout.of(str(root), "growth"), every)
    agent = InProcess(watch)
    with _traced():
        async with engine_in(root, agent) as engine:
            # One more than counted: a stretch is looked at when the iteration after it begins.
            await engine.run(in_process_pipeline(iterations + 1), session="growth")
    return _measures(watch.stretches), watch.stretches


def _measures(stretches: list[Stretch]) -> list[Measure]:
    """The last stretch against the first one after the first thousand."""
    settled = next((s for s in stretches if s.to > 1000), stretches[-1])
    last = stretches[-1]
    return [
        _flat("bytes on disk per iteration", "bytes", last, settled, "bytes_per_iteration"),
        _flat("Python objects alive", "bytes", last, settled, "python_bytes"),
        _flat("resident memory", "bytes", last, settled, "rss_bytes"),
    ]


def _flat(name: str, unit: str, last: Stretch, settled: Stretch, field: str) -> Measure:
    value, floor = float(getattr(last, field)), float(getattr(settled, field))
    ratio = value / floor
    return Measure(
        f"{name}, {last.to:,} iterations",
        unit,
        value,
        f"the same at {settled.to:,} iterations",
        floor,
        ratio,
        f"≤ {FLAT:g} × that",
        ratio <= FLAT,
    )


@contextmanager
def _traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def _rss() -> int:
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    # Elsewhere only the peak is told; a run that doesn't grow doesn't raise it.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
