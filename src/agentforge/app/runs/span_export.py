"""Exports the spans of runs to an OpenTelemetry collector, in a program of its own (`span_program.py`)."""

import asyncio
import logging
import os
import sys
from contextlib import suppress
from subprocess import DEVNULL, PIPE, Popen
from threading import Thread

import msgspec
from msgspec import Struct

from agentforge.adapters.otlp import ENDPOINTS, collector
from agentforge.app.runs.lookup import Runs
from agentforge.app.wiring import PACKAGE, sources_of
from agentforge.definition.settings import is_local_user
from agentforge.model.errors import NOT_JSON, AgentForgeError, InvalidRequest
from agentforge.system.programs import Program, run

log = logging.getLogger("agentforge.run")

PROGRAM = """\
import sys
sys.path.insert(0, sys.argv[1])
from agentforge.app.runs.span_program import main
main(*sys.argv[2:])
"""
SECONDS = 2.0
"""How long the end of an engine may wait."""
LAST_SECONDS = 30
"""How long the program may work after that."""
ALL_SECONDS = 600.0
"""How long the export of one run may take."""
AGAIN = "`agentforge log spans SESSION` exports all of a run"


class ExportReport(Struct):
    exported: int = 0
    problem: str = ""
    """Why not all spans were taken."""


def export_spans(runs: Runs, session: str) -> int:
    """Export all spans of a run that have ended, with the ids that they always have. Returns their number.
    Raises AgentForgeError if the collector doesn't take them, InvalidRequest if a variable turns it off."""
    runs.log(session)
    if collector(runs.environ, asked=True) is None:
        off = "OTEL_SDK_DISABLED or OTEL_TRACES_EXPORTER turns it off"
        raise InvalidRequest(f"no spans are exported: {off}", hint="unset it")
    is_local = is_local_user(sources_of(runs.project, runs.environ))
    argv = _argv(runs, "--ended", *(["--local"] if is_local else []))
    done = run(Program(argv, ALL_SECONDS, env=runs.environ, stdin=f"+{session}\n".encode()))
    report = _report(done.stdout, done.problem or done.last_error)
    if report.problem:
        message = f"the spans of session {session!r} were not exported: {report.problem}"
        hint = f"start the collector, or name another with {ENDPOINTS[1]}, and repeat the command"
        raise AgentForgeError(message, hint=hint)
    return report.exported


class SpanExport:
    """Of the runs of one engine."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._program: Popen[bytes] | None = None

    def follow(self, session: str) -> None:
        """The engine drives the run from now on."""
        try:
            if self._program is None and collector(self._runs.environ) is not None:
                # A session of its own: Ctrl-C in a terminal ends the run, not what tells of its end.
                self._program = Popen(
                    _argv(self._runs),
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=DEVNULL,
                    env=self._runs.environ,
                    start_new_session=True,
                )
        except (AgentForgeError, OSError) as error:
            hint = f": {error.hint}" if isinstance(error, AgentForgeError) else ""
            log.warning("no spans are exported: %s%s", error, hint)
        self._tell(f"+{session}\n")

    def release(self, session: str) -> None:
        self._tell(f"-{session}\n")

    def _tell(self, line: str) -> None:
        if self._program is not None and self._program.stdin is not None:
            with suppress(OSError):  # It has died; `close` says so.
                self._program.stdin.write(line.encode())
                self._program.stdin.flush()

    async def close(self) -> None:
        """Wait a moment until all is exported."""
        if (program := self._program) is None:
            return
        self._program = None
        said: list[bytes] = []
        # It outlives this process if the collector is slow. Until then the thread awaits its end.
        thread = Thread(target=lambda: said.append(program.communicate()[0]), daemon=True)
        thread.start()
        await asyncio.to_thread(thread.join, SECONDS)
        if not said:
            where = collector(self._runs.environ)
            log.warning(
                "%s has not taken all spans yet: they are sent for %s more seconds; %s",
                where,
                LAST_SECONDS,
                AGAIN,
            )
        elif problem := _report(said[0], "its program has died").problem:
            log.warning("not all spans were exported: %s; %s", problem, AGAIN)


def _argv(runs: Runs, *options: str) -> tuple[str, ...]:
    """Nothing in the project or the environment can shadow our modules."""
    return (sys.executable, "-P", "-E", "-c", PROGRAM, os.path.dirname(PACKAGE), runs.project, *options)


def _report(printed: bytes, otherwise: str) -> ExportReport:
    try:
        return msgspec.json.decode(printed, type=ExportReport)
    except NOT_JSON:
        return ExportReport(problem=otherwise)
