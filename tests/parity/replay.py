"""A recorded case played again with our program, in a copy of its project."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.parity import scripted_cli
from tests.parity.recorded import LEFTOVERS, RUNS, Case, Command, read_events
from tests.surface.warm_program import warm_program

import agentforge

SECONDS = 60.0
"""For one command; a case has a handful."""
BACKGROUND_SECONDS = 30.0
SOURCE = str(Path(agentforge.__file__).parents[1])
"""Of the very package under test, wherever the program is started."""
PROGRAM = """#!{python}
import sys
from agentforge.cli.main import main
sys.argv[0] = "agent-pipelines"
main()
"""
# What the recording did by hand before a command, or between two; the case's files don't hold it.
BEFORE = re.compile(
    r"names a live pid|live pid but|holds flock|flock-held|stale lock of|python yq|no tmux", re.IGNORECASE
)
UNTRUSTED = "was not started by you on this machine"
MISSING_INPUT = re.compile(r"no file matches the input `([^`]+)`")
BETWEEN = re.compile(r"rolled back", re.IGNORECASE)


@dataclass(frozen=True)
class Outcome:
    command: Command
    rc: int | None
    """Nothing: it wasn't played, `skipped` says why."""
    out: str = ""
    err: str = ""
    skipped: str = ""
    by_hand: bool = False
    """Not played because the recording prepared files that the case doesn't hold."""


@dataclass(frozen=True)
class Kept:
    """A session of ours as it was after one of the commands."""

    session: str
    events: list[dict[str, Any]]
    state: str


@dataclass
class Played:
    """Our side of a case."""

    case: Case
    project: Path
    outcomes: list[Outcome] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)

    def sessions(self) -> list[str]:
        folder = self.project / RUNS
        return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []

    def run_dir(self, session: str) -> Path:
        return self.project / RUNS / session

    def keep(self) -> None:
        """Remember the current status of every session."""
        for session in self.sessions():
            state = self.run_dir(session) / "state.json"
            if state.is_file():
                events = read_events(self.run_dir(session) / "events.jsonl")
                self.kept.append(Kept(session, events, state.read_text()))


def play(case: Case, folder: Path) -> Played:
    """Play the case in a new folder; every process that it starts is ended when this returns."""
    stage = _Stage(case, folder)
    played = Played(case, stage.project)
    try:
        for command in case.commands:
            played.outcomes.append(stage.play(command))
            if command.drives:
                played.keep()
        stage.finish()
        played.keep()
    finally:
        stage.close()
    return played


