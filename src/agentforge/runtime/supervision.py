"""Runs programs under a supervisor: started once, awaited, reattached to by a later engine, ended.

The claim file decides which process may start one, so everything here is safe to repeat.
"""

import asyncio
import json
import logging
import marshal
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from agentforge.engine.decide.task_kinds import in_flight
from agentforge.model.errors import RunActive, StorageFailed
from agentforge.model.layout import AttemptLayout, RunLayout
from agentforge.model.plan import Plan
from agentforge.model.secrets import spellings
from agentforge.model.state import RunState
from agentforge.model.task import MARK
from agentforge.ports.host import Identity, Processes
from agentforge.ports.provider import Command
from agentforge.runtime.attempt_folder import (
    Claim,
    ExitRecord,
    any_claim,
    folder_marks,
    folder_place,
    is_displaced,
    named,
    read_claim,
    read_exit,
    take_claim,
)
from agentforge.system import files, programs

log = logging.getLogger("agentforge.run")

# Theory of operation
#
# The supervisor (`supervisor.py`) outlives the engine, so two engines may look at one attempt. The claim
# decides between them: a file that is linked into place once, complete. The process that links it owns the
# attempt. An engine that recovers a run tries to take the claim itself. If it can, no supervisor has
# started, and none ever will: the attempt is over without side effects, and may be repeated under another
# number. If it can't, the claim names a process, and there is someone to wait for. Without it, "not started
# yet" and "started, and unseen" would look the same, and an agent would run twice or not at all.
#
# The exit record is the opposite end: it appears when the agent and all that it started are gone. A claim
# without a record and without its process is a supervisor that died. Its agent dies with it on Linux; what
# may be left carries the mark in its environment, and is ended before the attempt counts as lost.
#
# Agents can write into these folders. So records are read without following links, a claim that names
# another folder belongs to a copy of the project, whose agent is left alone, and a claim that is missing
# where marked processes run was removed.

CLEANUP_SECONDS = 10.0
END_SECONDS = 60.0
"""An agent's grace, the time to kill it, and its cleanup program."""
MAX_DEPTH = 10
MAX_FOLDERS = 50_000
"""Of a run's folder: how far claims are searched in it."""
Cleanup = tuple[str, ...]
"""A program that ends an agent which works outside the process tree; empty: not needed."""


class SupervisorLimits(Struct, frozen=True):
    output_cap: int = 16 * 1024 * 1024
    term_grace: float = 5.0
    orphan_grace: float = 15 * 60.0


class SupervisedExit(Struct, frozen=True):
    """The exit record of a program, or the reason why it is missing."""

    record: ExitRecord | None = None
    lost: str = ""
    started: bool = True
    displaced: bool = False
    """Whether the agent moved, removed or replaced the folder of its attempt."""


class AttemptLimits(Struct, frozen=True):
    timeout: float | None = None
    idle_timeout: float | None = None


