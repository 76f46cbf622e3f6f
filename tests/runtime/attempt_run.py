"""One attempt under the real supervisor, with the engine's part played by a test."""

import ctypes
import json
import marshal
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import agentforge.runtime.supervisor

SUPERVISOR = Path(agentforge.runtime.supervisor.__file__)
SUPERVISE = (sys.executable, "-I", "-S", str(SUPERVISOR))
LOADED = """
import importlib.util, json, os, sys, time, types
spec = importlib.util.spec_from_file_location("supervisor", sys.argv.pop(1))
supervisor = importlib.util.module_from_spec(spec)
spec.loader.exec_module(supervisor)
"""
CHANGED = f"""{LOADED}
vars(supervisor).update(json.loads(sys.argv.pop(1)))
os._exit(supervisor.main())
"""
CLOCKED = f"""{LOADED}
clock = sys.argv.pop(1)
vars(supervisor).update(json.loads(sys.argv.pop(1)))
supervisor.time = types.SimpleNamespace(**vars(time))
supervisor.time.monotonic = lambda: os.stat(clock).st_size / 10
os._exit(supervisor.main())
"""
PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 60.0
"""Seconds after which what should happen never will, on a busy machine too."""
ENV = {"PATH": os.environ["PATH"]}


def supervise_with(**constants: float) -> tuple[str, ...]:
    """The command line of a supervisor with other constants: a test waits for none of them."""
    assert constants.keys() <= vars(agentforge.runtime.supervisor).keys()
    return (sys.executable, "-I", "-S", "-c", CHANGED, str(SUPERVISOR), json.dumps(constants))


class ManualClock:
    """The clock of a supervisor, in tenths of a second: time passes when the test says so, however busy the
    machine is."""

    def __init__(self, path: Path, **constants: float) -> None:
        self._path = path
        path.touch()
        # However much time passes at once, it doesn't look as if the supervisor had been stopped.
        constants = {"STOPPED_SECONDS": 1e6, **constants}
        self._arguments = [str(SUPERVISOR), str(path), json.dumps(constants)]
        self.program = (sys.executable, "-I", "-S", "-c", CLOCKED, *self._arguments)
        """The command line of a supervisor with this clock and other constants."""

    def write_supervisor(self) -> Path:
        """The same supervisor, as a file."""
        file = self._path.with_suffix(".py")
        file.write_text(f"import sys\nsys.argv[1:1] = {self._arguments!r}\n{CLOCKED}")
        return file

    def advance(self, tenths: int) -> None:
        with self._path.open("ab") as file:
            file.write(b"." * tenths)


def eventually(what: Callable[[], object], seconds: float = PATIENCE) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it didn't happen in time"
        time.sleep(0.002)


def stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode().split()


def lives(pid: int) -> bool:
    try:
        return stat(pid)[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def waits(pid: int) -> bool:
    """Whether the process sleeps until something happens."""
    try:
        return stat(pid)[0] == "S"
    except (FileNotFoundError, ProcessLookupError):
        return False


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b"(ended)"


def descendants() -> set[int]:
    """Living ones of this process."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and lives(int(name)):
            with suppress(FileNotFoundError, ProcessLookupError):
                parents[int(name)] = int(stat(int(name))[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


@contextmanager
def no_leftover_processes() -> Iterator[None]:
    """Whatever escapes its supervisor becomes our child, so that none can hide."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = descendants()
    try:
        yield
        until = time.monotonic() + PATIENCE
        while (left := descendants() - before) and time.monotonic() < until:
            time.sleep(0.01)
        assert not left, list(map(command_line, left))
    finally:
        for pid in descendants() - before:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


class AttemptRun:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"AGENTFORGE_ATTEMPT={os.getpid()}-{folder.name}"
        self.claim, self.exit = folder / "claim", folder / "exit.json"
        self.agent, self.output = folder / "agent.json", folder / "output.log"
        self.errors = folder / "errors.log"
        self.lease = folder / "events.jsonl"
        self.lease.touch()
        self.supervisors: list[subprocess.Popen[bytes]] = []

    def spec(self, *argv: str, **changes: Any) -> bytes:
        found = self.folder.stat()
        spec = {
            "place": {"path": str(self.folder), "device": found.st_dev, "inode": found.st_ino},
            "output_cap": 1_000_000,
            "argv": argv,
            "env": ENV,
            "cwd": str(self.folder),
            "stdin": "",
            "descriptors": {},
            "separate_errors": False,
            "timeout": 2 * PATIENCE,
            "idle_timeout": None,
            "term_grace": 2,
            "orphan_grace": 900,
            "lease": str(self.lease),
            "mark": self.mark,
            "secrets": [],
            "cleanup": [],
        }
        return marshal.dumps(spec | changes)

    def start(
        self, *argv: str, program: tuple[str, ...] = SUPERVISE, **changes: Any
    ) -> subprocess.Popen[bytes]:
        child, connection = self.spawn(program)
        with connection:
            connection.recv(1)
            connection.sendall(self.spec(*argv, **changes))
        return child

    def spawn(self, program: tuple[str, ...] = SUPERVISE) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """A supervisor that waits for its specification, and the socket on which it expects it."""
        ours, theirs = socket.socketpair()
        command = [*program, str(self.folder)]
        with theirs:
            child = subprocess.Popen(command, cwd=self.folder, env={}, start_new_session=True, stdin=theirs)
        self.supervisors.append(child)
        return child, ours

    def run(self, *argv: str, **changes: Any) -> dict[str, Any]:
        self.start(*argv, **changes)
        return self.outcome()

    def outcome(self) -> dict[str, Any]:
        eventually(self.exit.exists)
        record: dict[str, Any] = json.loads(self.exit.read_text())
        return record

    def shell(self, script: str, **changes: Any) -> dict[str, Any]:
        return self.run("sh", "-c", script, **changes)

    def agent_pid(self) -> int:
        eventually(self.agent.exists)
        pid: int = json.loads(self.agent.read_text())["pid"]
        return pid

    def has_printed(self, text: str) -> bool:
        """Whether the output contains this and the supervisor, which waits again, has noticed when."""
        printed = self.output.exists() and text in self.output.read_text()
        return printed and waits(self.supervisors[-1].pid)

    def number_in(self, name: str) -> int:
        """A pid that the agent or a tool of it wrote to a file."""
        path = self.folder / name
        eventually(lambda: path.exists() and path.read_text().endswith("\n"))
        return int(path.read_text())

    def close(self) -> None:
        for child in self.supervisors:
            if child.poll() is None and not self.exit.exists():
                child.terminate()
            child.wait(timeout=PATIENCE)
