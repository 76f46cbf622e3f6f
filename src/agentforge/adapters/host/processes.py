"""Processes of this machine, and the start of the supervisor. Linux uses /proc to identify processes and a
pidfd to wait for them; macOS uses `ps` and `sysctl`, less reliably: environments may be hidden."""

import asyncio
import importlib.util
import os
import py_compile
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agentforge.adapters.host.marked_tree import MarkedTree, ProcessRow
from agentforge.model.errors import AgentForgeError
from agentforge.ports.host import Identity, Processes
from agentforge.system.programs import Program, run

# How it works. An agent must outlive its engine, so that a killed engine costs no work, and must not outlive
# its limits. So the engine doesn't start agents: it starts the supervisor, in a session of its own, which
# starts the agent (runtime/supervisor.py). From then on the engine may die; the next one finds the supervisor
# by its identity.
#
# - A process is identified by its number, its start time and the boot, never by the number alone, which the
#   kernel gives to another process. Before a signal, a pidfd pins the process, and the identity is compared
#   through it.
# - A child that has ended keeps its number until `reap`. That is why `start` reaps first and the caller looks
#   at /proc before anything else reaps.
# - The supervisor's specification goes through a socket: arguments and environment of a process can be read
#   by every process of the user, also by agents, and a file would outlive a crash.
# - What belongs to an attempt is found by its mark in the environment, by descent and by session
#   (marked_tree.py): an agent's tools start daemons, whose parents are gone by then.

POLL_SECONDS = 0.05
PS_POLL_SECONDS = 0.1
ASK_SECONDS = 10.0
MAX_LISTING = 64 * 1024 * 1024
MAX_ANCESTORS = 64
# The supervisor's whole environment; some installations of Python need one of these to start.
LIBRARY_PATHS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")


class _Detached(subprocess.Popen[bytes]):
    """Meant to outlive us, so leaving it running must not cause a ResourceWarning."""

    def __del__(self, *_: object) -> None:
        with suppress(Exception):
            self.poll()


ISOLATED = ("-I", "-S")


class SupervisorStarter:
    def __init__(self, script: str) -> None:
        self._script = script
        self.name = Path(script).stem
        self._program: str | None = None
        self._children: list[_Detached] = []

    def start(self, folder: str) -> tuple[int, socket.socket]:
        """Start it and return the pid, which can't be reused until `reap` is called, and our end of the
        socket on which it expects its specification."""
        self.reap()
        if self._program is None:
            self._program = compiled(self._script)
        ours = None
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                child = self._spawn(self._program, os.path.abspath(folder), theirs)
        except OSError as exc:
            if ours is not None:
                ours.close()
            raise AgentForgeError(
                f"can't start the supervisor with {sys.executable or 'this Python'}: {exc.strerror}",
                hint="check the limits on processes and memory, then resume the run",
            ) from exc
        self._children.append(child)
        return child.pid, ours

    def _spawn(self, program: str, folder: str, stdin: socket.socket) -> _Detached:
        return _Detached(
            [sys.executable, *ISOLATED, program, folder],
            cwd=folder,
            # Not the engine's environment: it has all secrets, and /proc shows it to agents as long as the
            # supervisor lives.
            env={name: os.environ[name] for name in LIBRARY_PATHS if name in os.environ},
            stdin=stdin.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Else Ctrl-C on the terminal, and its end, would reach the supervisor and the agent as well.
            start_new_session=True,
            close_fds=True,
        )

    def is_named(self, program: str) -> bool:
        """Whether the program is a supervisor, of this installation or another."""
        return os.path.basename(program).partition(".")[0] == self.name

    def reap(self) -> None:
        self._children = [child for child in self._children if child.poll() is None]


async def hand_over(connection: socket.socket, spec: bytes) -> None:
    """Send the specification once the supervisor is ready. If it died, the attempt has no claim."""
    loop = asyncio.get_running_loop()
    with connection, suppress(OSError):
        connection.setblocking(False)
        if await loop.sock_recv(connection, 1):
            await loop.sock_sendall(connection, spec)


def compiled(script: str) -> str:
    """The path of the script's bytecode, which saves compiling it for every attempt, or of the script
    itself."""
    cached = importlib.util.cache_from_source(script)
    if _is_current(cached, script):
        return cached
    try:
        # Written atomically; `_is_current` relies on this mode.
        mode = py_compile.PycInvalidationMode.TIMESTAMP
        return py_compile.compile(script, cfile=cached, doraise=True, invalidation_mode=mode) or script
    except (OSError, py_compile.PyCompileError):
        return script


def _is_current(cached: str, script: str) -> bool:
    try:
        source = Path(script).stat()
        with Path(cached).open("rb") as file:
            header = file.read(16)
    except OSError:
        return False
    stamp = struct.pack("<LLL", 0, int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF)
    return header == importlib.util.MAGIC_NUMBER + stamp


