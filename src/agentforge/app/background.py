"""Runs in the background: each in a tmux session of its own, or in a window where we are inside of tmux."""

import asyncio
import logging
import os
import re
from collections.abc import Sequence
from time import monotonic

from msgspec import Struct

from agentforge.adapters.host.tmux import Launch, Tmux, TmuxSession, command_line
from agentforge.app.runs.leases import active, stop_owner
from agentforge.app.runs.lock_file import read_lock
from agentforge.app.runs.lookup import Runs
from agentforge.app.wiring import local_processes
from agentforge.model.errors import AgentForgeError, InvalidRequest, RunActive
from agentforge.model.facts import TmuxSessionCleaned

log = logging.getLogger("agentforge.run")

START_SECONDS = 10.0
"""How long a run may take to begin before it is called begun, as its program is running."""
POLL_SECONDS = 0.05


class BackgroundRun(Struct, frozen=True):
    session: str
    name: str
    """Of the tmux session or window."""
    is_window: bool


def tmux_name(session: str) -> str:
    return f"pipeline-{re.sub(r'[^A-Za-z0-9_-]', '_', session)}"


class Background:
    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._environ = dict(runs.environ)
        self._tmux = Tmux(runs.environ)

    async def make_way(self, session: str, *, force: bool) -> TmuxSessionCleaned | None:
        """See to it that the run can have its tmux session; what was cleaned up, for its log."""
        if force and self._runs.log_file(session).exists():
            await stop_owner(self._runs, session, local_processes())
        found = self._tmux.find(tmux_name(session))
        return None if found is None else self._clean(found, session, stale=not force)

    def refuse(self, session: str, *, force: bool) -> None:
        """Raise if there is no tmux, if its name is somebody else's, or if the run is running already."""
        if not self._tmux.is_available:
            raise InvalidRequest(
                "tmux required for background execution. Install tmux or use `--foreground`",
                hint="`agentforge doctor` says how to install it",
            )
        found = self._tmux.find(tmux_name(session))
        if found is not None:
            self._refuse_others(found, session)
        # One of ours that is alive and not driven is just beginning, or at its end.
        running = self._is_driven(session) or (found is not None and found.is_alive and found.run != "")
        if running and not force:
            if found is None:
                raise active(self._runs, session)
            raise RunActive(
                "Session already running. Use `--force` to override.",
                hint=f"attach to it with `tmux attach -t {found.name}`",
            )

    async def start(self, session: str, arguments: Sequence[str]) -> BackgroundRun:
        """Start the program with these arguments and wait until the run has begun."""
        name, before = tmux_name(session), self._log_mark(session)
        launch = Launch(command_line(arguments), os.getcwd(), self._environ)
        place = self._tmux.start(name, launch, session, self._runs.project)
        deadline = monotonic() + START_SECONDS
        while monotonic() < deadline and not self._is_driven(session):
            if not self._tmux.is_running(place):
                if self._is_driven(session) or self._log_mark(session) != before:
                    break
                raise AgentForgeError(
                    f"Session {session!r} failed to start", hint="run it with --foreground to see why"
                )
            await asyncio.sleep(POLL_SECONDS)
        return BackgroundRun(session, name, self._tmux.is_inside)

    def _clean(self, found: TmuxSession, session: str, *, stale: bool) -> TmuxSessionCleaned | None:
        lock = read_lock(self._runs.project, session)
        why = f"PID {lock.pid} not running" if lock else "nobody drives it"
        if stale:
            log.warning("Cleaning up stale tmux session '%s' (%s)", found.name, why)
        self._tmux.kill(found.name)
        return TmuxSessionCleaned(found.name, lock.pid if lock else None) if stale else None

    def _refuse_others(self, found: TmuxSession, session: str) -> None:
        """Different names may come to the same in tmux, and so may sessions of different projects."""
        same_project = os.path.realpath(found.project) == os.path.realpath(self._runs.project)
        if not found.is_alive or (same_project and found.run in ("", session)):
            return
        whose = f"session {found.run!r} in {found.project}" if found.run else f"something in {found.project}"
        raise RunActive(
            f"tmux session '{found.name}' belongs to {whose}",
            hint="choose another session name, or use --foreground",
        )

    def _is_driven(self, session: str) -> bool:
        return self._runs.log_file(session).is_held()

    def _log_mark(self, session: str) -> tuple[int, int] | None:
        try:
            found = os.stat(self._runs.layout(session).log)
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size
