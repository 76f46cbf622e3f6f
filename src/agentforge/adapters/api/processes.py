"""Running one program for a tool: bounded in time and output, ended with all that is in its process group."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import FileIO

from msgspec import Struct

from agentforge.adapters.api.workspace import ToolError

TERM_GRACE = 2.0
DRAIN_SECONDS = 1.0
CHUNK = 65536


class Ran(Struct, frozen=True):
    status: int
    """As a shell would say it: a signal counts from 128."""
    output: str
    dropped: int = 0
    """How many bytes of output are missing in the middle."""
    timed_out: bool = False


async def run_program(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], *, seconds: float, output_bytes: int
) -> Ran:
    """Whatever way this ends, by cancelling too, nothing of the program's group is left."""
    kept = _Kept(output_bytes)
    descriptor, writing = os.pipe()
    reading = os.fdopen(descriptor, "rb", buffering=0)
    try:
        process = await _spawn(argv, cwd, env, writing)
    except BaseException:
        reading.close()
        raise
    finally:
        os.close(writing)
    # A pipe of our own: asyncio's would have us wait for everybody who holds its other end.
    hearing = asyncio.create_task(_hear(reading, kept))
    try:
        timed_out = not await _ends_within(process, seconds)
    finally:
        await _end(process)
        # Something that left the group may still hold the pipe; it isn't waited for.
        await asyncio.wait([hearing], timeout=DRAIN_SECONDS)
        hearing.cancel()
        await asyncio.wait([hearing])
    code = process.returncode or 0
    return Ran(code if code >= 0 else 128 - code, kept.text(), kept.dropped, timed_out)


class _Kept:
    """The beginning and the end of an output: what a program says first and last tells most."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head, self._tail = b"", b""
        self.dropped = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        over = len(self._tail) - self._half
        if over > 0:
            self.dropped += over
            self._tail = self._tail[over:]

    def text(self) -> str:
        between = f"\n[{self.dropped} bytes left out]\n".encode() if self.dropped else b""
        return (self._head + between + self._tail).decode("utf-8", "replace")


async def _spawn(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], output: int
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"{argv[0]}: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        raise ToolError(f"{argv[0]}: {error}") from error


async def _hear(pipe: FileIO, kept: _Kept) -> None:
    stream = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), pipe
    )
    try:
        while data := await stream.read(CHUNK):
            kept.add(data)
    finally:
        transport.close()


async def _ends_within(process: asyncio.subprocess.Process, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        _signal(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(TERM_GRACE):
                await process.wait()
        return False
    return True


async def _end(process: asyncio.subprocess.Process) -> None:
    """The group outlives its first process, so it is ended even if that one is gone."""
    _signal(process.pid, signal.SIGKILL)
    await process.wait()


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