def host_processes(supervisor: str, platform: str = sys.platform) -> Processes:
    """`supervisor` is the path of the supervisor program."""
    if platform == "linux":
        return LinuxProcesses(supervisor)
    if platform == "darwin":
        return MacProcesses(supervisor)
    system = "Windows" if platform in ("win32", "cygwin") else f"this system ({platform})"
    raise AgentForgeError(
        f"AgentForge doesn't support {system}: it needs process sessions and signals, so that agents outlive "
        "the engine and are ended with everything they started",
        hint="use Linux or macOS; on Windows, run it inside WSL 2",
    )


class LinuxProcesses:
    def __init__(self, supervisor: str) -> None:
        """`supervisor` is the path of the supervisor program."""
        self._starter = SupervisorStarter(supervisor)
        self._boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._host = os.uname().nodename

    def identify(self, pid: int) -> Identity | None:
        stat = _stat(pid)
        return None if stat is None or stat.is_dead else self._identity(pid, stat)

    def is_alive(self, identity: Identity) -> bool:
        return self.identify(identity.pid) == identity

    async def start_supervisor(self, folder: str, spec: bytes) -> Identity:
        pid, connection = self._starter.start(folder)
        stat = _stat(pid)  # Exists even if the process is dead by now, since we haven't reaped it.
        if stat is None:
            connection.close()
            raise AgentForgeError(
                f"the supervisor (process {pid}) exited immediately",
                hint="restore the default action of SIGCHLD in the calling program, then retry",
            )
        await hand_over(connection, spec)
        return self._identity(pid, stat)

    async def wait(self, identity: Identity) -> None:
        try:
            descriptor = os.pidfd_open(identity.pid)
        except ProcessLookupError:
            pass
        except OSError:  # Unsupported system call, or out of descriptors.
            while self.is_alive(identity):  # noqa: ASYNC110 - there is no event to wait for.
                await asyncio.sleep(POLL_SECONDS)
        else:
            try:
                # Only now is it certain which process the descriptor refers to.
                if self.is_alive(identity):
                    await _readable(descriptor)
            finally:
                os.close(descriptor)
        self._starter.reap()

    def terminate(self, identity: Identity) -> None:
        try:
            descriptor = os.pidfd_open(identity.pid)
        except ProcessLookupError:
            return
        try:
            if self.is_alive(identity):
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        finally:
            os.close(descriptor)

    def supervisors(self) -> dict[Identity, str]:
        self._starter.reap()
        found = {}
        for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
            _, *line = _entries(pid, "cmdline")[:-1] or [b""]
            if tuple(map(os.fsdecode, line[:2])) == ISOLATED and len(line) == 4:
                program, folder = map(os.fsdecode, line[2:])
                identity = self.identify(pid) if self._starter.is_named(program) else None
                if identity is not None:
                    found[identity] = folder
        return found

    async def end_marked(self, mark: str, seconds: float = 5.0) -> int:
        """`seconds` is the grace between TERM and KILL."""
        self._starter.reap()
        return await MarkedTree(lambda: _table(mark)).end(seconds)

    def inherited(self, variable: str) -> frozenset[str]:
        found, pid = set(), os.getpid()
        for _ in range(MAX_ANCESTORS):
            stat = _stat(pid)
            if stat is None:
                break
            found |= _values(_environ(pid), variable)
            pid = stat.parent
        return frozenset(found)

    def _identity(self, pid: int, stat: "_Stat") -> Identity:
        return Identity(pid, stat.start_time, self._boot_id, self._host)


class _Stat:
    """/proc/PID/stat without the name, which may contain spaces and parentheses."""

    def __init__(self, text: bytes) -> None:
        fields = text.rpartition(b")")[2].decode().split()
        # The main thread of a running process may be a zombie while other threads are alive.
        self.is_dead = fields[0] in "ZX" and int(fields[17]) <= 1
        self.parent, self.session, self.start_time = int(fields[1]), int(fields[3]), fields[19]


def _stat(pid: int) -> _Stat | None:
    try:
        return _Stat(_read(pid, "stat"))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # Other errors, such as running out of descriptors, don't mean that the process is dead.


def _table(mark: str) -> dict[int, ProcessRow]:
    table: dict[int, ProcessRow] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _stat(int(name))) is not None and not stat.is_dead:
            pid = int(name)
            carries = mark.encode() in _environ(pid)
            table[pid] = ProcessRow(pid, stat.parent, stat.session, stat.start_time, carries)
    return table


def _environ(pid: int) -> list[bytes]:
    return _entries(pid, "environ")


