"""Runs programs and waits for them: helpers such as git, tmux and bd, and a model's commands.

Bounded in time and output. No shell sees their arguments as code. Each program runs in a new session: on
timeout or cancellation it is killed with its process group.
"""

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from enum import Enum
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from agentforge.system.work_clock import WorkClock

# A helper must neither hold up nor outlive the engine, whatever it does. It may leave processes behind
# that keep its pipes open: its own end is awaited, not that of its output, and what is in the pipes by
# then is taken. It may print without an end: both streams are read all the time, and their beginnings and
# ends are kept. It may ignore SIGTERM: SIGKILL goes to its whole group. Its input is a file and not a
# pipe, which would have to be written while the output is read: else both sides could wait for each
# other.

SHELL = "/bin/sh"
MAX_OUTPUT = 1 << 20
_CHUNK = 1 << 16
_FULL_PIPE = 1 << 20
_STEP_SECONDS = 0.05
"""How often to poll for what no pipe reports: cancellation, or an exit while other processes hold the
pipes."""


class Program(Struct, frozen=True):
    """What to run, and its limits."""

    argv: tuple[str, ...]
    timeout: float
    cwd: str | None = None
    env: Mapping[str, str] | None = None
    """The complete environment; None: inherit ours."""
    merged: bool = False
    """Whether stderr is redirected to stdout."""
    max_output: int = MAX_OUTPUT
    """Bytes kept of each stream, half from the beginning and half from the end."""
    grace: float = 0.0
    """Seconds between SIGTERM and SIGKILL on timeout."""
    max_memory: int | None = None
    """Bytes of its address space, on Linux: no file that it reads can make it take more."""
    contained: bool = False
    """Whether its background processes are killed when it exits."""
    stdin: bytes = b""
    descriptors: Mapping[int, str] = {}
    """What it can read from these descriptors, which have one digit."""


class NoExit(Enum):
    """Why a program has no exit status."""

    MISSING = "missing"
    NOT_PERMITTED = "not permitted"
    NOT_STARTED = "not started"
    TIMED_OUT = "timed out"


