"""One crash run: a scenario, the blows it gets, and the way a person brings it to its end."""

import json
import os
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from . import killer
from .scenarios import HOME, SCENARIOS, SESSION, Scenario

LAUNCH_SECONDS = 40.0
MAX_TURNS = 12
FIRST_COMMAND = ("run", "-p", "p.yaml", "-s", SESSION)
FINAL = ("completed", "aborted")


@dataclass(frozen=True)
class Cut:
    """A kill at an exact call: the n-th of a kind that processes of a role make."""

    role: str
    kind: str
    n: int
    when: str
    victims: str
    """`engine+supervisor+agent`, or some of them; the caller itself need not be among them."""

    def __str__(self) -> str:
        return f"{self.role}:{self.kind}:{self.n}:{self.when}:{self.victims}"


@dataclass(frozen=True)
class Moment:
    """A kill from outside, so many seconds after the start."""

    seconds: float
    victims: str

    def __str__(self) -> str:
        return f"@{self.seconds:.3f}:{self.victims}"


Blow = Cut | Moment


@dataclass(frozen=True)
class Case:
    scenario: str
    blows: tuple[Blow, ...]
    """The i-th falls while the i-th engine runs: the first run, then each recovery."""

    def __str__(self) -> str:
        return " ".join([self.scenario, *map(str, self.blows)])

    @classmethod
    def parse(cls, text: str) -> "Case":
        scenario, *blows = text.split()
        return cls(scenario, tuple(map(_blow, blows)))


def _blow(text: str) -> Blow:
    if text.startswith("@"):
        seconds, victims = text[1:].split(":")
        return Moment(float(seconds), victims)
    role, kind, n, when, victims = text.split(":")
    return Cut(role, kind, int(n), when, victims)


@dataclass
class Story:
    """What happened, as far as the one who struck can know it."""

    base: Path
    scenario: Scenario
    run: str
    commands: list[str] = field(default_factory=list)
    struck: list[tuple[str, str]] = field(default_factory=list)
    """Role and `node/iteration/attempt` of everything killed."""
    logs: list[bytes] = field(default_factory=list)
    """The log as each engine left it."""
    trouble: list[str] = field(default_factory=list)

    @property
    def project(self) -> Path:
        return self.base / "project"

    @property
    def run_dir(self) -> Path:
        return self.project / ".claude" / "pipeline-runs" / SESSION

    @property
    def log(self) -> Path:
        return self.run_dir / "events.jsonl"

    @property
    def ledger(self) -> Path:
        return self.base / "ledger"

    def events(self) -> list[dict]:
        """Every whole line; read without the product's own code."""
        if not self.log.exists():
            return []
        whole, newline, _ = self.log.read_bytes().rpartition(b"\n")
        return [json.loads(line) for line in whole.split(b"\n")] if newline else []

    def notes(self) -> list[dict]:
        return (
            [json.loads(line) for line in self.ledger.read_bytes().splitlines()]
            if self.ledger.exists()
            else []
        )

    def status(self) -> str:
        """Where the log leaves the run."""
        turns = {
            "session_start": "running",
            "session_resumed": "running",
            "session_paused": "paused",
            "session_failed": "failed",
            "session_aborted": "aborted",
            "session_complete": "completed",
        }
        status = "unborn"
        for event in self.events():
            status = turns.get(event["type"], status)
            if event["type"] == "session_recovered" and event["data"].get("by") == "person":
                status = "running"
        return status


