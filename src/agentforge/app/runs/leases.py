"""The right to drive a run: leases and lock files, session names in use, and cleanup after dead owners."""

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agentforge.adapters.beads import Beads
from agentforge.adapters.log import lease
from agentforge.app.runs.completions import record_completion
from agentforge.app.runs.lock_folder import (
    LockFile,
    drop_reason,
    hide_from_git,
    locked_sessions,
    read_lock,
    remove_lock,
    write_lock,
)
from agentforge.app.runs.lookup import Runs
from agentforge.app.runs.trust import Trust
from agentforge.legacy.shell_run import is_shell_run
from agentforge.model import facts as f
from agentforge.model.errors import (
    AgentForgeError,
    LogCorrupt,
    RunActive,
    RunExists,
    StorageFailed,
    UnknownRun,
)
from agentforge.model.layout import lock_file
from agentforge.model.names import session_argument, session_name
from agentforge.model.status import RunStatus, status_text
from agentforge.ports.host import Clock, Processes
from agentforge.runtime.journal import Journal
from agentforge.runtime.left_files import remove_run_drafts
from agentforge.runtime.state_folder import HeadKeeper
from agentforge.runtime.supervision import has_living_program
from agentforge.runtime.view_files import StateWriter
from agentforge.system import files
from agentforge.views.answers import answer_commands
from agentforge.views.record import record_of
from agentforge.views.results import RunInfo

# How it works. The right to drive a run is the `flock` on its log, nothing else. The lock file names its
# owner for people, for `--force` and for the shell engine's tools, and may be wrong: its owner may be dead,
# its number may be another process by now. So no decision about who may write rests on it, and removing it is
# always safe.
#
# Invariants:
# - The lease is taken before the log is read to be continued, and kept until the last event is durable.
#   Otherwise two engines could decide from the same head and start the same agent twice.
# - A check without the lease (`refuse_taken`, `validate_start`) only gives an earlier and better message.
#   What counts is checked again while the lease is held: `open_new` for a name, `archive` for a run in
#   progress.
# - What follows a stopped run (state.json, the completion, the lock file) is written in that order, so that a
#   crash in between leaves the lock file, by which `repair` finds the run and does the rest again.
#
# Locking the lock file, as the shell engine does, is not enough: people and `git clean` remove it, and an
# engine that locks a new file then doesn't see the other one. The log can't be removed unnoticed
# (adapters/log/displacement.py).

log = logging.getLogger("agentforge.run")

STOP_SECONDS = 40.0


