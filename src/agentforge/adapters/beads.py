"""The beads task queue: queried through the `bd` program, by the session's label."""

import logging
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from agentforge.engine.decide.termination import QUEUE_TIMEOUT
from agentforge.model.errors import NOT_JSON
from agentforge.model.failure import Failure, FailureKind
from agentforge.system.programs import Program, ProgramResult, run_async
from agentforge.system.tools import find_tool, tool_environment, why_refused

log = logging.getLogger("agentforge.run")

PROGRAM: Final = "bd"
PREFIX_VARIABLE = "BEADS_LABEL_PREFIX"
MAX_LISTING = 64 * 1024 * 1024


class _BeadsTask(Struct):
    id: str


class Beads:
    def __init__(self, project: str, session: str, environ: Mapping[str, str]) -> None:
        self._project = project
        self._session = session
        self._environ = dict(environ)
        self._label = f"{environ.get(PREFIX_VARIABLE, 'pipeline/')}{session}"

    def problem(self) -> Failure | None:
        return None if self._program() else self._missing()

    async def count(self) -> int | Failure:
        program = self._program()
        if program is None:
            return self._missing()
        ended = await self._run(program, "ready", f"--label={self._label}")
        if ended.code != 0:
            return _unreadable(
                f"`bd ready --label={self._label}` exited with {ended.status}: {_error_text(ended)}"
            )
        return sum(1 for line in ended.output.splitlines() if line.strip())

    async def release(self) -> None:
        program = self._program()
        if program is None:
            return
        listed = await self._run(
            program, "list", f"--label={self._label}", "--status=in_progress", "--json", merged=False
        )
        taken = _ids(listed.stdout) if listed.code == 0 else []
        if taken:
            log.info("Releasing orphaned beads for session %r", self._session)
        for id in taken:
            ended = await self._run(program, "update", id, "--status=open")
            if ended.code != 0:
                log.warning("can't release bead %s: %s", id, _error_text(ended))

    def _missing(self) -> Failure:
        return _unreadable(
            "Missing required command: bd (beads CLI). Install it (npm install -g @beads/bd)"
            f" or use another termination type{why_refused(PROGRAM, self._environ, self._project)}"
        )

    def _program(self) -> str | None:
        return find_tool(PROGRAM, self._environ, self._project)

    async def _run(self, program: str, *arguments: str, merged: bool = True) -> ProgramResult:
        argv = (program, *arguments)
        environ = tool_environment(self._environ, self._project)
        return await run_async(Program(argv, QUEUE_TIMEOUT, self._project, environ, merged, MAX_LISTING))


def _error_text(ended: ProgramResult) -> str:
    return (ended.problem or ended.output).strip()[:200]


def _ids(output: bytes) -> list[str]:
    try:
        found = msgspec.json.decode(output or b"[]", type=list[_BeadsTask])
    except NOT_JSON:
        return []
    # An id that starts with a dash would be parsed as an option.
    return [task.id for task in found if task.id and not task.id.startswith("-")]


def _unreadable(message: str) -> Failure:
    return Failure(FailureKind.QUEUE_UNREADABLE, message)