class CrashRun:
    def __init__(self, base: Path, scenario: Scenario) -> None:
        self.story = Story(base, scenario, uuid.uuid4().hex)
        self.story.project.mkdir(parents=True)
        (self.story.project / "p.yaml").write_text(scenario.pipeline)
        self._env = {
            **os.environ,
            **scenario.agent,
            "CRASH_HOME": str(HOME),
            "CRASH_BASE": str(base),
            "CRASH_RUN": self.story.run,
            "CRASH_LEDGER": str(self.story.ledger),
            "CRASH_LOG": str(self.story.log),
            "XDG_STATE_HOME": str(base / "state"),
            "AGENTFORGE_DEBUG": "1",
        }
        self.turns = 0
        self.was_struck = False
        """Whether the latest engine was killed: then somebody has to look after what it left."""

    def play(self, blows: tuple[Blow, ...]) -> Story:
        """Run, and go on as often as it takes, each time as a person would."""
        story = self.story
        while (status := story.status()) not in FINAL or self.was_struck:
            if self.turns == MAX_TURNS:
                story.trouble.append(f"still {status} after {MAX_TURNS} turns: {story.commands}")
            if story.trouble:
                break
            self.turn(_next_command(status), blows[self.turns] if self.turns < len(blows) else None)
        return story

    def turn(self, command: tuple[str, ...], blow: Blow | None = None) -> None:
        """One engine from start to end, with what is asked of it and what befalls it."""
        self.turns += 1
        counts = self.story.base / f"counts-{self.turns}"
        counts.mkdir()
        env = {**self._env, "CRASH_COUNTS": str(counts)}
        if isinstance(blow, Cut):
            env["CRASH_KNIFE"] = str(blow)
        began = time.monotonic()
        engine = self.start("engine", command, env)
        sender = None
        struck = isinstance(blow, Cut) or blow is None
        while engine.poll() is None or (sender is not None and sender.poll() is None):
            if not struck and time.monotonic() - began >= blow.seconds:
                killer.strike(self.story.run, blow.victims.split("+"), str(counts / "struck"))
                struck = True
            if sender is None and self._is_time_for_control():
                control = self.story.scenario.control
                sender = self.start("sender", (control.command, SESSION, *control.options), env)
            if time.monotonic() - began > LAUNCH_SECONDS:
                self.story.trouble.append(f"{command[0]} hangs: it runs for more than {LAUNCH_SECONDS:g} s")
                killer.strike(self.story.run, list(killer.ROLES), os.devnull)
                engine.wait()
            time.sleep(0.005)
        self._take_stock(counts, command, engine)

    def start(self, role: str, command: tuple[str, ...], env: dict[str, str]) -> subprocess.Popen[bytes]:
        argv = [sys.executable, str(HOME / "launch.py"), role, *command]
        self.story.commands.append(command[0])
        with (self.story.base / f"{role}-{self.turns}.txt").open("ab") as said:
            return subprocess.Popen(
                argv,
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
        for file in sorted((self.story.base / f"counts-{turn}").iterdir()):
            role, _, kind = file.name.partition(".")
            if kind:
                found[role, kind] = file.stat().st_size
        return found

    def _is_time_for_control(self) -> bool:
        control = self.story.scenario.control
        if control is None or self._was_asked():
            return False
        return any(
            n["what"] == "start" and n["attempt"].startswith(control.at + "/") for n in self.story.notes()
        )

    def _was_asked(self) -> bool:
        folder = self.story.run_dir / "control"
        waiting = folder.is_dir() and any(name.suffix == ".json" for name in folder.iterdir())
        return waiting or any(
            e["type"] in ("pause_requested", "cancel_requested") for e in self.story.events()
        )

    def _take_stock(self, counts: Path, command: tuple[str, ...], engine: subprocess.Popen[bytes]) -> None:
        story = self.story
        self.was_struck = engine.returncode < 0
        if (counts / "struck").exists():
            for line in (counts / "struck").read_text().splitlines():
                story.struck += [(role, attempt) for role, attempt in json.loads(line)]
        story.logs.append(story.log.read_bytes() if story.log.exists() else b"")
        said = (story.base / f"engine-{self.turns}.txt").read_text()
        if engine.returncode >= 0 and "Traceback" in said:
            story.trouble.append(f"{command[0]} raised: {said.strip().splitlines()[-1]}")


def _next_command(status: str) -> tuple[str, ...]:
    match status:
        case "unborn":
            return FIRST_COMMAND
        case "paused" | "failed":
            return ("resume", SESSION)
        case _:
            return ("recover", SESSION)


def play(base: Path, case: Case) -> CrashRun:
    run = CrashRun(base, SCENARIOS[case.scenario])
    run.play(case.blows)
    return run
