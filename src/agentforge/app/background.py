"""Background runs: each in a separate tmux session, or in a new window if we are inside tmux."""

import asyncio
import logging
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from time import monotonic

from msgspec import Struct

from agentforge.adapters.host.tmux import Launch, Tmux, TmuxSession, command_line
from agentforge.app.redaction import environment_redactor
from agentforge.app.runs.leases import active, stop_owner
from agentforge.app.runs.lock_folder import drop_reason, leave_reason, read_lock, reason_of
from agentforge.app.runs.lookup import Runs
from agentforge.app.wiring import local_processes
from agentforge.model.errors import AgentForgeError, InvalidRequest, RunActive
from agentforge.model.facts import TmuxSessionCleaned
from agentforge.model.failure import StopReason
from agentforge.system import files

log = logging.getLogger("agentforge.run")

START_SECONDS = 10.0
"""How long to wait for a run to start; after that, a running program counts as started."""
POLL_SECONDS = 0.05
MAX_MESSAGE = 4000


class BackgroundRun(Struct, frozen=True):
    session: str
    name: str
    """The name of the tmux session or window."""
    is_window: bool


def tmux_name(session: str) -> str:
    return f"pipeline-{re.sub(r'[^A-Za-z0-9_-]', '_', session)}"


class Background:
    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._environ = dict(runs.environ)
        self._tmux = Tmux(runs.environ, runs.project)

    async def free_tmux_name(self, session: str, *, force: bool) -> TmuxSessionCleaned | None:
        """Remove a stale tmux session with the run's name. Returns the fact to log, or None."""
        if force and self._runs.log_file(session).exists():
            await stop_owner(self._runs, session, local_processes())
        found = self._tmux.find(tmux_name(session))
        return None if found is None else self._clean(found, session, stale=not force)

    def refuse(self, session: str, *, force: bool) -> None:
        """Raise if tmux is missing, if another run uses the tmux name, or if the run is already running."""
        if not self._tmux.is_available:
            raise InvalidRequest(
                "tmux required for background execution. Install tmux or use `--foreground`",
                hint="`agentforge doctor` shows how to install it",
            )
        found = self._tmux.find(tmux_name(session))
        if found is not None:
            self._refuse_others(found, session)
        # A tmux session of this run without an engine is just starting or ending.
        running = self._is_driven(session) or (found is not None and found.is_alive and found.run != "")
        if running and not force:
            if found is None:
                raise active(self._runs, session)
            raise RunActive(
                "Session already running. Use `--force` to override.",
                hint=f"attach to it with `tmux attach -t {found.name}`",
            )

    async def start(self, session: str, arguments: Sequence[str]) -> BackgroundRun:
        """Start the program with these arguments and wait until the run has started."""
        drop_reason(self._runs.project, session)
        name, before = tmux_name(session), self._log_mark(session)
        launch = Launch(command_line(arguments), os.getcwd(), self._environ)
        place = self._tmux.start(name, launch, session, self._runs.project)
        deadline = monotonic() + START_SECONDS
        while monotonic() < deadline and not self._is_driven(session):
            if not self._tmux.is_running(place):
                # A short run may be over already: then its log has changed.
                if self._is_driven(session) or self._log_mark(session) != before:
                    break
                why = reason_of(self._runs.project, session)
                detail = f": {why.message}" if why else ""
                hint = why.hint if why else "run it with --foreground to see why"
                raise AgentForgeError(f"Session {session!r} failed to start{detail}", hint=hint)
            await asyncio.sleep(POLL_SECONDS)
        return BackgroundRun(session, name, self._tmux.is_inside)

    def record_failure(self, session: str, error: AgentForgeError) -> None:
        """In the background: the error that ends this engine, for `status` and the next command."""
        if isinstance(error, RunActive):
            return  # Another engine drives the run.
        redact = environment_redactor(self._environ).text
        now = datetime.now(UTC)
        reason = StopReason(session, now, error.code, redact(str(error)[:MAX_MESSAGE]), redact(error.hint))
        leave_reason(self._runs.project, reason)

    def _clean(self, found: TmuxSession, session: str, *, stale: bool) -> TmuxSessionCleaned | None:
        lock = read_lock(self._runs.project, session)
        why = f"PID {lock.pid} not running" if lock else "no engine running"
        if stale:
            log.warning("Cleaning up stale tmux session '%s' (%s)", found.name, why)
        self._tmux.kill(found.name)
        return TmuxSessionCleaned(found.name, lock.pid if lock else None) if stale else None

    def _refuse_others(self, found: TmuxSession, session: str) -> None:
        """Different sessions, also of different projects, may have the same tmux name."""
        same_project = os.path.realpath(found.project) == os.path.realpath(self._runs.project)
        if not found.is_alive or (same_project and found.run in ("", session)):
            return
        whose = (
            f"session {found.run!r} in {found.project}"
            if found.run
            else f"another program in {found.project}"
        )
        raise RunActive(
            f"tmux session '{found.name}' belongs to {whose}",
            hint="choose another session name, or use --foreground",
        )

    def _is_driven(self, session: str) -> bool:
        return self._runs.log_file(session).is_held()

    def _log_mark(self, session: str) -> tuple[int, int] | None:
        found = files.about(self._runs.layout(session).log)
        return (found.st_ino, found.st_size) if found else None
