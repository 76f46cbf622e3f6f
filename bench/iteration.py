"""What an iteration costs beside writing the same files and events plainly, and beside bare processes."""

import marshal
import os
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from time import perf_counter

from agentforge.adapters.host.processes import compiled
from agentforge.app.wiring import SUPERVISOR
from agentforge.model.facts import IterationCompleted
from agentforge.model.layout import RunLayout
from agentforge.model.task import MARK
from agentforge.ports.provider import ExecuteRequest
from agentforge.runtime.supervision import SupervisorLimits
from agentforge.sdk.engine import Engine
from bench import floors
from bench.agents import COMMAND, STATUS, InProcess, command_pipeline, engine_in, in_process_pipeline
from bench.measure import Measure, beside, timed

# What the engine writes for every iteration; the agent's own status.json isn't among them.
FILES = ("context.json", "prompt.md", "output.md", "result.json")
AGENTS_OWN = {"status.json": STATUS}
LEFT = {"STATUS": "status.json", "RESULT": "result.json", "ARTIFACT": "artifact.json"}
"""What agents are told to write."""
MAX_RATIO = 1.5
WARM_UP = 5
ROUND = 20


class Interleaved:
    """After each round of the engine's iterations the same ones once more, plainly: noise meets both, and
    neither has to begin with the other's caches."""

    def __init__(self, run: RunLayout, plain: Path, names: tuple[str, ...] = FILES) -> None:
        """`names`: of the files of an iteration, if it has any."""
        self._run = run
        self._names = names
        self._plain = floors.PlainIterations(plain)
        self._plain_log = floors.PlainLog(plain / "appends.jsonl")
        self._seen = 0
        self.append_seconds: list[float] = []
        self.files_seconds: list[float] = []

    def __call__(self, request: ExecuteRequest) -> None:
        done = request.iteration - 1
        if done == 0 or done % ROUND:
            return
        stage = Path(request.status_path).parents[1]
        folders = [stage / f"{number:03d}" for number in range(done - ROUND + 1, done + 1)]
        written = [{name: (folder / name).read_bytes() for name in self._names} for folder in folders]
        events = self._events_per_iteration()
        if self._names:
            self.files_seconds += [self._plain.write(events, files, AGENTS_OWN) for files in written]
        self.append_seconds += [self._plain_log.append(events) for _ in written]

    def _events_per_iteration(self) -> bytes:
        with open(self._run.log, "rb") as log:
            log.seek(self._seen)
            events = log.read()
            self._seen = log.tell()
        return events[: len(events) // ROUND]

    def close(self) -> None:
        self._plain.close()
        self._plain_log.close()


async def in_process(root: Path, iterations: int) -> list[Measure]:
    """With files. Of a young run, and once the list of earlier outputs is as long as it gets."""
    session = "inprocess"
    between = Interleaved(RunLayout.of(str(root), session), root / "plain-inprocess")
    agent = InProcess(between, uses_files=True)
    async with engine_in(root, agent) as engine:
        result = await engine.run(in_process_pipeline(iterations), session=session)
    between.close()
    assert result.iterations == iterations, result
    young, old = slice(WARM_UP, min(iterations, 200)), slice(1000, iterations)
    measures = [timed("floor (a), one synced append", "µs", between.append_seconds)]
    for when, part in (("young run", young), ("1,000 outputs listed", old)):
        if floor := between.files_seconds[part]:
            spent = agent.engine_seconds[part][: len(floor)]
            name = f"iteration in process, {when}"
            measures.append(beside(name, "µs", spent, floors.FILES, floor, maximum=MAX_RATIO))
    return measures


async def log_only(root: Path, iterations: int) -> list[Measure]:
    """With a provider that reads no files: an iteration is its events."""
    session = "logonly"
    between = Interleaved(RunLayout.of(str(root), session), root / "plain-logonly", names=())
    agent = InProcess(between)
    async with engine_in(root, agent) as engine:
        result = await engine.run(in_process_pipeline(iterations), session=session)
    between.close()
    assert result.iterations == iterations, result
    floor = between.append_seconds[WARM_UP:]
    spent = agent.engine_seconds[WARM_UP:][: len(floor)]
    return [beside("iteration in process, log only", "µs", spent, "(a) one synced append", floor)]


async def command(root: Path, rounds: int, per_round: int) -> list[Measure]:
    """With a program as the agent. Its floor: the same program under the same supervisor, started bare,
    plus floor (b)."""
    spent: list[float] = []
    bare: list[float] = []
    plain = floors.PlainIterations(root / "plain-command")
    for number in range(rounds):
        session = f"command-{number}"
        async with engine_in(root) as engine:
            result = await engine.run(command_pipeline(per_round), session=session)
            assert result.iterations == per_round, result
            spent += _between_completions(engine, session)
        bare += _bare_iterations(RunLayout.of(str(root), session), plain, root / f"bare-{number}")
    plain.close()
    floor = "the same supervisor and program, bare, + (b)"
    return [beside("iteration with a program", "ms", spent, floor, bare, maximum=MAX_RATIO)]


def _between_completions(engine: Engine, session: str) -> list[float]:
    done = [event.at for event in engine.events(session) if isinstance(event.fact, IterationCompleted)]
    return [(after - before).total_seconds() for before, after in pairwise(done)]


def _bare_iterations(run: RunLayout, plain: floors.PlainIterations, bare: Path) -> list[float]:
    """All but the first iteration of a run once more, without the engine."""
    seconds = []
    folders = sorted((Path(run.root) / "stage-00-work" / "iterations").iterdir())[1:]
    events = Path(run.log).read_bytes()
    for folder in folders:
        files = {name: (folder / name).read_bytes() for name in FILES}
        spawned = spawn_bare(bare / folder.name, folder / "prompt.md", run.log, COMMAND)
        seconds.append(spawned + plain.write(events[: len(events) // (len(folders) + 1)], files, {}))
    return seconds


def spawn_bare(folder: Path, prompt: Path, lease: str, command: list[str]) -> float:
    """The engine's request to its supervisor for an attempt, without the engine."""
    folder.mkdir(parents=True)
    limits, found = SupervisorLimits(), folder.stat()
    spec = {
        "place": {"path": str(folder), "device": found.st_dev, "inode": found.st_ino},
        "argv": command,
        "env": {
            "PATH": os.defpath,
            **{f"AGENTFORGE_{name}": str(folder / file) for name, file in LEFT.items()},
        },
        "cwd": str(folder),
        "stdin": prompt.read_text(),
        "descriptors": {},
        "separate_errors": False,
        "secrets": [],
        "cleanup": [],
        "timeout": None,
        "idle_timeout": None,
        "output_cap": limits.output_cap,
        "term_grace": limits.term_grace,
        "orphan_grace": limits.orphan_grace,
        "lease": lease,
        "mark": f"{MARK}=bench/{folder.parent.name}/{folder.name}",
    }
    argv = [sys.executable, "-I", "-S", compiled(SUPERVISOR), str(folder)]
    quiet = subprocess.DEVNULL
    began = perf_counter()
    ours, theirs = socket.socketpair()
    with theirs:
        child = subprocess.Popen(
            argv,
            cwd=folder,
            env={},
            stdin=theirs.fileno(),
            stdout=quiet,
            stderr=quiet,
            start_new_session=True,
        )
    with ours:
        ours.recv(1)
        ours.sendall(marshal.dumps(spec))
    assert child.wait() == 0
    return perf_counter() - began
