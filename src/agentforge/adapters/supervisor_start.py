"""Starting the supervisor program, the same way on every system, and reaping it if it ends before us."""

import importlib.util
import py_compile
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from agentforge.model.errors import AgentForgeError


class _Detached(subprocess.Popen[bytes]):
    """Meant to outlive us, so that leaving it running is no leak worth a warning."""

    def __del__(self, *_: object) -> None:
        with suppress(Exception):
            self.poll()


class SupervisorStarter:
    def __init__(self, script: str) -> None:
        self._script = script
        self._program: str | None = None
        self._children: list[_Detached] = []

    def start(self, spec_path: str) -> int:
        """The pid; until `reap` is called it can't become another process's."""
        self.reap()
        if self._program is None:
            self._program = compiled(self._script)
        argv = [sys.executable, "-I", "-S", self._program, str(Path(spec_path).absolute())]
        try:
            child = _Detached(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                close_fds=True,
            )
        except OSError as exc:
            raise AgentForgeError(
                f"can't start the supervisor with {sys.executable or 'this Python'}: {exc.strerror}",
                hint="check the limits on processes and memory, then resume the run",
            ) from exc
        self._children.append(child)
        return child.pid

    def reap(self) -> None:
        self._children = [child for child in self._children if child.poll() is None]


def compiled(script: str) -> str:
    """The script's bytecode, which spares every attempt the compilation; or the script itself."""
    cached = importlib.util.cache_from_source(script)
    if _is_current(cached, script):
        return cached
    try:
        # Written atomically; the mode is the one that `_is_current` can tell.
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
