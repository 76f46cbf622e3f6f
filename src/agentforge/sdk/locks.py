"""Locks that dead owners left, what their agents had taken from the queue, and owners of another kind."""

import logging
from collections.abc import Mapping
from contextlib import suppress

from agentforge.adapters import lease
from agentforge.adapters.beads import Beads
from agentforge.model.errors import AgentForgeError, RunActive
from agentforge.model.layout import lock_file
from agentforge.ports.process import Processes
from agentforge.runtime.living_agents import has_living_agent
from agentforge.runtime.lock_file import LockFile, locked_sessions, read_lock, remove_lock
from agentforge.sdk.runner import Runner
from agentforge.sdk.runs import Runs

log = logging.getLogger("agentforge.run")


class Locks:
    def __init__(self, runs: Runs, runner: Runner, processes: Processes, environ: Mapping[str, str]) -> None:
        self._runs = runs
        self._runner = runner
        self._processes = processes
        self._environ = environ

    async def clean(self) -> set[str]:
        """Remove every lock in the project whose owner is dead; the sessions."""
        found = set()
        for session in locked_sessions(self._runs.project):
            with suppress(AgentForgeError):
                lock = self._stale(session)
                if lock is not None:
                    await self._remove(session, lock)
                    found.add(session)
        return found

    def tidy(self) -> None:
        """Put right what owners left that died when all was recorded. What is interrupted stays so."""
        for session in locked_sessions(self._runs.project):
            self._tidy(session)

    async def release_tasks(self, session: str) -> None:
        """Give back what a dead owner's agents had taken, unless one of them is still at work on it."""
        with suppress(AgentForgeError):
            info = self._runs.info(session)
            if has_living_agent(info.plan, info.state, self._runs.layout(session), self._processes):
                return
        await Beads(self._runs.project, session, self._environ).release()

    def refuse_other_engine(self, session: str, *, force: bool) -> None:
        """The Bash engine knows no lease on the log: it locks the lock file itself."""
        if not lease.is_held(lock_file(self._runs.project, session)):
            return
        lock = read_lock(self._runs.project, session)
        by = f" (PID {lock.pid})" if lock else ""
        if not force:
            raise RunActive(f"Session {session!r} is already running{by}", hint="use --force to override")
        log.warning("Overriding existing lock for session %r%s", session, by)

    def _stale(self, session: str) -> LockFile | None:
        lock = read_lock(self._runs.project, session)
        if lock is None or lease.is_held(lock_file(self._runs.project, session)):
            return None
        if lease.is_held(self._runs.layout(session).log):
            return None
        if lock.process is not None:
            return None if self._processes.is_alive(lock.process) else lock
        return None if self._processes.identify(lock.pid) else lock

    async def _remove(self, session: str, lock: LockFile) -> None:
        log.info("Removing stale lock: %s (PID %d)", session, lock.pid)
        self._tidy(session)
        if read_lock(self._runs.project, session) == lock:
            remove_lock(self._runs.project, session)
        await self.release_tasks(session)

    def _tidy(self, session: str) -> None:
        with suppress(AgentForgeError):
            if self._runs.info(session).status not in ("running", "interrupted"):
                self._runner.tidy(session)
