"""tmux: named sessions and windows in which a program keeps running when the terminal is closed."""

import errno
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote, unquote

from msgspec import Struct

from agentforge.adapters.host import tmux_child
from agentforge.model.errors import AgentForgeError, RunActive
from agentforge.model.secrets import can_be_secret, is_secret_name
from agentforge.system.programs import Program, run
from agentforge.system.tools import find_tool

SECONDS = 10.0
ASK_SECONDS = 0.2
"""How often tmux is asked whether the program that it started is running."""
_FORMAT = "\t".join(("#{session_name}", "#{pane_dead}", "#{@agentforge_session}", "#{@agentforge_project}"))


class TmuxSession(Struct, frozen=True):
    name: str
    is_alive: bool
    """Whether its program is still running; a dead pane may be kept for inspection."""
    run: str
    """The run that it was started for; empty if we didn't start it."""
    project: str
    """The project of that run; its working directory if we didn't start it."""


class Launch(Struct, frozen=True):
    """The program to run, with our working directory and environment."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]


class Tmux:
    def __init__(self, environ: Mapping[str, str], project: str = "") -> None:
        # The first call starts the server, which outlives us, and whose environment any agent can read.
        self._environ = {
            name: value
            for name, value in environ.items()
            if not (is_secret_name(name) and can_be_secret(value))
        }
        self._program = find_tool("tmux", environ, project)

    @property
    def is_available(self) -> bool:
        return self._program is not None

    @property
    def is_inside(self) -> bool:
        """Whether this process runs inside tmux."""
        return bool(self._environ.get("TMUX"))

    def find(self, name: str) -> TmuxSession | None:
        code, output = self._run("list-panes", "-a", "-F", _FORMAT)
        for line in output.splitlines() if code == 0 else ():
            found, _, rest = line.partition("\t")
            if found == name:
                dead, run, project = rest.split("\t")
                return TmuxSession(name, dead != "1", run, unquote(project) or self._working_directory(name))
        return None

    def _working_directory(self, name: str) -> str:
        # Separate from the list of panes: a folder's name may contain newlines.
        code, output = self._run("display-message", "-p", "-t", f"={name}:", "#{session_path}")
        return output.removesuffix("\n") if code == 0 else ""

    def kill(self, name: str) -> None:
        self._run("kill-session", "-t", f"={name}")

    def start(self, name: str, launch: Launch, run: str, project: str) -> str:
        """Start it in a session of that name, or in a new window if inside tmux; returns the target for
        `is_running`."""
        with tempfile.TemporaryDirectory(prefix="agentforge-launch-") as folder:
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe, 0o600)
            target = self._start(name, (sys.executable, "-I", "-S", tmux_child.__file__, pipe), run, project)
            _hand_over(launch, pipe, lambda: self.is_running(target))
        return target

    def _start(self, name: str, child: tuple[str, ...], run: str, project: str) -> str:
        if self.is_inside:
            return self._checked("new-window", "-d", "-P", "-F", "#{window_id}", "-n", name, *child)
        marks: list[str] = []
        for option, value in (("@agentforge_session", run), ("@agentforge_project", quote(project))):
            # A semicolon at the end would start another of tmux's commands.
            literal = f"{value[:-1]}\\;" if value.endswith(";") else value
            marks += [";", "set-option", "-t", f"={name}:", option, literal]
        self._checked("new-session", "-d", "-s", name, *child, *marks)
        return name

    def is_running(self, target: str) -> bool:
        if not target.startswith("@"):
            found = self.find(target)
            return found is not None and found.is_alive
        code, output = self._run("list-panes", "-a", "-F", "#{window_id} #{pane_dead}")
        return code == 0 and f"{target} 0" in output.splitlines()

    def _checked(self, *arguments: str) -> str:
        code, output = self._run(*arguments)
        if "duplicate session" in output:
            raise RunActive(
                "Session already running. Use `--force` to override.",
                hint="another command started it a moment ago",
            )
        if code != 0:
            raise AgentForgeError(
                f"tmux can't start the session: {output.strip()[:200]}",
                hint="see `tmux ls`, or use --foreground",
            )
        return output.strip()

    def _run(self, *arguments: str) -> tuple[int, str]:
        assert self._program is not None
        ended = run(Program((self._program, *arguments), SECONDS, env=self._environ, merged=True))
        return (1, ended.problem) if ended.code is None else (ended.code, ended.output)


def _hand_over(launch: Launch, pipe: str, is_running: Callable[[], bool]) -> None:
    """Write it to the pipe once the child reads from it. `is_running`: whether tmux still runs the child."""
    content = json.dumps({"argv": launch.argv, "cwd": launch.cwd, "env": dict(launch.env)}).encode()
    try:
        descriptor = _reader(pipe, is_running)
        if descriptor is None:
            raise AgentForgeError(
                "the program didn't start in tmux", hint="see `tmux ls`, or use --foreground"
            )
        with open(descriptor, "wb") as file:
            file.write(content)
    except OSError as error:
        raise AgentForgeError(
            f"the program exited in tmux: {error.strerror}", hint="see `tmux ls`, or use --foreground"
        ) from error


def _reader(pipe: str, is_running: Callable[[], bool]) -> int | None:
    """A descriptor to write to, or None if the child has ended or takes too long."""
    # Opening a pipe for writing waits for a reader, and would wait for ever if the child has died: so it is
    # tried without waiting, and tmux is asked from time to time, which takes longer.
    until = time.monotonic() + SECONDS
    ask_at = time.monotonic() + ASK_SECONDS
    while (descriptor := _opened(pipe)) is None and (now := time.monotonic()) < until:
        if now >= ask_at:
            if not is_running():
                return _opened(pipe)
            ask_at = now + ASK_SECONDS
        time.sleep(0.01)
    return descriptor


def _opened(pipe: str) -> int | None:
    """A descriptor to write to, or None as long as there is no reader."""
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        raise
    os.set_blocking(descriptor, True)
    return descriptor


def command_line(arguments: Sequence[str]) -> tuple[str, ...]:
    """Run this program with other arguments. Nothing is imported from the working directory."""
    return (sys.executable, "-P", "-m", "agentforge", *arguments)
