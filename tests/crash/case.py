"""One crash run: a scenario, the planned kills, and the commands that bring it to its end."""

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from tests.fork_server import Forked, ForkServer
from tests.order.rules import CONTROLS

from . import victims
from .scenarios import HOME, SCENARIOS, SERVICE, SESSION, Scenario
from .service import service
from .story import FINAL, Story, is_caused_by_a_kill

LAUNCH_SECONDS = 120.0
MAX_TURNS = 12
ANSWERS = frozenset({"delay"})
"""Scenarios in which a person answers the requests instead of resuming the run."""


@dataclass(frozen=True)
class Cut:
    """A kill at an exact call: the n-th of a kind that processes of a role make."""

    role: str
    kind: str
    n: int
    when: str
    victims: str
    """`engine+supervisor+agent`, or some of them; the caller itself need not be among them. With `power`,
    what was written to the log and not synced is lost, too."""

    def __str__(self) -> str:
        return f"{self.role}:{self.kind}:{self.n}:{self.when}:{self.victims}"


@dataclass(frozen=True)
class Moment:
    """A kill from outside, some seconds after the start."""

    seconds: float
    victims: str

    def __str__(self) -> str:
        return f"@{self.seconds:.3f}:{self.victims}"


PlannedKill = Cut | Moment
NO_KILL = "-"
EngineProcess = subprocess.Popen[bytes] | Forked


_one_server = threading.Lock()


def _server() -> ForkServer:
    """The same for all threads, also if several of them need the first one."""
    with _one_server:
        return _new_server()


@cache
def _new_server() -> ForkServer:
    return ForkServer(str(HOME / "launch.py"))


@dataclass(frozen=True)
class Case:
    scenario: str
    planned_kills: tuple[PlannedKill | None, ...]
    """The i-th falls while the i-th engine runs: the first run, then each recovery or answer."""

    def __str__(self) -> str:
        return " ".join([self.scenario, *(str(kill or NO_KILL) for kill in self.planned_kills)])

    @classmethod
    def parse(cls, text: str) -> "Case":
        scenario, *planned_kills = text.split()
        return cls(scenario, tuple(map(_planned_kill, planned_kills)))


def _planned_kill(text: str) -> PlannedKill | None:
    if text == NO_KILL:
        return None
    if text.startswith("@"):
        seconds, victims = text[1:].split(":")
        return Moment(float(seconds), victims)
    role, kind, n, when, victims = text.split(":")
    return Cut(role, kind, int(n), when, victims)


