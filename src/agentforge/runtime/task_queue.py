"""The queue of tasks that a queue stage works off: asked through the `bd` program."""

import asyncio
import logging
import shutil
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from agentforge.model import facts as f
from agentforge.model.failure import FailureKind

log = logging.getLogger("agentforge.run")

PROGRAM = "bd"
PREFIX_VARIABLE = "BEADS_LABEL_PREFIX"
TIMEOUT = 60.0


class _Task(Struct):
    id: str


class TaskQueue:
    def __init__(self, project: str, session: str, environ: Mapping[str, str]) -> None:
        self._project = project
        self._session = session
        self._environ = dict(environ)
        self._label = f"{environ.get(PREFIX_VARIABLE, 'pipeline/')}{session}"

    async def check(self, stage: str) -> f.AnyFact:
        """How many tasks are ready; asking changes nothing, so it may be asked again after a crash."""
        program = shutil.which(PROGRAM, path=self._environ.get("PATH"))
        if program is None:
            return _unreadable(
                stage,
                "Missing required command: bd (beads CLI). Install it (npm install -g @beads/bd)"
                " or give the stage another termination",
            )
        code, output = await self._run(program, "ready", f"--label={self._label}")
        if code != 0:
            return _unreadable(
                stage, f"`bd ready --label={self._label}` exited with {code}: {output.strip()[:200]}"
            )
        return f.QueueChecked(sum(1 for line in output.splitlines() if line.strip()))

    async def release(self) -> None:
        """Give back what agents had taken that nobody drives any more; without the program, nothing."""
        program = shutil.which(PROGRAM, path=self._environ.get("PATH"))
        if program is None:
            return
        code, output = await self._run(
            program, "list", f"--label={self._label}", "--status=in_progress", "--json", errors=False
        )
        taken = _ids(output) if code == 0 else []
        if taken:
            log.info("Releasing orphaned beads for session %r", self._session)
        for id in taken:
            code, output = await self._run(program, "update", id, "--status=open")
            if code != 0:
                log.warning("bead %s stays in progress: %s", id, output.strip()[:200])

    async def _run(self, program: str, *arguments: str, errors: bool = True) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            cwd=self._project,
            env=self._environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT if errors else asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(TIMEOUT):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return 124, f"no answer within {TIMEOUT:g} s"
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        return process.returncode or 0, output.decode("utf-8", "replace")


def _ids(output: str) -> list[str]:
    try:
        found = msgspec.json.decode(output or "[]", type=list[_Task])
    except msgspec.DecodeError:
        return []
    # One that began with a dash would read as an option.
    return [task.id for task in found if task.id and not task.id.startswith("-")]


def _unreadable(stage: str, message: str) -> f.ErrorOccurred:
    return f.ErrorOccurred(kind=FailureKind.QUEUE_UNREADABLE, message=message, stage=stage, attempt=0)
