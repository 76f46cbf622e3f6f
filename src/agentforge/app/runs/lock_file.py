"""`.claude/locks/<session>.lock`: tells people and existing tools which process drives a run. The lease is
the lock on the log; this file is only informative."""

import os
from contextlib import suppress
from datetime import datetime

import msgspec
from msgspec import Struct

from agentforge.model.errors import StorageFailed, UnusableFile
from agentforge.model.json_text import NOT_JSON
from agentforge.model.layout import lock_file, locks_dir
from agentforge.ports.process import Identity, Processes
from agentforge.system import files
from agentforge.system.folders import drafted

MAX_LOCK = 64 * 1024


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
        content = files.read_bytes(lock_file(project, session), MAX_LOCK)
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
