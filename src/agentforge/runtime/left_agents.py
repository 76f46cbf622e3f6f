"""Agents that outlived the log of their run, which would name them.

They are found by the command lines of their supervisors, also if the run's folder was moved or removed, and
by the claims in the folder.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from agentforge.model.errors import RunActive, StorageFailed
from agentforge.model.layout import AttemptLayout
from agentforge.model.task import MARK
from agentforge.ports.host import Identity, Processes
from agentforge.runtime.attempt_folder import Claim, any_claim, folder_marks, read_exit
from agentforge.system import files

MAX_DEPTH = 10
MAX_FOLDERS = 50_000
END_SECONDS = 60.0
"""An agent's grace, the time to kill it, and its cleanup program."""


def left_supervisors(run_dir: str, processes: Processes) -> list[Identity]:
    """The living supervisors that were started for the run of this folder."""
    started = processes.supervisors()
    if not started:
        return []
    claimed = {claim.identity for attempt, claim in _claims(run_dir) if claim.is_of(attempt)}
    return [
        identity
        for identity, folder in started.items()
        if folder.startswith(f"{run_dir}/") or identity in claimed
    ]


async def end_left(left: Sequence[Identity], processes: Processes) -> None:
    """End these supervisors, with all that they started."""
    for identity in left:
        processes.terminate(identity)
    try:
        async with asyncio.timeout(END_SECONDS):
            for identity in left:
                await processes.wait(identity)
    except TimeoutError:
        alive = " ".join(pids_of([identity for identity in left if processes.is_alive(identity)]))
        raise RunActive(
            f"the supervisors of an earlier run didn't end within {END_SECONDS:g} s: PID {alive}",
            hint=f"end them yourself (kill -9 {alive}), then retry",
        ) from None


async def end_leftovers(run_dir: str, processes: Processes) -> None:
    """End what attempts of the folder left running whose supervisors were killed."""
    for attempt, claim in list(_claims(run_dir)):
        mark = claim.mark.removeprefix(f"{MARK}=")
        if claim.is_of(attempt) and read_exit(attempt, mark) is None:
            for name, value in folder_marks(claim.place, mark).items():
                await processes.end_marked(f"{name}={value}")


def pids_of(left: Sequence[Identity]) -> list[str]:
    return [str(identity.pid) for identity in left]


def _claims(run_dir: str) -> Iterator[tuple[AttemptLayout, Claim]]:
    folders, depth, seen = [run_dir], 0, 0
    while folders and depth < MAX_DEPTH:
        below = []
        for folder in folders:
            attempt = AttemptLayout(folder)
            if (claim := any_claim(attempt)) is not None:
                yield attempt, claim
            with suppress(StorageFailed):
                below += [os.path.join(folder, name) for name in files.subfolders(folder)]
            seen += 1
            if seen == MAX_FOLDERS:
                return
        folders, depth = below, depth + 1
