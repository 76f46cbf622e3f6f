"""`agentforge demo`: a small but real job on a sample repository, with the engine killed twice."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct, structs

from agentforge import Runs, Tail
from agentforge.cli.output import echo_json
from agentforge.model import facts as f
from agentforge.model.errors import AgentForgeError
from agentforge.model.event import Event
from agentforge.model.place import folder_of
from agentforge.views.lines.events import demo_line

if TYPE_CHECKING:
    from rich.console import Console

MARKS: dict[str, tuple[str, str]] = {
    "note": ("·", "dim"),
    "command": ("$", "bold cyan"),
    "stage": ("▶", "bold"),
    "work": ("…", "dim"),
    "agent": ("│", "bright_black"),
    "done": ("✓", "green"),
    "kill": ("✗", "bold red"),
    "reattached": ("↻", "bold yellow"),
    "lost": ("!", "red"),
}
WITHIN_A_STAGE = frozenset({"work", "agent", "done", "reattached", "lost"})
SESSION = "demo"
TIMEOUT_SECONDS = 60.0
# The recorded session runs pytest; if it isn't installed, the same tests run under unittest.
PYTEST = '"-m", "pytest", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider"'
UNITTEST = '"-m", "unittest", "-q"'


class Screen:
    def __init__(self, console: "Console") -> None:
        self._console = console

    def show(self, kind: str, text: str) -> None:
        mark, style = MARKS[kind]
        indent = "  " if kind in WITHIN_A_STAGE else ""
        self._console.print(
            f"{indent}{mark} {text}", style=style, highlight=False, markup=False, soft_wrap=True
        )

    def show_table(self, survived: "Survived", kept: str | None) -> None:
        from rich.table import Table

        table = Table(title="What the run survived", title_justify="left", show_header=False)
        table.add_column(style="bold")
        table.add_column(justify="right")
        for name in survived.__struct_fields__:
            if name != "commit":
                table.add_row(name.replace("_", " "), str(getattr(survived, name)))
        self._console.print()
        self._console.print(table)
        self._console.print(f"Committed: {survived.commit}", style="green", highlight=False, markup=False)
        if kept:
            self._console.print(f"Kept in {kept}", highlight=False, markup=False)


Show = Callable[[str, str], None]


class Survived(Struct, frozen=True):
    """The demo's final numbers, counted from the run's log and files."""

    events: int
    iterations: int
    attempts: int
    kills_survived: int
    agents_reattached: int
    iterations_lost: int
    iterations_repeated: int
    commit: str
    seconds: float


@click.command()
@click.option("--keep", is_flag=True, help="Keep the sample repository afterwards.")
@click.option("--json", "as_json", is_flag=True, help="Print only the final numbers, as JSON.")
def demo(keep: bool, as_json: bool) -> None:
    """Watch a run survive two kills of its engine.

    The run works on a sample repository. It needs no API key and no network, and takes less than a
    minute. The agent is a recorded session that a real process plays back; pytest, git and the kills are
    real.
    """
    from rich.console import Console

    if shutil.which("git") is None:
        raise AgentForgeError("the demo needs git, which is not installed", hint="install git")
    folder = tempfile.mkdtemp(prefix="agentforge-demo-")
    screen = None if as_json else Screen(Console())
    try:
        survived = Demo(folder, screen.show if screen else lambda _kind, _text: None).play()
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if screen is None:
        echo_json(json.dumps(structs.asdict(survived)))
    else:
        screen.show_table(survived, folder if keep else None)
    if survived.iterations_lost or survived.iterations_repeated:
        raise SystemExit(1)


class Demo:
    """The sample repository, the engine processes that drive its run, and the kills."""

    def __init__(self, folder: str, show: Show) -> None:
        self._project = os.path.join(folder, "kitchen")
        self._show = show
        self._environ = _environment(folder)
        self._tail: Tail | None = None
        self._output = ("", 0)
        """The agent's output file, and how many of its bytes were shown."""
        self._kills = 0

    @property
    def _runs(self) -> Runs:
        return Runs(self._project, os.environ)

    def play(self) -> Survived:
        began = time.monotonic()
        self._set_up()
        with self._engine("run", "-p", "demo.yaml", "-s", SESSION) as engine:
            self._watch(engine, until=lambda event: self._has_agent_started(event, "code"))
            agent = json.loads(Path(self._attempt_dir(), "agent.json").read_text(encoding="utf-8"))
            self._kill(engine, f"while its agent (PID {int(agent['pid'])}) keeps running")
        # Long enough to see that the agent works on without an engine.
        time.sleep(0.5)
        with self._engine("recover", SESSION) as engine:
            self._watch(engine, until=lambda event: isinstance(event.fact, f.DelayStarted))
            self._kill(engine, "between two iterations")
        with self._engine("recover", SESSION) as engine:
            self._watch(engine, until=lambda event: isinstance(event.fact, f.SessionCompleted))
            engine.wait(TIMEOUT_SECONDS)
        return self._count(time.monotonic() - began)

    def _set_up(self) -> None:
        shutil.copytree(str(files("agentforge") / "builtin" / "demo" / "project"), self._project)
        if find_spec("pytest") is None:
            cassette = Path(self._project, ".claude", "session.jsonl")
            recorded = cassette.read_text(encoding="utf-8")
            cassette.write_text(recorded.replace(PYTEST, UNITTEST), encoding="utf-8")
        self._git("init", "--quiet")
        self._git("add", "README.md", "kitchen", "tests")
        self._git("commit", "--quiet", "-m", "A slug for recipes")
        self._show("note", f"a sample repository in {self._project}")

    @contextmanager
    def _engine(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        self._show("command", f"agentforge {' '.join(arguments)}")
        # With `-P`, no file of the sample project can take the place of a module.
        engine = subprocess.Popen(
            [sys.executable, "-P", "-m", "agentforge", *arguments],
            cwd=self._project,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            yield engine
        finally:
            if engine.poll() is None:
                engine.kill()
            engine.communicate()

    def _watch(self, engine: subprocess.Popen[bytes], *, until: Callable[[Event], bool]) -> None:
        """Show the run's events up to the one that matches."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            ended = engine.poll() is not None
            for event in self._news():
                self._show_agent(event)
                if line := demo_line(event):
                    self._show(*line)
                if until(event):
                    self._show_agent()
                    return
            self._show_agent()
            if ended:
                errors = engine.stderr.read().decode("utf-8", "replace").strip() if engine.stderr else ""
                raise AgentForgeError(f"the demo's engine ended too early: {errors or 'no output'}")
            time.sleep(0.02)
        raise AgentForgeError("the demo's run made no progress", hint="retry with --keep to inspect it")

    def _news(self) -> list[Event]:
        if self._tail is None:
            if SESSION not in self._runs.sessions():
                return []
            self._tail = Tail(self._runs, SESSION)
        return list(self._tail.news())

    def _has_agent_started(self, event: Event, stage: str) -> bool:
        """Whether the event starts an agent of the stage; if so, wait for the agent's first output."""
        if not isinstance(event.fact, f.AttemptStarted) or self._runs.info(SESSION).state.node is None:
            return False
        if stage not in self._attempt_dir():
            return False
        deadline = time.monotonic() + TIMEOUT_SECONDS
        output = os.path.join(self._attempt_dir(), "output.log")
        while time.monotonic() < deadline and not (os.path.exists(output) and os.path.getsize(output)):
            time.sleep(0.02)
        return True

    def _show_agent(self, event: Event | None = None) -> None:
        """Show the agent's new output; the event may be the start of the next agent."""
        path, shown = self._output
        if os.path.exists(path):
            with open(path, "rb") as file:
                file.seek(shown)
                output = file.read()
            # The rest of the last line is shown when it is complete.
            whole = output[: output.rfind(b"\n") + 1]
            self._output = (path, shown + len(whole))
            for line in whole.decode("utf-8", "replace").splitlines():
                if line.strip():
                    self._show("agent", line)
        if event is not None and isinstance(event.fact, f.AttemptStarted):
            self._output = (os.path.join(self._attempt_dir(), "output.log"), 0)

    def _attempt_dir(self) -> str:
        info = self._runs.info(SESSION)
        at, attempt = info.state.node, info.state.attempt
        assert at is not None
        assert at.iteration is not None
        assert attempt is not None
        folder = folder_of(info.plan, at)
        here = self._runs.layout(SESSION).iteration(folder, at.iteration.number)
        return here.attempt(attempt.number).root

    def _kill(self, engine: subprocess.Popen[bytes], when: str) -> None:
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        self._kills += 1
        self._show("kill", f"SIGKILL to the engine (PID {engine.pid}) {when}")

    def _count(self, seconds: float) -> Survived:
        info = self._runs.info(SESSION, cached=False)
        planned = sum(stage.iterations for stage in info.state.stages)
        starts = sum("agent.json" in names for _, _, names in os.walk(info.run_dir))
        return Survived(
            events=info.summary.events,
            iterations=info.summary.iterations,
            attempts=info.summary.attempts,
            kills_survived=self._kills,
            agents_reattached=info.summary.reattached,
            iterations_lost=planned - info.summary.iterations,
            iterations_repeated=starts - info.summary.iterations,
            commit=self._git("log", "--oneline", "-1"),
            seconds=round(seconds, 1),
        )

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self._project,
            env=self._environ,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()


def _environment(folder: str) -> dict[str, str]:
    """An environment without the user's git settings (signing, hooks, templates, another repository)."""
    name, address = "AgentForge demo", "demo@localhost"
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
        "HOME": folder,
        "AGENT_PIPELINES_EVENT_FLUSH_MS": "50",  # So that the second kill falls into the delay.
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": address,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": address,
    }