class _Stage:
    """Where a case is played: its project, its programs, its background run."""

    def __init__(self, case: Case, folder: Path) -> None:
        self._case = case
        self.project = folder / "project"
        self._home, self._bin, self._calls = folder / "home", folder / "bin", folder / "calls"
        for path in (self.project, self._home, self._bin, self._calls):
            path.mkdir(parents=True)
        self._copy_input()
        self._install()
        self._background: subprocess.Popen[bytes] | None = None
        self._begun: set[str | None] = set()
        self._detached: set[str | None] = set()
        self._waiting = [moment for moment in case.moments if moment.name.startswith("before-")]

    def play(self, command: Command) -> Outcome:
        self._put_in_place(command)
        if why := _why_not(command, self._begun):
            return Outcome(command, None, skipped=why, by_hand=command.program == "run.sh")
        if self._background is not None and not _was_running(command):
            self._kill()
        self._begun.add(command.session)
        if command.background:
            return self._start(command)
        self._wait_for_detached(command)
        return self._run(command)

    def finish(self) -> None:
        """Let what runs in tmux come to its end."""
        for session in self._detached:
            if session is not None and (self.project / RUNS / session).is_dir():
                self._wait_for_end(session)

    def close(self) -> None:
        self._kill()
        # Only the server of this very case: its socket lies in the case's own folder.
        environment = self._environment({}, "")
        subprocess.run(["tmux", "kill-server"], env=environment, capture_output=True, timeout=10, check=False)

    def _copy_input(self) -> None:
        if self._case.input is None:
            return
        shutil.copytree(self._case.input.root, self.project, dirs_exist_ok=True)
        for name in LEFTOVERS:
            left = self.project / ".claude" / name
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)
        _make_own(self.project, str(self.project))

    def _install(self) -> None:
        self._program = self._bin / "agent-pipelines"
        self._program.write_text(PROGRAM.format(python=sys.executable))
        self._program.chmod(0o755)
        self._fake = self._calls.parent / "fake"
        if self._case.fake is not None:
            shutil.copytree(self._case.fake, self._fake)
        else:
            self._fake.mkdir()
        notes = " ".join(command.note for command in self._case.commands)
        missing = "no claude/codex/bd" in notes
        wanted = ("claude", "codex") if not missing else ()
        if "fake bd" in notes:
            wanted = (*wanted, "bd")
        for name in wanted:
            program = self._bin / name
            program.write_text(f"#!{sys.executable}\n{Path(scripted_cli.__file__).read_text()}")
            program.chmod(0o755)

    def _put_in_place(self, command: Command) -> None:
        """A moment `before-status` is what the recording put there by hand before the first `status`: runs
        of the shell engine, for the import."""
        for moment in [m for m in self._waiting if m.name == f"before-{''.join(command.positional[:1])}"]:
            self._waiting.remove(moment)
            for session in moment.sessions():
                target = self.project / RUNS / session
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(moment.run_dir(session), target)
                _make_own(target, str(self.project))

    def _environment(self, given: dict[str, str], note: str) -> dict[str, str]:
        tools = "/usr/local/bin:/usr/bin:/bin"
        environment = {
            "PATH": f"{self._bin}:{tools}",
            "HOME": str(self._home),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "TMUX_TMPDIR": str(self._calls),
            "PYTHONPATH": SOURCE,
        }
        if (self.project / "stages").is_dir():
            environment["STAGES_DIR"] = str(self.project / "stages")
        for name, value in given.items():
            if value.startswith("<engine>"):
                continue  # A file of the shell engine's installation; its counterpart is built in.
            environment[name] = value.replace("$P", str(self.project))
        if "MOCK_FIXTURES_DIR" in given and self._case.fixtures is not None:
            environment["MOCK_FIXTURES_DIR"] = str(self._case.fixtures)
        if beads := re.search(r"start (\d+)", note):
            environment["PARITY_BEADS"] = beads[1]
        return environment

    def _argv(self, command: Command) -> list[str]:
        return [str(self._program), *command.words]

    def _run(self, command: Command) -> Outcome:
        self._prepare_failures(command)
        environment = self._environment(command.environment, command.note)
        seconds = command.seconds or SECONDS
        try:
            code, out, err = warm_program().run(
                command.words, self.project, environment, seconds, str(self._program)
            )
        except subprocess.TimeoutExpired as stopped:
            return Outcome(command, 124, _decoded(stopped.stdout), _decoded(stopped.stderr))
        outcome = Outcome(command, code, _decoded(out), _decoded(err))
        if UNTRUSTED in outcome.err and "--trust" not in command.words:
            # A run of the shell engine that was put in place: a person trusts it.
            return self._run(replace(command, words=(*command.words, "--trust")))
        if refused := MISSING_INPUT.findall(outcome.err):
            # Again as a person would after the refusal, so that the rest of the case can be compared.
            words = tuple(word for word in command.words if word.removeprefix("--input=") not in refused)
            self._run(replace(command, words=words))
        return outcome

    def _wait_for_detached(self, command: Command) -> None:
        """What runs in tmux is given the time that the recording gave it."""
        if command.session in self._detached and "Status: complete" in command.out:
            self._wait_for_end(str(command.session))
        if command.drives and not {"--foreground", "--no-tmux"} & {*command.words}:
            self._detached.add(command.session)

    def _wait_for_end(self, session: str) -> None:
        """The engine removes its lock file last, when state.json shows the end."""
        log = self.project / RUNS / session / "events.jsonl"
        lock = self.project / ".claude" / "locks" / f"{session}.lock"
        deadline = time.monotonic() + BACKGROUND_SECONDS
        while time.monotonic() < deadline:
            ended = any(event["type"] in ("session_complete", "session_failed") for event in read_events(log))
            if ended and not lock.exists():
                return
            time.sleep(0.05)

    def _prepare_failures(self, command: Command) -> None:
        """`codex exits 5 at its iteration 2 the first time`: until the first command is over."""
        for name, code, number in re.findall(
            r"(\w+) exits (\d+) at its iteration (\d+) the first time", command.note
        ):
            planned = self._fake / f"rc-{name}-{number}"
            if command.number == self._case.commands[0].number:
                planned.write_text(code)
            else:
                planned.unlink(missing_ok=True)

    def _start(self, command: Command) -> Outcome:
        environment = self._environment(command.environment, command.note)
        self._background = subprocess.Popen(
            self._argv(command),
            cwd=self.project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._wait_as_far(command)
        return Outcome(command, None, skipped="in the background: what came of it is seen in the files")

    def _wait_as_far(self, command: Command) -> None:
        """Until our run is as far as the recorded one was when it was looked at."""
        session = command.session or ""
        recorded = [m.events(session) for m in self._case.moments if session in m.sessions()]
        wanted = min((_iterations(events) for events in recorded), default=(1, 0))
        log = self.project / RUNS / session / "events.jsonl"
        deadline = time.monotonic() + BACKGROUND_SECONDS
        while _iterations(read_events(log)) < wanted and time.monotonic() < deadline:
            time.sleep(0.05)

    def _kill(self) -> None:
        if self._background is None:
            return
        background, self._background = self._background, None
        if background.poll() is None:
            os.kill(background.pid, signal.SIGKILL)
        background.wait(10)


def _why_not(command: Command, begun: set[str | None]) -> str:
    if command.program != "run.sh":
        return f"{command.program} is an inner program of the shell engine; users call run.sh"
    by_hand = BEFORE.search(command.note) or (command.session in begun and BETWEEN.search(command.note))
    if by_hand:
        return f"the recording prepared files by hand ({by_hand[0]}); the case doesn't hold them"
    return ""


def _was_running(command: Command) -> bool:
    """Whether the recording's background run was still there: as `status` or a refusal says."""
    said = command.out + command.err
    words = command.positional
    if words[:1] == ["status"]:
        return "Status: running" in said
    if command.drives:
        return "currently active" in said or "already running" in said
    return True


def _iterations(events: list[dict[str, object]]) -> tuple[int, int]:
    types = [event.get("type") for event in events]
    return types.count("iteration_start"), types.count("iteration_complete")


def _decoded(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def _make_own(folder: Path, project: str) -> None:
    """Writable, and with this project's path where the recording has its placeholder."""
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
        if path.is_file() and b"@PROJECT@" in (content := path.read_bytes()):
            path.write_bytes(content.replace(b"@PROJECT@", project.encode()))
