"""Beginning a run: its folder, its first files, and what to do when the name is taken."""

import asyncio
import os
import re
from datetime import datetime

from agentforge.host import files
from agentforge.model.errors import RunActive, RunExists
from agentforge.model.layout import RunLayout
from agentforge.model.status import RunStatus
from agentforge.ports.process import Processes
from agentforge.runtime.lock_file import read_lock
from agentforge.sdk.runs import Runs

STOP_PATIENCE = 40.0


def refuse_taken(runs: Runs, session: str) -> None:
    """Raise in the words a person needs if a run of that name is there already."""
    log = runs.log(session)
    if log.is_held():
        raise active(runs, session)
    state = runs.info(session).state
    if state.status is RunStatus.COMPLETED:
        raise RunExists(
            f"Session {session!r} already completed.",
            hint="use --force to restart it: the finished run is kept aside",
        )
    if state.status is RunStatus.ABORTED:
        raise RunExists(f"Session {session!r} was cancelled.", hint="use --force to start it anew")
    raise RunExists(
        f"Session {session!r} is {_how(state.status)} and can be resumed.",
        hint=f"agentforge resume {session}   (or --force to start it anew)",
    )


def _how(status: RunStatus) -> str:
    return "interrupted" if status is RunStatus.RUNNING else status.value


def active(runs: Runs, session: str) -> RunActive:
    lock = read_lock(runs.project, session)
    by = f" (PID {lock.pid})" if lock else ""
    return RunActive(
        f"Session {session!r} is already running{by}",
        hint=f"watch it with `agentforge tail {session}`, or use --force to stop it and take over",
    )


async def stop_owner(runs: Runs, session: str, processes: Processes) -> None:
    """Stop the process that drives the run, by its identity, and wait until its lease is free."""
    log = runs.log(session)
    if not log.is_held():
        return
    lock = read_lock(runs.project, session)
    if lock is None or lock.process is None or lock.pid == os.getpid():
        raise active(runs, session)
    processes.terminate(lock.process)
    try:
        async with asyncio.timeout(STOP_PATIENCE):
            await processes.wait(lock.process)
    except TimeoutError:
        raise RunActive(
            f"Session {session!r} is still running (PID {lock.pid}): "
            f"it didn't stop within {STOP_PATIENCE:g} s",
            hint=f"end process {lock.pid} yourself, then try again",
        ) from None


def default_session(pipeline: str, now: datetime) -> str:
    """The pipeline's name with the time."""
    usable = re.sub(r"[^\w-]+", "-", pipeline)[:40].strip("-") or "pipeline"
    return f"{usable}-{now:%Y%m%d-%H%M%S}"


def move_aside(layout: RunLayout, now: datetime) -> str:
    """Keep a finished or given-up run under another name, so that its name is free."""
    aside = f"{layout.root}.{now:%Y%m%d-%H%M%S}-{now.microsecond:06d}"
    files.move(layout.root, aside)
    return aside