class ProgramResult(Struct, frozen=True):
    code: int | None
    """Negative: the signal that ended it. None: see `reason`."""
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    reason: NoExit | None = None
    problem: str = ""
    """The reason as text."""

    @property
    def status(self) -> int:
        """The exit status as in a shell: 128 + N for signal N, 124 for a timeout."""
        code = 124 if self.code is None else self.code
        return code if code >= 0 else 128 - code

    @property
    def output(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def errors(self) -> str:
        return self.stderr.decode("utf-8", "replace")

    @property
    def last_error(self) -> str:
        """The last line on stderr."""
        return self.errors.strip().rpartition("\n")[2]


def run(program: Program) -> ProgramResult:
    return _run(program, threading.Event())


async def run_async(program: Program) -> ProgramResult:
    """`run` without blocking the event loop; cancelling kills the program and waits until it has exited."""
    import asyncio  # Late, since read-only commands start faster without it.

    cancelled = threading.Event()
    running = asyncio.ensure_future(asyncio.to_thread(_run, program, cancelled))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        cancelled.set()
        await asyncio.wait([running])
        raise


def _run(program: Program, cancelled: threading.Event) -> ProgramResult:
    texts = {0: program.stdin} if program.stdin else {}
    texts |= {number: text.encode("utf-8", "surrogateescape") for number, text in program.descriptors.items()}
    with ExitStack() as open_files:
        try:
            stored = {number: open_files.enter_context(_stored(content)) for number, content in texts.items()}
        except OSError as error:
            problem = f"its input can't be stored: {error.strerror or error}"
            return ProgramResult(None, reason=NoExit.NOT_STARTED, problem=problem)
        stdin = stored.pop(0, subprocess.DEVNULL)
        return _run_with(_reading(program, stored), stdin, cancelled, [f.fileno() for f in stored.values()])


def _reading(program: Program, stored: Mapping[int, IO[bytes]]) -> Program:
    """The program, started by a shell that opens the files as its descriptors: `subprocess` can't."""
    if not stored:
        return program
    opened = "".join(f"exec {number}</dev/fd/{file.fileno()};" for number, file in stored.items())
    return replace(program, argv=(SHELL, "-c", f'{opened} exec "$@"', SHELL, *program.argv))


def _stored(content: bytes) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it.
    try:
        file.write(content)
        file.seek(0)
    except OSError:
        file.close()
        raise
    return file


def _run_with(
    program: Program, stdin: int | IO[bytes], cancelled: threading.Event, passed: Collection[int]
) -> ProgramResult:
    try:
        process = subprocess.Popen(
            _limited(program),
            cwd=program.cwd,
            env=program.env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if program.merged else subprocess.PIPE,
            # The signals of a timeout reach what it started, too.
            start_new_session=True,
            pass_fds=tuple(passed),
        )
    except (OSError, ValueError) as error:
        return _not_started(error)
    pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe]
    with process, selectors.DefaultSelector() as selector:
        kept = [_CappedOutput(program.max_output // 2) for _ in pipes]
        for pipe, stream in zip(pipes, kept, strict=True):
            selector.register(pipe, selectors.EVENT_READ, stream)
        in_time = False
        try:
            in_time = _ends_within(program.timeout, process, selector, cancelled)
            if program.grace and not in_time:
                _signal(process, signal.SIGTERM)
                _ends_within(program.grace, process, selector, cancelled)
        finally:
            if program.contained or process.poll() is None:
                _signal(process, signal.SIGKILL)
            process.wait()
        # All its own output is in the pipes by now; other processes that hold them aren't waited for.
        for _ in range(_FULL_PIPE // _CHUNK):
            _read_ready(selector, 0)
    stdout, stderr = (*(stream.content for stream in kept), b"")[:2]
    truncated = any(stream.dropped for stream in kept)
    if in_time:
        return ProgramResult(process.returncode, stdout, stderr, truncated)
    problem = f"timed out after {program.timeout:g} s"
    return ProgramResult(None, stdout, stderr, truncated, NoExit.TIMED_OUT, problem)


def _limited(program: Program) -> tuple[str, ...]:
    """The limit has to be there before the program: what it allocated earlier stays."""
    kilobytes = (program.max_memory or 0) // 1024
    if not kilobytes or sys.platform != "linux" or not os.access(program.argv[0], os.X_OK):
        return program.argv
    return ("/bin/sh", "-c", 'ulimit -v "$0" 2>/dev/null; exec "$@"', str(kilobytes), *program.argv)


class _CappedOutput:
    """Keeps the beginning and the end of an output: its first and last lines are the most useful."""

    def __init__(self, half: int) -> None:
        self._half, self._head, self._tail = half, bytearray(), bytearray()
        self.dropped = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        over = max(0, len(self._tail) - self._half)
        self.dropped += over
        del self._tail[:over]

    @property
    def content(self) -> bytes:
        between = f"\n[{self.dropped} bytes left out]\n".encode() if self.dropped else b""
        return bytes(self._head + between + self._tail)


def _ends_within(
    seconds: float,
    process: subprocess.Popen[bytes],
    selector: selectors.BaseSelector,
    cancelled: threading.Event,
) -> bool:
    clock = WorkClock()
    deadline = clock.now() + seconds
    while process.poll() is None:
        left = min(_STEP_SECONDS, deadline - clock.now())
        if left <= 0 or cancelled.is_set():
            return False
        if selector.get_map():
            _read_ready(selector, left)
        else:
            with suppress(subprocess.TimeoutExpired):
                process.wait(left)
    return True


def _read_ready(selector: selectors.BaseSelector, seconds: float) -> None:
    for key, _ in selector.select(seconds) if selector.get_map() else ():
        data = os.read(key.fd, _CHUNK)
        key.data.add(data)
        if not data:
            selector.unregister(key.fileobj)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _not_started(error: OSError | ValueError) -> ProgramResult:
    reason = NoExit.NOT_STARTED
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        reason = NoExit.MISSING
    elif isinstance(error, PermissionError):
        reason = NoExit.NOT_PERMITTED
    return ProgramResult(None, reason=reason, problem=getattr(error, "strerror", "") or str(error))
