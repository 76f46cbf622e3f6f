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


class Told(Struct, frozen=True):
    """What a worker prints at its end."""

    version: str
    steps: int
    seconds: float
    """Of the whole run, its start and end included."""
    turn_steps: int
    turns: list[float]
    """Seconds of each complete turn of steps."""
    apparent_bytes: int
    allocated_bytes: int


class Sample(Struct, frozen=True):
    system: str
    place: str
    round: int
    told: Told


class Phase(Struct, frozen=True):
    """Rounds, in each of which all systems run their steps at each place."""

    systems: tuple[System, ...]
    steps: int
    rounds: int
    turn_steps: int = TURN_STEPS
    """How many steps at a time; 0: all at once."""


class WorkerFailed(Exception):
    """A worker didn't finish; the message says why."""


class Worker:
    """A worker's process, which waits whenever it isn't its turn."""

    def __init__(self, process: "subprocess.Popen[bytes]", errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self._is_late = False
        self.told: Told | None = None

    def wait_ready(self) -> bool:
        return bool(self._read())

    def take_turn(self) -> bool:
        """Whether the run continues after it."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # Reading then tells why it ended.
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        line = self._read()
        if b'"steps"' in line:
            self.told = msgspec.json.decode(line, type=Told)
        return self.told is None

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
    """In a folder of its own. It stays until all is measured, as deleting slows some file systems down."""
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
        finally:
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # One that was killed in its turn hasn't read all.
                process.stdin.close()


def run_phases(
    places: Sequence[Place], phases: Iterable[Phase], seconds: float
) -> tuple[list[Sample], list[str]]:
    """The samples, and what failed or was left out for lack of time."""
    ends = monotonic() + seconds
    samples: list[Sample] = []
    missing: list[str] = []
    for phase in phases:
        for number in range(phase.rounds):
            for place in places:
                told, failed = run_together(phase, place.folder, ends - monotonic())
                samples += [Sample(name, place.kind, number, one) for name, one in told.items()]
                what = f"{place.kind}, {phase.steps:,} steps, round {number + 1} of {phase.rounds}"
                missing += [f"{what}: {why}" for why in failed]
    return samples, missing


def run_together(phase: Phase, folder: Path, seconds: float) -> tuple[dict[str, Told], list[str]]:
    """All systems of a phase, turn by turn, so that other work on the machine affects all of them. Returns
    what they told, and what failed."""
    if seconds <= 0:
        return {}, ["no time left"]
    failed: list[str] = []
    draw = random.Random(phase.steps)
    with ExitStack() as stack:
        workers = {s.name: stack.enter_context(started(s, folder, phase)) for s in phase.systems}
        timer = threading.Timer(seconds, lambda: [worker.kill() for worker in workers.values()])
        timer.start()
        stack.callback(timer.cancel)

        def goes_on(name: str, act: Callable[[], bool]) -> bool:
            try:
                return act()
            except WorkerFailed as why:
                failed.append(f"{name}: {why}")
                return False

        running = [name for name in workers if goes_on(name, workers[name].wait_ready)]
        while running:
            # In another order each time, so that no system always follows the same one.
            draw.shuffle(running)
            running = [name for name in running if goes_on(name, workers[name].take_turn)]
    # What they left in memory is written now, not during the next run.
    flush(folder)
    return {name: worker.told for name, worker in workers.items() if worker.told is not None}, failed
