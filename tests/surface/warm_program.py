"""The command line in processes that are forked from one that has imported it: imports take most of the time
of a short command.

A forked process is like any other in what it can do and what it leaves behind; only its command line in /proc
is that of the first one, and its interpreter frees nothing at the end. Run as a program, this file is that
first process.
"""

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import agentforge

BASE = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TZ": "UTC"}
FIXED_AT_START = ("LANG", "LC_", "PYTHON")
"""Python reads variables with these names only when it starts."""
LEFT_OUT = ("agentforge.tool_loop.", "agentforge.testing.", "agentforge.builtin.", "agentforge.__main__")
DESCRIPTOR = "WARM_PROGRAM"
MODULE = str(Path(agentforge.__path__[0], "__main__.py"))


class WarmProgram:
    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Where the source is, if not where it is installed.
        path = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__],
                cwd="/",
                env={**BASE, **path, DESCRIPTOR: str(theirs.fileno())},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def __del__(self) -> None:
        """When its thread has ended."""
        self._channel.close()
        self._process.wait()

    def run(
        self, arguments: tuple[str, ...], cwd: Path, env: dict[str, str], seconds: float, name: str = ""
    ) -> tuple[int, bytes, bytes]:
        """The exit status, stdout and stderr. `name`: what the program is called, if not `-m agentforge`."""
        call = {"argv": (name or MODULE, *arguments), "cwd": str(cwd), "env": env}
        files = [os.memfd_create(name) for name in ("call", "out", "err")]
        try:
            os.pwrite(files[0], json.dumps(call).encode(), 0)
            socket.send_fds(self._channel, [b"call"], files)
            code = self._awaited(seconds)
            out, err = (os.pread(file, os.fstat(file).st_size, 0) for file in files[1:])
        finally:
            for file in files:
                os.close(file)
        if code is None:
            raise subprocess.TimeoutExpired(arguments, seconds, out, err)
        return code, out, err

    def _awaited(self, seconds: float) -> int | None:
        """The exit status, or None if it was killed because it took too long."""
        self._channel.settimeout(None)
        pid = int(self._channel.recv(20))
        self._channel.settimeout(seconds)
        try:
            return int(self._channel.recv(20))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            self._channel.settimeout(None)
            self._channel.recv(20)
            return None


_OF_THREAD = threading.local()


def warm_program() -> WarmProgram:
    """One for each thread: it runs one command at a time."""
    if not hasattr(_OF_THREAD, "program"):
        _OF_THREAD.program = WarmProgram()
    program: WarmProgram = _OF_THREAD.program
    return program


def can_run(env: dict[str, str]) -> bool:
    """Whether a forked process behaves like a new one with these variables."""
    fixed = {name: value for name, value in env.items() if name.startswith(FIXED_AT_START)}
    return sys.platform == "linux" and fixed == {"LANG": BASE["LANG"]}


def import_all() -> None:
    for module in walk_packages(agentforge.__path__, "agentforge."):
        if not module.name.startswith(LEFT_OUT):
            import_module(module.name)


def serve(channel: socket.socket) -> None:
    """Fork for each call; returns in the forked process only."""
    while True:
        content, files, _, _ = socket.recv_fds(channel, 20, 3)
        if not content:
            os._exit(0)
        if (pid := os.fork()) == 0:
            channel.close()
            become(*files)
            return
        for file in files:
            os.close(file)
        channel.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())


def become(call: int, out: int, err: int) -> None:
    with open(call, "rb") as file:
        wanted = json.load(file)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    os.environ.clear()
    os.environ.update(wanted["env"])
    time.tzset()
    os.chdir(wanted["cwd"])
    sys.argv[:] = wanted["argv"]


def exit_as(code: Any) -> None:
    """End as the interpreter does, except for freeing every object, which takes longer than most commands."""
    if code is not None and not isinstance(code, int):
        return
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    # Like `-m agentforge`: the folder of the program isn't searched.
    del sys.path[0]
    with socket.socket(fileno=int(os.environ.pop(DESCRIPTOR))) as channel:
        import_all()
        # The forked processes leave these objects alone, so that their memory stays shared.
        gc.freeze()
        serve(channel)
    from agentforge.cli.main import main

    try:
        main()
    except SystemExit as end:
        exit_as(end.code)
        raise
