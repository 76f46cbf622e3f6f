"""Delete runs. The folder is renamed to a hidden name first, so that no part of a run remains visible if the
deletion is interrupted; the next deletion completes it."""

import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime

from msgspec import Struct

from agentforge.adapters.host.git_references import drop_references
from agentforge.app.runs.context import RunContext
from agentforge.app.runs.lock_folder import drop_reason, read_lock, reason_of, remove_lock
from agentforge.app.runs.lookup import RunRow
from agentforge.app.wiring import log_of
from agentforge.model.errors import AgentForgeError, LogCorrupt, RunActive, StorageFailed, UnknownRun
from agentforge.model.layout import RunLayout, runs_dir
from agentforge.model.names import session_argument, session_name
from agentforge.ports.event_log import EventLog
from agentforge.runtime.run_proof import RunProof
from agentforge.runtime.supervision import has_living_program, left_supervisors, pids_of
from agentforge.system import files

PREFIX = ".removed."
LOG = "events.jsonl"


class OutdatedRuns(Struct, frozen=True):
    """Completed and cancelled runs of some age."""

    own: tuple[RunRow, ...]
    foreign: tuple[RunRow, ...]
    """Those that were not started here."""


def outdated_runs(context: RunContext, before: datetime) -> OutdatedRuns:
    """The runs that ended before that time."""
    found = [row for name in context.runs.sessions() if (row := _ended(context, name, before))]
    own = tuple(row for row in found if context.trust.is_known(row.session))
    return OutdatedRuns(own, tuple(row for row in found if row not in own))


def _ended(context: RunContext, session: str, before: datetime) -> RunRow | None:
    try:
        # Not from the cache, which is a file of the run: the log decides.
        info = context.runs.info(session, cached=False)
    except AgentForgeError:
        return None
    is_ended = info.status in ("completed", "aborted") and info.state.updated_at < before
    return context.runs.row(session) if is_ended else None


def remove_run(context: RunContext, session: str, ended_before: datetime | None = None) -> bool:
    """Delete a run that isn't running. Raises RunActive if it is, or if its agent still is. `ended_before`:
    only if it ended before that time; otherwise returns False."""
    context.caller.refuse_agent(remove=True)
    project, session = context.project, session_name(session)
    remove_leftovers(context)
    log = context.runs.log_file(session)
    if not log.exists() and reason_of(project, session) is not None:
        drop_reason(project, session)
        return True
    context.runs.log(session)
    context.leases.refuse_other_engine(session, force=False)
    with _held(context, session, log):
        if ended_before is not None and _ended(context, session, ended_before) is None:
            return False
        _refuse_living_program(context, session)
        _remove(context, session, log)
    return True


@contextmanager
def _held(context: RunContext, session: str, log: EventLog) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(log.hold())
        except RunActive:
            lock = read_lock(context.project, session)
            by = f" (PID {lock.pid})" if lock else ""
            raise RunActive(
                f"session {session!r} is running{by}",
                hint=f"stop it first: agentforge cancel {session_argument(session)}",
            ) from None
        yield


def _remove(context: RunContext, session: str, log: EventLog) -> None:
    project, root = context.project, context.runs.layout(session).root
    run_id = _run_id(log)
    aside = os.path.join(runs_dir(project), f"{PREFIX}{session}.{secrets.token_hex(4)}")
    files.move(root, aside)
    # Durable before the proof is removed: a run that a power failure brings back would be a foreign one.
    with files.storage(aside):
        files.sync_directory(runs_dir(project))
    _forget(context, aside, run_id, root)
    remove_lock(project, session)
    drop_reason(project, session)
    # The log goes last: it has the id of the run, which `remove_leftovers` needs.
    files.remove_tree(aside, last=LOG)


def remove_leftovers(context: RunContext) -> None:
    """Complete deletions that were interrupted."""
    folder = runs_dir(context.project)
    for name in files.subfolders(folder):
        session = name.removeprefix(PREFIX).rpartition(".")[0]
        if not name.startswith(PREFIX) or not session:
            continue
        aside = os.path.join(folder, name)
        log = log_of(RunLayout(aside, session), context.environ)
        # Held: another process is deleting it. What can't be deleted stays hidden.
        with suppress(RunActive, StorageFailed):
            if not log.exists():
                files.remove_tree(aside)
                continue
            with log.hold():
                root = os.path.join(folder, session)
                _forget(context, aside, _run_id(log), root)
                files.remove_tree(aside, last=LOG)


def _forget(context: RunContext, aside: str, run_id: str, root: str) -> None:
    """Remove what is kept of a run outside its folder."""
    project, environ = context.project, context.environ
    if RunProof(aside, environ).forget(run_id, root):
        # References that can't be removed are harmless: they only keep the content of trees.
        drop_references(project, run_id, environ)


def _run_id(log: EventLog) -> str:
    """The id of the run; empty if its log can't be read."""
    with suppress(AgentForgeError):
        return next((event.trace_id for event in log.reader().events() if event.trace_id), "")
    return ""


def _refuse_living_program(context: RunContext, session: str) -> None:
    layout, is_named = context.runs.layout(session), False
    # A log that can't be read names no program.
    with suppress(LogCorrupt, UnknownRun):
        info = context.runs.info(session, cached=False)
        is_named = has_living_program(info.plan, info.state, layout, context.processes)
    pids = " ".join(pids_of(left_supervisors(layout.root, context.processes)))
    if is_named or pids:
        named = f" (PID {pids})" if pids else ""
        stop = f"agentforge cancel {session_argument(session)}" if is_named else f"kill {pids}"
        raise RunActive(
            f"a program of session {session!r} is still running, without an engine{named}",
            hint=f"stop it first: {stop}",
        )