class Leases:
    """The leases that one engine holds on the runs of a project."""

    def __init__(self, runs: Runs, processes: Processes, clock: Clock, trust: Trust) -> None:
        self._runs = runs
        self._trust = trust
        self._processes = processes
        self._clock = clock
        self._open: set[str] = set()

    # -- acquire and release

    def open(self, session: str) -> Journal:
        """Acquire the run's lease."""
        session = session_name(session)
        # A second descriptor of this process would be refused by its own lock too, but only after waiting for
        # a second.
        if session in self._open:
            raise active(self._runs, session)
        try:
            writer = self._runs.log_file(session).open()
        except RunActive:
            raise active(self._runs, session) from None
        try:
            hide_from_git(self._runs.project)
            # With the lease, nothing else writes to the run: what a killed engine half wrote can be removed.
            remove_run_drafts(self._runs.layout(session))
            write_lock(self._runs.project, session, self._processes, self._clock.now())
            drop_reason(self._runs.project, session)
            journal = Journal(session, writer, self._clock)
        except BaseException:
            remove_lock(self._runs.project, session)
            writer.close()
            raise
        self._open.add(session)
        return journal

    def open_new(self, session: str) -> Journal:
        journal = self.open(session)
        if journal.model.state is None:
            return journal
        # Another process started a run with this name after our check, or a first line without its
        # newline turned out to be complete.
        self.release(journal)
        self._refuse_existing(session)
        raise active(self._runs, session)

    def check_head(self, journal: Journal) -> None:
        """Raise LogCorrupt if events are missing at the end of the log."""
        # A log that was cut at the end of a line is not damaged: its chain holds. Only what was remembered
        # outside of the project tells that something is missing, such as the start of an agent that would be
        # started again.
        self._keeper(journal).check_head(journal.state.run_id, self._runs.log_file(journal.session))

    def write_state(self, journal: Journal) -> None:
        """Bring state.json up to date."""
        # Neither state.json nor the head that is kept may be ahead of the log after a power failure.
        journal.wait_for_disk()
        StateWriter(self._runs.layout(journal.session), journal, self._keeper(journal)).put()

    def _keeper(self, journal: Journal) -> HeadKeeper:
        return HeadKeeper(self._runs.layout(journal.session).root, self._runs.environ)

    def release(self, journal: Journal, *, keep_lock: bool = False) -> None:
        """Release the lease. `keep_lock` leaves the lock file, so that `repair` finds the run."""
        try:
            if not keep_lock:
                remove_lock(self._runs.project, journal.session)
            journal.close()
        finally:
            self._open.discard(journal.session)

    @contextmanager
    def released_on_error(self, journal: Journal) -> Iterator[None]:
        """Keep the lease unless the block fails."""
        try:
            yield
        except BaseException:
            self.release(journal)
            raise

    def warn_about_others(self, session: str) -> None:
        """Name the sessions that work in the same folder at the same time."""
        for other in locked_sessions(self._runs.project):
            if other != session and self._runs.is_held(other):
                log.warning(
                    "Session %r is running in the same folder%s: "
                    "the agents of both sessions can change the same files",
                    other,
                    _owner(self._runs, other),
                )
        for other, pids in self._runs.left_agents().items():
            if other != session:
                log.warning(
                    "Agents of session %r, which no engine drives, are still running in the same folder "
                    "(PID %s): the agents of both sessions can change the same files",
                    other,
                    " ".join(pids),
                )

    # -- names in use

    def is_taken(self, session: str) -> bool:
        """Whether a run has this name. A log without its first event, as after a kill at the very start,
        doesn't count unless an engine holds it."""
        found = self._runs.log_file(session)
        if not found.exists():
            return False
        try:
            with suppress(LogCorrupt):
                self._runs.info(session)
        except UnknownRun:
            return found.is_held()
        return True

    def refuse_taken(self, session: str) -> None:
        """Raise if a new run can't have this name."""
        if self.is_taken(session):
            self._refuse_existing(session)

    def refuse_other_engine(self, session: str, *, force: bool) -> None:
        """Raise if the shell engine runs the session: it locks the lock file instead of the log."""
        path = lock_file(self._runs.project, session)
        with files.storage(path):
            if not lease.is_held(path):
                return
        by = _owner(self._runs, session)
        if not force:
            raise RunActive(f"Session {session!r} is already running{by}", hint="use --force to override")
        log.warning("Overriding existing lock for session %r%s", session, by)

    def archive(self, session: str) -> str | None:
        """Rename a finished or cancelled run while holding its lease, so that its name is free, and return
        its new folder. None if the run is in progress again: another engine has continued it in the
        meantime."""
        root = self._runs.layout(session).root
        try:
            with self._runs.log_file(session).hold():
                return None if self._is_in_progress(session) else self._moved_aside(root)
        except RunActive:
            raise active(self._runs, session) from None
        except UnknownRun:
            return root  # Another engine has archived it.

    def set_aside(self, session: str) -> None:
        """Move a folder that has the session's name but no log out of the way of a new run: what it contains
        is of another run."""
        root = self._runs.layout(session).root
        begun = files.about(self._runs.layout(session).log)
        if begun is not None and begun.st_size:
            return  # A torn first line: the writer accepts it or cuts it off.
        try:
            if not files.listing(root) or self._runs.log_file(session).is_held():
                return
        except StorageFailed:
            return  # It is refused when the log is opened.
        aside = self._moved_aside(root)
        log.warning("%s has no log, so it is not a run: it was moved to %s", root, os.path.basename(aside))

    def _moved_aside(self, root: str) -> str:
        now = self._clock.now()
        aside = f"{root}.{now:%Y%m%d-%H%M%S}-{now.microsecond:06d}"
        files.move(root, aside)
        return aside

    def _is_in_progress(self, session: str) -> bool:
        try:
            state = self._runs.info(session).state
        except LogCorrupt:
            return False
        return state.status is RunStatus.RUNNING and not is_shell_run(state)

    def _refuse_existing(self, session: str) -> None:
        if self._runs.log(session).is_held():
            raise active(self._runs, session)
        info = self._runs.info(session)
        status, asked = info.state.status, info.state.open_requests
        if status in (RunStatus.COMPLETED, RunStatus.ABORTED):
            is_done = status is RunStatus.COMPLETED
            which = "finished" if is_done else "cancelled"
            raise RunExists(
                f"Session {session!r} {'already completed' if is_done else 'was cancelled'}.",
                hint=f"choose another name, or use --force to start over: the {which} run is archived",
            )
        if status is RunStatus.AWAITING_APPROVAL:
            commands = [] if info.answered else answer_commands(session, asked, "agentforge")
            then = (*commands, f"agentforge recover {session_argument(session)}")[0]
            shown = "was answered, and not continued" if info.answered else f"is {status_text(status, asked)}"
            raise RunExists(f"Session {session!r} {shown}.", hint=f"{then}   (or --force to start over)")
        shown = "is interrupted" if status is RunStatus.RUNNING else f"is {status.value}"
        raise RunExists(
            f"Session {session!r} {'failed' if status is RunStatus.FAILED else shown} and can be resumed.",
            hint=f"agentforge resume {session_argument(session)}   (or --force to start over)",
        )

    # -- cleanup after dead owners

    async def clean(self) -> set[str]:
        """Remove every lock in the project whose owner is dead, except those of runs that were not started
        here. Returns the sessions."""
        found = set()
        for session in locked_sessions(self._runs.project):
            with suppress(AgentForgeError):
                lock = self._stale(session)
                if lock is None:
                    continue
                # The locks of the shell engine are cleaned up, too, but not its runs.
                if self._trust.is_own(session) or self._runs.is_shell_run(session):
                    await self._remove(session, lock)
                    found.add(session)
        return found

    def tidy(self) -> None:
        """Clean up after owners that died after recording the end of their run. Interrupted runs stay
        interrupted."""
        for session in locked_sessions(self._runs.project):
            self.repair(session)

    def repaired(self, session: str, *, cached: bool = True) -> RunInfo:
        """The run, with its files repaired if they were outdated."""
        info = self._runs.info(session, cached=cached)
        if not self._runs.is_outdated(session, info):
            return info
        self.repair(session)
        return self._runs.info(session, cached=cached)

    def repair(self, session: str) -> None:
        """Update state.json of a stopped run and remove its lock file, if an engine that died left them. Runs
        that were not started here stay untouched, and so do folders that can't be written."""
        with suppress(AgentForgeError):
            info = self._runs.info(session)
            if self._runs.is_outdated(session, info) and self._trust.is_own(session):
                self.update(self.open(session))

    async def release_tasks(self, session: str) -> None:
        """Release the tasks that a dead owner's agents had claimed, unless one of them is still running."""
        with suppress(AgentForgeError):
            info = self._runs.info(session)
            if has_living_program(info.plan, info.state, self._runs.layout(session), self._processes):
                return
        await Beads(self._runs.project, session, self._runs.environ).release()

    def _stale(self, session: str) -> LockFile | None:
        lock = read_lock(self._runs.project, session)
        held = (lock_file(self._runs.project, session), self._runs.layout(session).log)
        if lock is None or any(map(lease.is_held, held)):
            return None
        # A number alone may belong to another process by now; the identity has its start time and the boot.
        if lock.process is not None:
            return None if self._processes.is_alive(lock.process) else lock
        return None if self._processes.identify(lock.pid) else lock

    async def _remove(self, session: str, lock: LockFile) -> None:
        log.info("Removing stale lock: %s (PID %d)", session, lock.pid, extra={"session": session})
        self.repair(session)
        # An engine may have started since we looked: its lock file is another one.
        if read_lock(self._runs.project, session) == lock:
            remove_lock(self._runs.project, session)
        await self.release_tasks(session)

    def update(self, journal: Journal) -> None:
        """Bring state.json up to date, and release the run."""
        is_running = journal.state.status is RunStatus.RUNNING
        try:
            if is_running or journal.writer.damage:
                return  # Another engine has continued it in the meantime, or a person has to decide.
            self.check_head(journal)
            record_repair(journal)
            self.write_state(journal)
            if journal.plan.pipeline.has_controller_view:
                # Few runs have it, and it reads and writes YAML.
                from agentforge.runtime.pipeline_view import repair_pipeline_files

                record = record_of(self._runs.events(journal.session))
                repair_pipeline_files(self._runs.layout(journal.session), record)
            record_completion(self._runs.project, journal.plan, journal.state)
        finally:
            self.release(journal, keep_lock=is_running)


