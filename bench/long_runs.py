"""Memory and disk of a long run, thousand by thousand: flat once the first thousand is through."""

import asyncio
import gc
import os
import resource
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from agentforge.model.layout import RunLayout
from agentforge.ports.provider import ExecuteRequest
from bench.agents import InProcess, engine_in, in_process_pipeline
from bench.measure import Measure

FLAT = 1.05


class Stretch(Struct, frozen=True):
    """Some consecutive iterations of the run, and its measurements at their end."""

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
        alive = tracemalloc.get_traced_memory()[0]
        log_bytes = os.stat(self._layout.log).st_size
        written = log_bytes - self._log_bytes + self._take_files(done)
        self._log_bytes = log_bytes
        self.stretches.append(Stretch(done, written / self._every, alive, rss()))

    def _take_files(self, to: int) -> int:
        """Return their size and delete them: they are not read again, and together they are a gigabyte."""
        total = 0
        for number in range(to - self._every + 1, to + 1):
            # Not by pathlib, which leaves its traces in the memory that is looked at.
            folder = f"{self._layout.root}/stage-00-work/iterations/{number:03d}"
            if not os.path.isdir(folder):
                continue
            with os.scandir(folder) as files:
                total += sum(file.stat().st_size for file in files)
            shutil.rmtree(folder)
        return total


def long_run(root: Path, iterations: int, every: int) -> list[Stretch]:
    """In a process of its own, whose memory nothing else has been through."""
    argv = [sys.executable, "-m", "bench.long_runs", str(root), str(iterations), str(every)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=list[Stretch])


async def _watched_run(root: Path, iterations: int, every: int) -> list[Stretch]:
    watch = Watch(RunLayout.of(str(root), "growth"), every)
    agent = InProcess(watch, is_timed=False)
    # On a slow disk the engine starts a thread, so its modules are loaded before the measurement.
    await asyncio.to_thread(gc.collect)
    with _traced():
        async with engine_in(root, agent) as engine:
            # One more than counted: a stretch is looked at when the iteration after it begins.
            await engine.run(in_process_pipeline(iterations + 1), session="growth")
    return watch.stretches


def measures(stretches: list[Stretch]) -> list[Measure]:
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


def rss() -> int:
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    # Elsewhere only the peak is told; a run that doesn't grow doesn't raise it.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    run = _watched_run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(run)))
