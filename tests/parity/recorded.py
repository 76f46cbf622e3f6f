"""A recorded case of the shell engine: commands, their output, and the project's files at moments."""

import json
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

RUNS = Path(".claude/pipeline-runs")
NOT_MOMENTS = frozenset({"fixtures", "fake"})
# The files that a command writes; all others existed before.
LEFT_BEHIND = ("pipeline-runs", "locks", "loop-completions.json", "loop-completions.json.lock")
# Options whose value may contain spaces: the recording joined all words by single ones.
FREE_TEXT = ("--context=", "--command=")
DRIVING_WORDS = frozenset({"loop", "pipeline"})
LOOKING_WORDS = frozenset(
    {"status", "tail", "list", "runs", "lint", "dry-run", "test", "help", "-h", "--help"}
)
OPTIONS_WITH_VALUE = frozenset({"--input"})


@dataclass(frozen=True)
class Command:
    number: int
    program: str
    """`run.sh`, the program for users, or `engine.sh`, an internal one."""
    words: tuple[str, ...]
    environment: dict[str, str]
    note: str
    background: bool
    seconds: float | None
    """The time after which it was stopped."""
    rc: int | None
    out: str
    err: str

    @property
    def label(self) -> str:
        return f"cmd-{self.number:02d}"

    @property
    def positional(self) -> list[str]:
        found: list[str] = []
        skip = False
        for word in self.words:
            if skip:
                skip = False
            elif word in OPTIONS_WITH_VALUE:
                skip = True
            elif not word.startswith("--") or word == "--help":
                found.append(word)
        return found

    @property
    def given(self) -> dict[str, str]:
        """The overrides of `provider`, `model` and `context` on the command line and in the environment."""
        found = {}
        for name in ("provider", "model", "context"):
            for variable in (f"CLAUDE_PIPELINE_{name.upper()}", f"PIPELINE_CLI_{name.upper()}"):
                if self.environment.get(variable):
                    found[name] = self.environment[variable]
            option = f"--{name}="
            found.update((name, word.removeprefix(option)) for word in self.words if word.startswith(option))
        return found

    @property
    def drives(self) -> bool:
        words = self.positional
        return bool(words) and self.program == "run.sh" and words[0] not in LOOKING_WORDS

    @property
    def session(self) -> str | None:
        """The session that it names, or None."""
        words = self.positional
        if not words:
            return None
        at = 2 if words[0] in DRIVING_WORDS else 1
        return words[at] if len(words) > at else None


@dataclass(frozen=True)
class Moment:
    """The project's files at one moment."""

    name: str
    root: Path

    def sessions(self) -> list[str]:
        folder = self.root / RUNS
        return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []

    def run_dir(self, session: str) -> Path:
        return self.root / RUNS / session

    def events(self, session: str) -> list[dict[str, Any]]:
        return read_events(self.run_dir(session) / "events.jsonl")


@dataclass(frozen=True)
class Case:
    root: Path
    commands: list[Command] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def fixtures(self) -> Path | None:
        return _folder(self.root / "fixtures")

    @property
    def fake(self) -> Path | None:
        return _folder(self.root / "fake")

    @cached_property
    def input(self) -> Moment | None:
        """The moment whose definitions the case starts with: the earliest."""
        order = {"project": 0, "before": 1, "after": 2}
        ranked = sorted(self.moments, key=lambda m: (order.get(m.name.partition("-")[0], 3), m.name))
        return ranked[0] if ranked else None

    def last_of(self, session: str) -> Moment | None:
        """The latest moment of a session: its log only ever grew."""
        having = [moment for moment in self.moments if session in moment.sessions()]
        return max(having, key=lambda m: len(m.events(session)), default=None)

    def sessions(self) -> list[str]:
        return sorted({session for moment in self.moments for session in moment.sessions()})


def load_case(root: Path) -> Case:
    commands = [_command(path) for path in sorted(root.glob("cmd-*.txt"))]
    folders = sorted(path for path in root.iterdir() if path.is_dir() and path.name not in NOT_MOMENTS)
    return Case(root, _with_environment(commands), [Moment(path.name, path) for path in folders])


def load_cases(folder: Path) -> list[Case]:
    return [load_case(path) for path in sorted(folder.iterdir()) if path.is_dir()]


def read_events(path: Path) -> list[dict[str, Any]]:
    """Lines that aren't JSON are skipped, as by the shell engine."""
    found = []
    for line in path.read_text("utf-8", "replace").splitlines() if path.is_file() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _folder(path: Path) -> Path | None:
    return path if path.is_dir() else None


def _command(path: Path) -> Command:
    environment: dict[str, str] = {}
    note, text, background = "", "", False
    for line in path.read_text().splitlines():
        if line.startswith("# env:"):
            environment, note = _environment(line.removeprefix("# env:").strip())
        elif line.startswith("# background:"):
            text, background = line.removeprefix("# background:").strip(), True
        elif line.strip():
            text = line
    words = _words(text)
    seconds = None
    if words[:1] == ["timeout"]:
        seconds, words = float(words[1]), words[2:]
    program = words[0].rpartition("/")[2] if words else ""
    rc = path.with_suffix(".rc")
    return Command(
        number=int(path.stem.partition("-")[2]),
        program=program,
        words=tuple(words[1:]),
        environment=environment,
        note=note,
        background=background,
        seconds=seconds,
        rc=int(rc.read_text()) if rc.is_file() else None,
        out=_text(path.with_suffix(".out")),
        err=_text(path.with_suffix(".err")),
    )


def _with_environment(commands: list[Command]) -> list[Command]:
    """A command that was recorded without its environment has that of its neighbours."""
    known = [command for command in commands if command.environment or command.note]
    filled = []
    for command in commands:
        if not command.environment and not command.note and known:
            near = min(known, key=lambda other: abs(other.number - command.number))
            filled.append(replace(command, environment=near.environment, note=near.note))
        else:
            filled.append(command)
    return filled


def _environment(text: str) -> tuple[dict[str, str], str]:
    """The assignments, and the note about other preparations."""
    pairs = dict(re.findall(r"\b([A-Z][A-Z0-9_]+)=([^\s,;]+)", text))
    note = re.sub(r"\b[A-Z][A-Z0-9_]+=[^\s,;]+", "", text).strip(" ,;")
    return pairs, note


def _words(text: str) -> list[str]:
    words: list[str] = []
    for word in text.split(" "):
        if words and words[-1].startswith(FREE_TEXT) and not word.startswith("--"):
            words[-1] += f" {word}"
        elif word:
            words.append(word)
    return words


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.is_file() else ""