class Supervised:
    def __init__(
        self,
        processes: Processes,
        limits: SupervisorLimits,
        project: str,
        lease: str,
        *,
        secrets: tuple[str, ...] = (),
        before_start: Callable[[], None] = lambda: None,
    ) -> None:
        """`secrets`: values that are redacted from every program's output, whether it was given them or
        not. `before_start` is called before each start."""
        self._processes = processes
        self._limits = limits
        self._project = project
        self._lease = lease
        self._secrets = secrets
        self._before_start = before_start

    async def run(
        self, place: AttemptLayout, command: Command, mark: str, limits: AttemptLimits, cleanup: Cleanup = ()
    ) -> SupervisedExit:
        """Start the program in its new folder and wait for its end."""
        self._before_start()
        made = folder_place(place)
        idle_timeout = limits.idle_timeout if command.idle_timeout is None else command.idle_timeout
        term_grace = self._limits.term_grace if command.term_grace is None else command.term_grace
        timeouts = [each for each in (limits.timeout, command.timeout) if each is not None]
        spec = {
            "place": msgspec.to_builtins(made),
            "output_cap": self._limits.output_cap,
            "argv": command.argv,
            "env": {**command.env, **folder_marks(made, mark)},
            "cwd": self._project,
            "stdin": command.stdin,
            "descriptors": command.descriptors,
            "separate_errors": command.separate_errors,
            "secrets": spellings({*command.secrets, *self._secrets}),
            "cleanup": cleanup,
            "timeout": min(timeouts, default=None),
            "idle_timeout": idle_timeout,
            "term_grace": term_grace,
            "orphan_grace": self._limits.orphan_grace,
            "lease": self._lease,
            "mark": named(mark),
        }
        # The supervisor is the same Python, and importing json would delay it. A provider may have used
        # subclasses of str and dict, which only json accepts.
        handed_over = marshal.dumps(json.loads(json.dumps(spec)))
        await self._processes.wait(await self._processes.start_supervisor(place.root, handed_over))
        if is_displaced(place, made, mark):
            await self._end_leftovers(mark, cleanup)
            return SupervisedExit(displaced=True)
        return await self._read_exit(place, mark, cleanup)

    async def reattach(
        self, place: AttemptLayout, mark: str, reattached: Callable[[int], None], cleanup: Cleanup = ()
    ) -> SupervisedExit:
        """Continue after the death of the engine that started it: reattach to the program, read its exit
        record, or report it as lost."""
        claim = None if take_claim(place) else read_claim(place, mark)
        if read_exit(place, mark) is not None:
            return await self._read_exit(place, mark, cleanup)
        if claim is None:
            return await self._unclaimed(place, mark, cleanup, "the engine died before the agent was started")
        if not claim.is_of(place):
            return _elsewhere(claim)
        if not self._processes.is_alive(claim.identity):
            return await self._read_exit(place, mark, cleanup)
        reattached(claim.pid)
        await self._processes.wait(claim.identity)
        return await self._read_exit(place, mark, cleanup)

    async def end(self, place: AttemptLayout, mark: str, cleanup: Cleanup = ()) -> SupervisedExit:
        """End the program with everything it started; if it had already exited, its exit record counts."""
        claim = None if take_claim(place) else read_claim(place, mark)
        if read_exit(place, mark) is None:
            if claim is None:
                return await self._unclaimed(place, mark, cleanup, "ended before it was started")
            if not claim.is_of(place):
                return _elsewhere(claim)
            self._processes.terminate(claim.identity)
            await self._processes.wait(claim.identity)
        record = read_exit(place, mark)
        if record is None:
            await self._end_leftovers(mark, cleanup)
        if record is None or record.status == "ended":
            return SupervisedExit(lost="ended on request")
        return SupervisedExit(record)

    async def _unclaimed(
        self, place: AttemptLayout, mark: str, cleanup: Cleanup, not_started: str
    ) -> SupervisedExit:
        """Without a claim, the agent was not started, or its claim was removed or replaced: then its
        processes carry the marks of this folder."""
        found = 0
        for name, value in folder_marks(folder_place(place), mark).items():
            found += await self._processes.end_marked(f"{name}={value}")
        if not found:
            return SupervisedExit(lost=not_started, started=False)
        await run_cleanup(cleanup)
        return SupervisedExit(lost="its claim was removed while it was running")

    async def _read_exit(self, place: AttemptLayout, mark: str, cleanup: Cleanup) -> SupervisedExit:
        record = read_exit(place, mark)
        if record is None:
            await self._end_leftovers(mark, cleanup)
            started = not take_claim(place) and read_claim(place, mark) is not None
            return SupervisedExit(lost="its supervisor died", started=started)
        if record.status == "orphaned":
            return SupervisedExit(lost="no engine reattached to it in time")
        if record.status == "ended":
            return SupervisedExit(lost="ended by another process")
        return SupervisedExit(record)

    async def _end_leftovers(self, mark: str, cleanup: Cleanup) -> None:
        """Clean up after a supervisor that died."""
        await self._processes.end_marked(named(mark))
        await run_cleanup(cleanup)


def _elsewhere(claim: Claim) -> SupervisedExit:
    """For an agent of the project of which this one is a copy: it is left alone."""
    return SupervisedExit(lost=f"it belongs to another copy of the project: {claim.place.path}")


async def run_cleanup(argv: Cleanup, seconds: float = CLEANUP_SECONDS) -> None:
    """Run an attempt's cleanup program, if it has one; safe to repeat."""
    if not argv:
        return
    ended = await programs.run_async(programs.Program(argv, seconds))
    if ended.reason is programs.NoExit.TIMED_OUT:
        log.warning("cleanup program %s timed out after %g s", " ".join(argv), seconds)
    elif ended.reason:
        log.warning("can't run cleanup program %s: %s", argv[0], ended.problem)


def has_living_program(plan: Plan, state: RunState, layout: RunLayout, processes: Processes) -> bool:
    """Whether the program of any task is running: an agent, a judge, a check or the script of a hook."""
    for task in in_flight(plan, state):
        place, mark = task.folder(layout), task.mark(state.run_id)
        claim = read_claim(place, mark)
        if claim is None or not claim.is_of(place) or read_exit(place, mark) is not None:
            continue
        if processes.is_alive(claim.identity):
            return True
    return False


# An agent may outlive the log of its run, which would name it. It is found by the command line of its
# supervisor, also if the run's folder was moved or removed, and by the claims in the folder.


def left_supervisors(run_dir: str, processes: Processes) -> list[Identity]:
    """The living supervisors that were started for the run of this folder."""
    started = processes.supervisors()
    if not started:
        return []
    claimed = {claim.identity for _, claim in _claims(run_dir)}
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
        if read_exit(attempt, mark) is None:
            for name, value in folder_marks(claim.place, mark).items():
                await processes.end_marked(f"{name}={value}")


def pids_of(left: Sequence[Identity]) -> list[str]:
    return [str(identity.pid) for identity in left]


def _claims(run_dir: str) -> Iterator[tuple[AttemptLayout, Claim]]:
    """Those that were made here: agents of a project of which this one is a copy are left alone."""
    todo = deque([(run_dir, 1)])
    for _ in range(MAX_FOLDERS):
        if not todo:
            return
        folder, depth = todo.popleft()
        attempt = AttemptLayout(folder)
        claim = any_claim(attempt)
        if claim is not None and claim.is_of(attempt):
            yield attempt, claim
        if depth < MAX_DEPTH:
            with suppress(StorageFailed):
                todo.extend((os.path.join(folder, name), depth + 1) for name in files.subfolders(folder))
