"""Lets the workers of all systems take turns, a few steps at a time, and collects what they print."""

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic
from typing import IO

import msgspec
from msgspec import Struct

from bench.peers.agentforge import PROGRAM
from bench.peers.aging import flush
from bench.peers.places import Place

ROOT = Path(__file__).parents[2]
PEERS_PYTHON = ROOT / ".peers" / "venv" / "bin" / "python"
TURN_STEPS = 20
# Telemetry off. The workers inherit no keys or endpoints either.
QUIET = {"LANGCHAIN_TRACING_V2": "false", "LANGSMITH_TRACING": "false", "OTEL_SDK_DISABLED": "true"}


class System(Struct, frozen=True):
    name: str
    worker: str
    ours: bool = False
    """Whether our own environment has what it needs."""
    environ: dict[str, str] = {}


APPEND = System("synced append", "append", ours=True)
AGENTFORGE = System("AgentForge", "agentforge", ours=True)
LANGGRAPH = System("LangGraph", "langgraph")
BURR = System("Burr", "burr")
DBOS = System("DBOS", "dbos")
WITH_PROGRAMS = System("AgentForge, programs", "agentforge", ours=True, environ={PROGRAM: "1"})
ALL = (APPEND, AGENTFORGE, LANGGRAPH, BURR, DBOS)


class WorkerResult(Struct, frozen=True):
    """The output of a worker."""

    version: str
    steps: int
    seconds: float
    """Of the whole run, including its start and end."""
    turn_steps: int
    turns: list[float]
    """Seconds of each full turn of `turn_steps` steps."""
    apparent_bytes: int
    allocated_bytes: int


class Sample(Struct, frozen=True):
    system: str
    place: str
    round: int
    result: WorkerResult


class Phase(Struct, frozen=True):
    """A number of rounds; in each, all systems run the steps at each place."""

    systems: tuple[System, ...]
    steps: int
    rounds: int
    turn_steps: int = TURN_STEPS
    """Steps per turn; 0: all at once."""


class WorkerFailed(Exception):
    """A worker didn't finish; the message has the reason."""


class Worker:
    """A worker's process, which waits whenever it isn't its turn."""

    def __init__(self, process: "subprocess.Popen[bytes]", errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self._is_late = False
        self.result: WorkerResult | None = None

    def wait_ready(self) -> bool:
        return bool(self._read())

    def take_turn(self) -> bool:
        """Whether the run continues after it."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # Reading then raises the reason.
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        line = self._read()
        if b'"steps"' in line:
            self.result = msgspec.json.decode(line, type=WorkerResult)
        return self.result is None

    def kill(self) -> None:
        self._is_late = True
        self._process.kill()

    def _read(self) -> bytes:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"{"):  # Libraries may print, too.
                return line
        status = self._process.wait()
        if self._is_late:
            raise WorkerFailed("no time left")
        self._errors.seek(0)
        raise WorkerFailed(f"exit status {status}: {self._errors.read()[-1000:].decode().strip()}")


@contextmanager
def started(system: System, folder: Path, phase: Phase) -> Iterator[Worker]:
    """In a separate folder, which stays until the end because deleting slows down some file systems."""
    work = folder / f"{len(os.listdir(folder)):03d}-{system.worker}"
    work.mkdir()
    environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(work), "PYTHONPATH": str(ROOT)}
    python = sys.executable if system.ours else str(PEERS_PYTHON)
    sizes = [str(phase.steps), str(phase.turn_steps)]
    argv = [python, "-m", f"bench.peers.{system.worker}", str(work / "run"), *sizes]
    pipe = subprocess.PIPE
    with (
        TemporaryFile() as errors,
        subprocess.Popen(
            argv, cwd=work, env=environ | QUIET | system.environ, stdin=pipe, stdout=pipe, stderr=errors
        ) as process,
    ):
        try:
            yield Worker(process, errors)
        except BaseException:
            process.kill()
            raise


def run_phases(
    places: Sequence[Place], phases: Iterable[Phase], seconds: float
) -> tuple[list[Sample], list[str]]:
    """The samples, and the failures or omissions for lack of time."""
    ends = monotonic() + seconds
    samples: list[Sample] = []
    missing: list[str] = []
    for phase in phases:
        for number in range(phase.rounds):
            for place in places:
                results, failed = run_together(phase, place.folder, ends - monotonic())
                samples += [Sample(name, place.kind, number, one) for name, one in results.items()]
                what = f"{place.kind}, {phase.steps:,} steps, round {number + 1} of {phase.rounds}"
                missing += [f"{what}: {why}" for why in failed]
    return samples, missing


def run_together(phase: Phase, folder: Path, seconds: float) -> tuple[dict[str, WorkerResult], list[str]]:
    """Run all systems of a phase, turn by turn, so that other load on the machine affects all of them.
    Returns the results and the failures."""
    if seconds <= 0:
        return {}, ["no time left"]
    failed: list[str] = []
    draw = random.Random(phase.steps)
    with ExitStack() as stack:
        workers = {s.name: stack.enter_context(started(s, folder, phase)) for s in phase.systems}
        timer = threading.Timer(seconds, lambda: [worker.kill() for worker in workers.values()])
        timer.start()
        stack.callback(timer.cancel)

        def continues(name: str, act: Callable[[], bool]) -> bool:
            try:
                return act()
            except WorkerFailed as why:
                failed.append(f"{name}: {why}")
                return False

        running = [name for name in workers if continues(name, workers[name].wait_ready)]
        while running:
            # In another order each time, so that no system always follows the same one.
            draw.shuffle(running)
            running = [name for name in running if continues(name, workers[name].take_turn)]
    # Write dirty pages now, not during the next run.
    flush(folder)
    return {name: worker.result for name, worker in workers.items() if worker.result is not None}, failed
