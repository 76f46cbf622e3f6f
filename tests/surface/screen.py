"""The program on a real terminal."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.fork_server import Forked
from tests.surface.terminal import PATIENCE, Project
from tests.surface.warm_program import can_run, warm_program


class Screen:
    """A terminal that remembers everything that was drawn on it."""

    def __init__(self, descriptor: int, process: "subprocess.Popen[bytes] | Forked") -> None:
        self._descriptor = descriptor
        self._process = process
        self.raw = ""
        self._forgotten = 0

    @property
    def text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw[self._forgotten :])

    def until(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in self.text:
            assert time.monotonic() < deadline, f"{text!r} never came: {self.text[-2000:]}"
            assert self._read(), f"{text!r} never came: {self.text[-2000:]}"

    def forget(self) -> None:
        """What was drawn so far."""
        self._forgotten = len(self.raw)

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def until_raw(self, code: str, times: int) -> None:
        """Until an escape code was printed that often."""
        deadline = time.monotonic() + PATIENCE
        while self.raw.count(code) < times:
            assert time.monotonic() < deadline, f"{code!r} never came"
            assert self._read(), f"{code!r} never came"

    def terminate(self) -> None:
        self._process.terminate()

    def end(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while self._read():
            assert time.monotonic() < deadline
        return self._process.wait(PATIENCE)

    def _read(self) -> bool:
        if not select.select([self._descriptor], [], [], 0.1)[0]:
            return True
        try:
            found = os.read(self._descriptor, 65536)
        except OSError:
            return False
        self.raw += found.decode("utf-8", "replace")
        return bool(found)


def _started(
    project: Project, terminal: int, arguments: tuple[str, ...], more: dict[str, str]
) -> "subprocess.Popen[bytes] | Forked":
    env = {**project.env, **more}
    if can_run(env, project.search):
        return warm_program(project.search).start_on(terminal, arguments, project.root, env)
    return subprocess.Popen(
        [sys.executable, "-c", "import os,sys,fcntl,termios; os.setsid();"
         "fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])",
         "-m", "agentforge", *arguments],
        cwd=project.root,
        env=project.environment(more),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )  # fmt: skip


@contextmanager
def on_a_terminal(project: Project, *arguments: str, **env: str) -> Iterator[Screen]:
    master, slave = pty.openpty()
    more = {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30", **env}
    process = _started(project, slave, arguments, more)
    os.close(slave)
    try:
        yield Screen(master, process)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE)
        os.close(master)
