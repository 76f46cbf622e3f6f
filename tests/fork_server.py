"""Processes that are forked from one that has imported what they need: imports take most of the time of a
short command.

A forked process is like any other in what it can do and what it leaves behind; only its command line and its
environment in /proc are those of the first one, and its interpreter frees nothing at the end. Only the
standard library.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

BASE = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TZ": "UTC"}
DESCRIPTORS = "FORK_SERVER"
"""The variable with the numbers of the sockets on which the server is asked to fork."""
MAX_ANSWER = 20

LAUNCHER = """\
import json, os, signal, socket, sys
call = {{"argv": [{name!r}, *sys.argv[1:]], "cwd": os.getcwd(), "env": dict(os.environ), "session": False}}
file = os.memfd_create("call")
os.pwrite(file, json.dumps(call).encode(), 0)
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect({address!r})
socket.send_fds(server, [b"call"], [file, 0, 1, 2])
pid = int(server.recv({size}))
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(pid, number))
code = int(server.recv({size}))
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


class Forked:
    """As of `subprocess.Popen`: one of the server's processes, which reports its pid and its exit status."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.returncode: int | None = None
        self.pid = int(connection.recv(MAX_ANSWER))

    def poll(self) -> int | None:
        return self.returncode if self._ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended(timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, seconds: float | None) -> bool:
        if self.returncode is None and select.select([self._connection], [], [], seconds)[0]:
            self.returncode = int(self._connection.recv(MAX_ANSWER))
            self._connection.close()
        return self.returncode is not None


class ForkServer:
    """`program` calls `serve`. Any thread may start processes. `search`: its PYTHONPATH."""

    def __init__(self, program: str, search: str = "") -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind("")  # The kernel chooses a name that no file has.
        listener.listen()
        self._address: bytes = listener.getsockname()
        # Where the source is, if not where it is installed.
        search = search or os.environ.get("PYTHONPATH", "")
        path = {"PYTHONPATH": search} if search else {}
        with theirs, listener:
            descriptors = [theirs.fileno(), listener.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, program],
                cwd="/",
                env={**BASE, **path, DESCRIPTORS: json.dumps(descriptors)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=descriptors,
            )

    def __del__(self) -> None:
        self._channel.close()
        self._process.wait()

    def start(
        self, argv: tuple[str, ...], cwd: Path, env: dict[str, str], out: int, err: int, session: bool = False
    ) -> Forked:
        """`out`, `err`: descriptors; `session`: whether it has a session of its own."""
        call = {"argv": argv, "cwd": str(cwd), "env": env, "session": session}
        return self._forked(call, out, err)

    def start_on(self, terminal: int, argv: tuple[str, ...], cwd: Path, env: dict[str, str]) -> Forked:
        """On a terminal, which controls it."""
        call = {"argv": argv, "cwd": str(cwd), "env": env, "session": True, "terminal": True}
        return self._forked(call, terminal, terminal, terminal)

    def _forked(self, call: dict[str, object], *files: int) -> Forked:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        file = os.memfd_create("call")
        with theirs:
            os.pwrite(file, json.dumps(call).encode(), 0)
            socket.send_fds(self._channel, [b"call"], [file, *files, theirs.fileno()])
        os.close(file)
        return Forked(ours)

    def put_launcher(self, path: Path, name: str) -> Path:
        """An executable that has one of the server's processes do its work: with its arguments, folder,
        variables and standard streams. `name`: what the process finds as its own."""
        code = LAUNCHER.format(name=name, address=self._address, size=MAX_ANSWER)
        path.write_text(f"#!{sys.executable} -IS\n{code}", encoding="utf-8")
        path.chmod(0o755)
        return path


def serve() -> None:
    """Fork for each call; returns in the forked processes only, each as it was asked for."""
    # The forked processes leave these objects alone, so that their memory stays shared.
    gc.freeze()
    channel, listener = (socket.socket(fileno=number) for number in json.loads(os.environ.pop(DESCRIPTORS)))
    with channel, listener:
        call, *files = _call_of_child(channel, listener)
    for number, file in enumerate(files, 3 - len(files)):
        os.dup2(file, number)
        os.close(file)
    _open_streams()
    with open(call, "rb") as content:
        _become(**json.load(content))


def _call_of_child(channel: socket.socket, listener: socket.socket) -> list[int]:
    """Serve until we are the forked process; returns the descriptors of its call and its streams, of which
    the first may be missing."""
    started: dict[int, tuple[int, int]] = {}
    """Process and connection of each that is running, by its descriptor."""
    waiting = select.poll()
    waiting.register(channel, select.POLLIN)
    waiting.register(listener, select.POLLIN)
    while True:
        for ready, _ in waiting.poll():
            if ready in started:
                waiting.unregister(ready)
                _report_exit(ready, *started.pop(ready))
                continue
            if ready == listener.fileno():
                launcher, _ = listener.accept()
                content, files, _, _ = socket.recv_fds(launcher, MAX_ANSWER, 4)
                if not content:  # It was killed before it asked.
                    launcher.close()
                    continue
                connection = launcher.detach()
            else:
                content, files, _, _ = socket.recv_fds(channel, MAX_ANSWER, 5)
                if not content:
                    os._exit(0)
                connection = files.pop()
            if (pid := os.fork()) == 0:
                for descriptor in (connection, *started, *(other for _, other in started.values())):
                    os.close(descriptor)
                return files
            for file in files:
                os.close(file)
            _tell(connection, pid)
            descriptor = os.pidfd_open(pid)
            started[descriptor] = pid, connection
            waiting.register(descriptor, select.POLLIN)


def _report_exit(descriptor: int, pid: int, connection: int) -> None:
    _, status = os.waitpid(pid, 0)
    _tell(connection, os.waitstatus_to_exitcode(status))
    os.close(connection)
    os.close(descriptor)


def _tell(connection: int, number: int) -> None:
    # A launcher may be killed at any time: then nothing waits for the answer, or the last one wasn't read.
    with suppress(BrokenPipeError, ConnectionResetError):
        os.write(connection, str(number).encode())


def _open_streams() -> None:
    """A stream remembers whether its file is a pipe or a terminal."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        mode, buffering = ("r", -1) if name == "stdin" else ("w", 1 if name == "stderr" else -1)
        again = open(number, mode, buffering, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, again)


def _become(argv: list[str], cwd: str, env: dict[str, str], session: bool, terminal: bool = False) -> None:
    if session:
        os.setsid()
    if terminal:
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(cwd)
    sys.argv[:] = argv


def run_and_exit(main: Callable[[], object]) -> None:
    """Run the program and end as the interpreter does, except for freeing every object, which takes longer
    than most commands."""
    try:
        main()
        code: object = 0
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            raise
        code = end.code or 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(int(str(code)))
