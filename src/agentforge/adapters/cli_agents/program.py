"""The base of providers whose agent is a program: finds the program, runs it once."""

import asyncio
import os
import shutil
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec.structs import replace

from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.secrets import Redactor
from agentforge.ports.provider import (
    Capabilities,
    CleansUp,
    Command,
    ExecuteRequest,
    ExecuteResult,
    Exit,
    ProcessProvider,
)
from agentforge.system.programs import Program, run_async
from agentforge.system.work_limit import WorkLimit

if TYPE_CHECKING:
    from agentforge.adapters.cli_agents.description import AgentCli

# Linux accepts no single argument longer than this, whatever the total may be.
MAX_ARGUMENT_BYTES = 128 * 1024 - 1
TIMED_OUT = 124
"""The exit status of `timeout`."""
CLEANUP_SECONDS = 10.0


def find_program(program: str, workdir: str, environment: Mapping[str, str]) -> str | None:
    """The absolute path of the program, or None if there is no such executable."""
    # A name with a slash is relative to the agent's working folder, not the engine's.
    name = str(Path(workdir) / program) if "/" in program else program
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    return None if found is None else str(Path(found).absolute())


def check_arguments(provider: str, words: Iterable[str]) -> None:
    """Raises ProviderUnusable for arguments that the kernel would reject with a less helpful error."""
    for word in words:
        if "\0" in word:
            raise ProviderUnusable(
                f"provider {provider}: an argument contains a NUL character", hint="use `prompt: stdin`"
            )
        size = len(word.encode("utf-8", "replace"))
        if size > MAX_ARGUMENT_BYTES:
            raise ProviderUnusable(
                f"provider {provider}: an argument of {size} bytes exceeds the system's limit",
                hint="use `prompt: stdin` or `prompt: file`",
            )


async def execute_once(provider: ProcessProvider, request: ExecuteRequest) -> ExecuteResult:
    """Implements `execute` for process providers: run the command here and interpret its exit."""
    try:
        command = provider.command(request)
        try:
            return await _in_time(provider, command, request)
        finally:
            if isinstance(provider, CleansUp):
                # The agent itself is gone, so a failure of its cleanup is ignored.
                cleanup = Program(
                    provider.cleanup(request.mark), CLEANUP_SECONDS, cwd=request.workdir, env=command.env
                )
                await asyncio.shield(run_async(cleanup))
    except ProviderUnusable as error:
        return ExecuteResult(failure=as_failure(error), exit_code=127)


async def _in_time(provider: ProcessProvider, command: Command, request: ExecuteRequest) -> ExecuteResult:
    try:
        async with WorkLimit(command.timeout):
            exit = await run_once(command, request.workdir)
    except TimeoutError:
        message = f"the agent was ended after {command.timeout or 0:g} s"
        return ExecuteResult(failure=Failure(FailureKind.ITERATION_TIMEOUT, message), exit_code=TIMED_OUT)
    exit = replace(exit, model=request.model, config=request.config, budget=request.budget)
    return await asyncio.to_thread(provider.interpret, exit)


async def run_once(command: Command, workdir: str) -> Exit:
    began = time.monotonic()
    # Files instead of pipes: a program that doesn't read its prompt can't break the write, and a
    # background process that keeps the output open can't hold up the end.
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        stdin.write(command.stdin.encode("utf-8", "replace"))
        stdin.seek(0)
        apart = errors if command.separate_errors else output
        code = await _to_its_end(command, workdir, (stdin.fileno(), output.fileno(), apart.fileno()))
        hide = Redactor(command.secrets).text
        return Exit(
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            duration_ms=round((time.monotonic() - began) * 1000),
            output=hide(_text(output)),
            errors=hide(_text(errors)),
            ended_at=datetime.now(UTC),
        )


def as_failure(error: ProviderUnusable) -> Failure:
    message = f"{error.message}; {error.hint}" if error.hint else error.message
    return Failure(FailureKind.PROVIDER_MISSING, message)


def exit_status(exit: Exit) -> int:
    """The exit status as in a shell: 128 + N for signal N."""
    if exit.exit_code is not None:
        return exit.exit_code
    return 128 + (exit.signal or 0)


async def _to_its_end(command: Command, workdir: str, ends: tuple[int, int, int]) -> int:
    process = await _spawn(command, workdir, ends)
    try:
        return await process.wait()
    except BaseException:
        # With all that it started and that is still in its group.
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise


async def _spawn(command: Command, workdir: str, ends: tuple[int, int, int]) -> asyncio.subprocess.Process:
    stdin, output, errors = ends
    try:
        return await asyncio.create_subprocess_exec(
            *command.argv,
            cwd=workdir,
            env=command.env,
            stdin=stdin,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
    except OSError as error:
        raise ProviderUnusable(
            f"can't start {command.argv[0]!r} in {workdir}: {error.strerror}",
            hint="check that the program exists and is executable, and that the folder exists",
        ) from error


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


class ProgramProvider(ABC):
    """A process provider; subclasses define the program and its capabilities."""

    cli: "AgentCli | None" = None
    """The agent CLI that it runs, if it is one."""

    def __init__(self, name: str, environ: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._environ = dict(os.environ if environ is None else environ)

    # Empty on purpose: most programs need neither.
    async def init(self) -> None:  # noqa: B027
        """Nothing to set up."""

    async def shutdown(self) -> None:  # noqa: B027
        """Nothing to release."""

    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @abstractmethod
    def validate(self) -> None: ...

    @abstractmethod
    def command(self, request: ExecuteRequest) -> Command: ...

    def interpret(self, exit: Exit) -> ExecuteResult:
        return ExecuteResult(output=exit.output, exit_code=exit_status(exit), duration_ms=exit.duration_ms)

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:
        return await execute_once(self, request)
