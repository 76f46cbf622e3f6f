"""The command line in processes that are forked from one that has imported it (`tests/fork_server.py`). Run
as a program, this file is that first process."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import agentforge

if TYPE_CHECKING:
    from tests.fork_server import Forked, ForkServer

FIXED_AT_START = ("LANG", "LC_", "PYTHON")
"""Python reads variables with these names only when it starts."""
MODULE = str(Path(agentforge.__path__[0], "__main__.py"))


class WarmProgram:
    def __init__(self, search: str = "") -> None:
        from tests.fork_server import ForkServer

        self._server = ForkServer(__file__, search)

    def run(
        self, arguments: tuple[str, ...], cwd: Path, env: dict[str, str], seconds: float, name: str = ""
    ) -> tuple[int, bytes, bytes]:
        """The exit status, stdout and stderr. `name`: what the program is called, if not `-m agentforge`."""
        files = [os.memfd_create(name) for name in ("out", "err")]
        try:
            process = self._server.start((name or MODULE, *arguments), cwd, env, *files)
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise subprocess.TimeoutExpired(arguments, seconds, *map(_content, files)) from None
            out, err = map(_content, files)
            return code, out, err
        finally:
            for file in files:
                os.close(file)

    def start(self, arguments: tuple[str, ...], cwd: Path, env: dict[str, str]) -> "WarmProcess":
        """In a session of its own."""
        return WarmProcess(self._server, (MODULE, *arguments), cwd, env)

    def start_on(self, terminal: int, arguments: tuple[str, ...], cwd: Path, env: dict[str, str]) -> "Forked":
        return self._server.start_on(terminal, (MODULE, *arguments), cwd, env)

    def put_launcher(self, path: Path) -> None:
        """A command of that path whose processes are forked."""
        self._server.put_launcher(path, str(path))


class WarmProcess:
    """As of `subprocess.Popen` with pipes."""

    def __init__(self, server: "ForkServer", argv: tuple[str, ...], cwd: Path, env: dict[str, str]) -> None:
        pipes = [os.pipe(), os.pipe()]
        self._process = server.start(argv, cwd, env, *(writing for _, writing in pipes), session=True)
        for _, writing in pipes:
            os.close(writing)
        self.stdout: BinaryIO | None
        self.stderr: BinaryIO | None
        self.stdout, self.stderr = (os.fdopen(reading, "rb") for reading, _ in pipes)
        self.pid, self.poll, self.wait = self._process.pid, self._process.poll, self._process.wait
        self.send_signal, self.kill = self._process.send_signal, self._process.kill

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """One that takes too long is killed."""
        with ThreadPoolExecutor(2) as pool:
            texts = pool.map(_rest, (self.stdout, self.stderr))
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            out, err = texts
        return out, err


def _rest(file: BinaryIO | None) -> bytes:
    if file is None or file.closed:
        return b""
    with file:
        return file.read()


def _content(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


@cache
def warm_program(search: str = "") -> WarmProgram:
    """`search`: the PYTHONPATH that its commands have; worth it for several of them only."""
    return WarmProgram(search)


def put_command(path: Path, search: str) -> None:
    """An executable that is the program; its processes are forked where that is possible."""
    if sys.platform == "linux":
        warm_program(search).put_launcher(path)
    else:
        path.symlink_to(Path(sys.executable).with_name(path.name))


def can_run(env: dict[str, str], search: str = "") -> bool:
    """Whether a process forked from the program with this PYTHONPATH behaves like a new one with these
    variables."""
    fixed = {name: value for name, value in env.items() if name.startswith(FIXED_AT_START)}
    expected = {"LANG": "C.UTF-8", **({"PYTHONPATH": search} if search else {})}
    return sys.platform == "linux" and fixed == expected


if __name__ == "__main__":
    # Like `-m agentforge`: the folder of the program isn't searched.
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from fork_server import run_and_exit, serve
    from warm_caches import fill_caches, import_all

    del sys.path[0]
    from agentforge.cli import acode, main

    def called() -> None:
        (acode if os.path.basename(sys.argv[0]) == "acode" else main).main()

    import_all()
    fill_caches()
    serve()
    run_and_exit(called)