def record_repair(journal: Journal) -> None:
    # The log must explain itself, also why a line of it is in another file.
    if (torn := journal.writer.repaired) is not None:
        journal.record(f.LogRepaired(torn.bytes, torn.kept), journal.state.cursor)


def active(runs: Runs, session: str) -> RunActive:
    watch = f"watch it with `agentforge tail {session_argument(session)}`"
    return RunActive(
        f"Session {session!r} is already running{_owner(runs, session)}",
        hint=f"{watch}, or use --force to stop it and take over",
    )


def _owner(runs: Runs, session: str) -> str:
    lock = read_lock(runs.project, session)
    return f" (PID {lock.pid})" if lock else ""


async def stop_owner(runs: Runs, session: str, processes: Processes) -> None:
    """Stop the engine that drives the run, by its process identity, and wait until its lease is free."""
    if not runs.log(session).is_held():
        return
    lock = read_lock(runs.project, session)
    if lock is None or lock.process is None or lock.pid == os.getpid():
        raise active(runs, session)
    # SIGTERM, so that it stops its agents and pauses the run. It is never killed from here: a person decides
    # that.
    processes.terminate(lock.process)
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await processes.wait(lock.process)
    except TimeoutError:
        raise RunActive(
            f"Session {session!r} is still running (PID {lock.pid}): "
            f"it didn't stop within {STOP_SECONDS:g} s",
            hint=f"stop process {lock.pid} yourself, then retry",
        ) from None