class CrashRun:
    def __init__(self, base: Path, scenario: Scenario, output_dir: Path | None = None) -> None:
        self.story = Story(base, scenario, uuid.uuid4().hex)
        self.output_dir = output_dir or base
        """The folder for what the processes print and count."""
        self.story.trace = self.output_dir / "trace.jsonl"
        self.also: dict[str, str] = {}
        """Of the environment, from now on."""
        self.story.project.mkdir(parents=True)
        address = service().address_for(self.story) if scenario.hooks else SERVICE
        for name, text in scenario.files.items():
            (self.story.project / name).parent.mkdir(parents=True, exist_ok=True)
            (self.story.project / name).write_text(text.replace(SERVICE, address))
        (base / "bin").mkdir()
        for name, text in scenario.programs.items():
            (base / "bin" / name).write_text(text)
            (base / "bin" / name).chmod(0o755)
        self._env = {
            **os.environ,
            **scenario.agent,
            "PATH": f"{base / 'bin'}:{os.environ['PATH']}",
            "CRASH_HOME": str(HOME),
            "CRASH_BASE": str(base),
            "CRASH_RUN": self.story.run,
            "CRASH_LOG": str(self.story.log),
            "CRASH_TRACE": str(self.story.trace),
            "XDG_STATE_HOME": str(base / "state"),
            "AGENTFORGE_DEBUG": "1",
            "IS_SANDBOX": "1",
            **({"CRASH_PROGRAM": "1"} if scenario.program else {}),
        }
        self.turns = 0
        self.seconds: list[float] = []
        """How long each turn took."""
        self.was_killed = False
        """Whether a process that may have driven the run was killed, so that it left files to clean up."""

    def play(self, planned_kills: tuple[PlannedKill | None, ...]) -> Story:
        """Run, and continue until the run has ended, each time as a person would."""
        story = self.story
        while (status := story.status()) not in FINAL or self.was_killed:
            if self.turns == MAX_TURNS:
                story.trouble.append(f"still {status} after {MAX_TURNS} turns: {story.commands}")
            if story.trouble:
                break
            self.turn(
                self._next_command(status),
                planned_kills[self.turns] if self.turns < len(planned_kills) else None,
            )
        return story

    def _next_command(self, status: str) -> tuple[str, ...]:
        match status:
            case "unborn":
                return self.story.scenario.command
            case "waiting":
                return self._reply()
            case "paused" if self.story.scenario.name in ANSWERS and self.story.open_requests():
                return ("answer", SESSION, "resume")
            case "paused" if asked := [
                one for one in self.story.open_requests() if one.get("reason", "").startswith("hook_")
            ]:
                return ("answer", SESSION, "retry") if is_caused_by_a_kill(asked[0]) else self._reply()
            case "paused" if [
                one for one in self.story.open_requests() if one.get("reason") == "spending_cap"
            ]:
                return self._reply()
            case "paused" | "failed":
                return ("resume", SESSION)
            case _:
                return ("recover", SESSION)

    def _reply(self) -> tuple[str, ...]:
        """What the person who is asked decides; after a timeout, no person does."""
        story = self.story
        if not (asked := story.open_requests()):
            return ("recover", SESSION)
        if replies := story.scenario.replies:
            command, *options = replies[min(story.decisions(), len(replies) - 1)]
            return (command, SESSION, *options)
        due = datetime.fromisoformat(asked[0]["due_at"])
        time.sleep(max(0.0, (due - datetime.now(UTC)).total_seconds()))
        return ("recover", SESSION)

    def turn(self, command: tuple[str, ...], planned_kill: PlannedKill | None = None) -> None:
        """One engine from start to end, with its controls and its planned kill."""
        self.turns += 1
        env = self.environment(self.turns, planned_kill)
        counts = Path(env["CRASH_COUNTS"])
        began = time.monotonic()
        length = story.log.stat().st_size if (story := self.story).log.exists() else 0
        engine = self.start("engine", command, env)
        senders: list[EngineProcess] = []
        killed = isinstance(planned_kill, Cut) or planned_kill is None
        while any(process.poll() is None for process in (engine, *senders)):
            if not killed and time.monotonic() - began >= planned_kill.seconds:
                victims.kill_processes(
                    self.story.run, planned_kill.victims.split("+"), str(counts / "killed")
                )
                killed = True
            if engine.poll() is None and self._is_time_for_control(senders):
                control = self.story.scenario.control
                # A sender that was killed before it placed the request sends it again, unharmed.
                given = self.environment(self.turns) if senders else env
                senders.append(self.start("sender", (control.command, SESSION, *control.options), given))
            if time.monotonic() - began > LAUNCH_SECONDS:
                self.story.trouble.append(f"{command[0]} hangs: it runs for more than {LAUNCH_SECONDS:g} s")
                victims.kill_processes(self.story.run, list(victims.ROLES), os.devnull)
                engine.wait()
            time.sleep(0.005)
        if (
            planned_kill is not None
            and "power" in planned_kill.victims.split("+")
            and (counts / "killed").exists()
        ):
            self._cut_power(counts, length)
        self.seconds.append(time.monotonic() - began)
        self.was_killed = any(process.returncode < 0 for process in (engine, *senders))
        self._take_stock(counts, command, engine)

    def environment(self, turn: int, planned_kill: PlannedKill | None = None) -> dict[str, str]:
        """Of the engine of this turn, and so of its supervisors and agents."""
        counts = self.output_dir / f"counts-{turn}"
        counts.mkdir(exist_ok=True)
        injector = {"CRASH_KILL": str(planned_kill)} if isinstance(planned_kill, Cut) else {}
        ledger = str(self.story.ledger)
        return {**self._env, **self.also, "CRASH_COUNTS": str(counts), "CRASH_LEDGER": ledger, **injector}

    def start(self, role: str, command: tuple[str, ...], env: dict[str, str]) -> EngineProcess:
        argv = (str(HOME / "launch.py"), role, *command)
        self.story.commands.append(command[0])
        with (self.output_dir / f"{role}-{self.turns}.txt").open("ab") as said:
            if "PYTHONPATH" not in env:
                return _server().start(
                    argv, self.story.project, env, said.fileno(), said.fileno(), session=True
                )
            return subprocess.Popen(
                [sys.executable, *argv],
                cwd=self.story.project,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def counts(self, turn: int = 1) -> dict[tuple[str, str], int]:
        """How many calls of each kind the processes of each role made."""
        found = {}
        for file in sorted((self.output_dir / f"counts-{turn}").iterdir()):
            role, _, kind = file.name.partition(".")
            if role in victims.ROLES:
                found[role, kind] = file.stat().st_size
        return found

    def _is_time_for_control(self, senders: list[EngineProcess]) -> bool:
        control = self.story.scenario.control
        if control is None or self._was_asked():
            return False
        if senders and (senders[-1].poll() is None or senders[-1].returncode >= 0):
            return False
        return any(
            n["what"] == "start" and n["attempt"].startswith(control.at + "/") for n in self.story.notes()
        )

    def _was_asked(self) -> bool:
        folder = self.story.run_dir / "control"
        waiting = folder.is_dir() and any(name.suffix == ".json" for name in folder.iterdir())
        return waiting or any(e["type"] in CONTROLS for e in self.story.events())

    def _cut_power(self, counts: Path, before: int) -> None:
        """Remove what wasn't synced from the log, and from its write-ahead file."""
        synced, ahead = counts / "synced", counts / "ahead"
        if self.story.log.exists():
            os.truncate(self.story.log, int(synced.read_text()) if synced.exists() else before)
        wal = self.story.log.with_suffix(".wal")
        if ahead.exists() and wal.exists():
            wal.write_bytes(ahead.read_bytes())

    def _take_stock(self, counts: Path, command: tuple[str, ...], engine: EngineProcess) -> None:
        story = self.story
        if (counts / "killed").exists():
            for line in (counts / "killed").read_text().splitlines():
                story.killed += [(role, attempt) for role, attempt in json.loads(line)]
        story.logs.append(story.log.read_bytes() if story.log.exists() else b"")
        said = (self.output_dir / f"engine-{self.turns}.txt").read_text()
        if engine.returncode >= 0 and "Traceback" in said:
            story.trouble.append(f"{command[0]} raised: …{said[said.rfind('Traceback') :][-600:]}")


def play(base: Path, case: Case) -> CrashRun:
    run = CrashRun(base, SCENARIOS[case.scenario])
    run.play(case.planned_kills)
    return run