def _entries(pid: int, name: str) -> list[bytes]:
    try:
        return _read(pid, name).split(b"\0")
    except OSError:  # Exited, or owned by another user.
        return []


def _read(pid: int, name: str) -> bytes:
    """Without a buffer: there may be thousands of processes."""
    with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
        return file.read()


def _values(environ: list[bytes], variable: str) -> set[str]:
    prefix = f"{variable}=".encode()
    return {os.fsdecode(entry[len(prefix) :]) for entry in environ if entry.startswith(prefix)}


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


COMMANDS = ("ps", "-axww", "-o", "pid=,lstart=,command=")
LISTING = ("ps", "-axww", "-E", "-o", "pid=,ppid=,pgid=,stat=,lstart=,command=")

Ask = Callable[[tuple[str, ...]], str]
"""Runs a program and returns its output; empty if it failed."""


def ask_system(argv: tuple[str, ...]) -> str:
    # Times are compared as text, so language and time zone must not change it.
    env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C", "TZ": "UTC"}
    return run(Program(argv, ASK_SECONDS, env=env, max_output=MAX_LISTING)).output


class MacProcesses:
    def __init__(self, supervisor: str, ask: Ask = ask_system) -> None:
        """`supervisor` is the path of the supervisor program."""
        self._starter = SupervisorStarter(supervisor)
        self._ask = ask
        self._boot_id = ask(("sysctl", "-n", "kern.bootsessionuuid")).strip()
        self._host = os.uname().nodename

    def identify(self, pid: int) -> Identity | None:
        self._starter.reap()
        state, start_time = self._state(pid)
        return None if not state or state.startswith("Z") else self._identity(pid, start_time)

    def is_alive(self, identity: Identity) -> bool:
        # A laptop's host name changes with its network; the boot id is unique to a machine anyway.
        return identity.boot_id == self._boot_id and (
            (now := self.identify(identity.pid)) is not None and now.start_time == identity.start_time
        )

    async def start_supervisor(self, folder: str, spec: bytes) -> Identity:
        pid, connection = self._starter.start(folder)
        state, start_time = self._state(pid)  # Exists even if it is dead by now: we haven't reaped it.
        if not state:
            connection.close()
            raise AgentForgeError(
                f"`ps` printed no information about process {pid}",
                hint="check that `ps -p PID -o stat=,lstart=` works here",
            )
        await hand_over(connection, spec)
        return self._identity(pid, start_time)

    async def wait(self, identity: Identity) -> None:
        while self.is_alive(identity):  # noqa: ASYNC110 - there is no event to wait for.
            await asyncio.sleep(PS_POLL_SECONDS)

    def terminate(self, identity: Identity) -> None:
        if self.is_alive(identity):
            with suppress(ProcessLookupError):
                os.kill(identity.pid, signal.SIGTERM)

    def supervisors(self) -> dict[Identity, str]:
        self._starter.reap()
        found = {}
        for line in self._ask(COMMANDS).splitlines():
            before, isolated, after = line.partition(f" {' '.join(ISOLATED)} ")
            program, _, folder = after.partition(" /")
            pid, *words = before.split()
            if isolated and folder and self._starter.is_named(program):
                found[self._identity(int(pid), " ".join(words[:5]))] = f"/{folder}"
        return found

    async def end_marked(self, mark: str, seconds: float = 5.0) -> int:
        """`seconds` is the grace between TERM and KILL."""
        self._starter.reap()
        return await MarkedTree(lambda: self._table(mark)).end(seconds)

    def inherited(self, variable: str) -> frozenset[str]:
        rows = {row[0]: row[1:] for row in map(str.split, self._ask(LISTING).splitlines())}
        found, pid = set(), str(os.getpid())
        for _ in range(MAX_ANCESTORS):
            if pid not in rows:
                break
            found |= _values([os.fsencode(word) for word in rows[pid]], variable)
            pid = rows[pid][0]
        return frozenset(found)

    def _identity(self, pid: int, start_time: str) -> Identity:
        return Identity(pid, start_time, self._boot_id, self._host)

    def _state(self, pid: int) -> tuple[str, str]:
        """The state letters and the start time, which `ps` prints as five words."""
        state, _, start_time = self._ask(("ps", "-p", str(pid), "-o", "stat=,lstart=")).strip().partition(" ")
        return state, start_time.strip()

    def _table(self, mark: str) -> dict[int, ProcessRow]:
        """The process group replaces the session, which `ps` doesn't report on macOS."""
        table: dict[int, ProcessRow] = {}
        for line in self._ask(LISTING).splitlines():
            pid, parent, group, state, *rest = line.split()
            if not state.startswith("Z"):
                start_time, command = " ".join(rest[:5]), rest[5:]
                table[int(pid)] = ProcessRow(int(pid), int(parent), int(group), start_time, mark in command)
        return table
