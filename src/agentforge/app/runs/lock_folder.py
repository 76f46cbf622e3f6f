"""The folder `.claude/locks`: `<session>.lock` tells people and existing tools which process drives a run,
`<session>.stopped` has the error that ended an engine in the background.

The lease is the lock on the log; these files are only informative. The next engine that drives the run
replaces or removes them.
"""

import os
from contextlib import suppress
from datetime import datetime

import msgspec
from msgspec import Struct

from agentforge.model.errors import NOT_JSON, StorageFailed, UnusableFile
from agentforge.model.failure import StopReason
from agentforge.model.layout import lock_file, locks_dir, runs_dir, stop_reason_file
from agentforge.model.names import session_name
from agentforge.ports.host import Identity, Processes
from agentforge.system import files
from agentforge.system.folders import drafted

MAX_BYTES = 64 * 1024
STOPPED = ".stopped"
IGNORE_ALL = b"*\n"


class LockFile(Struct, frozen=True, omit_defaults=True):
    session: str
    pid: int
    started_at: datetime
    process: Identity | None = None


def write_lock(project: str, session: str, processes: Processes, now: datetime) -> None:
    path = lock_file(project, session)
    files.make_dir(os.path.dirname(path))
    pid = os.getpid()
    files.replace(path, files.compact(LockFile(session, pid, now, processes.identify(pid))))


def read_lock(project: str, session: str) -> LockFile | None:
    try:
        content = files.read_bytes(lock_file(project, session), MAX_BYTES)
        return None if content is None else msgspec.json.decode(content, type=LockFile)
    except (UnusableFile, *NOT_JSON):
        return None


def locked_sessions(project: str) -> list[str]:
    """The sessions that an engine owns, or owned when it died, even while it wrote the lock file."""
    names = (drafted(name) or name for name in files.listing(locks_dir(project)))
    return sorted({name.removesuffix(".lock") for name in names if name.endswith(".lock")})


def remove_lock(project: str, session: str) -> None:
    # Not essential: the next engine that drives the run replaces it.
    with suppress(StorageFailed):
        files.remove(lock_file(project, session))
        files.remove_drafts(locks_dir(project), f"{session}.lock")


def leave_reason(project: str, reason: StopReason) -> None:
    """Best effort: the reason may be a full disk."""
    path = stop_reason_file(project, reason.session)
    with suppress(StorageFailed):
        files.make_dir(os.path.dirname(path))
        files.replace(path, files.compact(reason))


def reason_of(project: str, session: str) -> StopReason | None:
    try:
        content = files.read_bytes(stop_reason_file(project, session_name(session)), MAX_BYTES)
        return None if content is None else msgspec.json.decode(content, type=StopReason)
    except (UnusableFile, *NOT_JSON):
        return None


def stopped_sessions(project: str) -> list[str]:
    """The sessions that have a reason."""
    names = files.listing(locks_dir(project))
    return sorted(name.removesuffix(STOPPED) for name in names if name.endswith(STOPPED))


def drop_reason(project: str, session: str) -> None:
    # Not essential: the reason is out of date and is replaced by the next one.
    with suppress(StorageFailed):
        files.remove(stop_reason_file(project, session))


def hide_from_git(project: str) -> None:
    """Hide the folders of runs and locks, so that an agent that stages, stashes or cleans up its repository
    neither publishes nor removes its own run. A `.gitignore` that is there already is kept."""
    for folder in (runs_dir(project), locks_dir(project)):
        ignore_in(folder, IGNORE_ALL)


def ignore_in(folder: str, content: bytes) -> None:
    """Create the `.gitignore` of a folder, unless there is one."""
    path = os.path.join(folder, ".gitignore")
    if not os.path.lexists(path):
        files.make_dir(folder)
        files.place(path, content)
    files.remove_drafts(folder, os.path.basename(path))
