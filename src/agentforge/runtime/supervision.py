"""Runs programs under a supervisor: started once, awaited, reattached to by a later engine, ended.

The claim file decides which process may start one, so everything here is safe to repeat.
"""

import json
import logging
import os
from collections.abc import Callable

import msgspec
from msgspec import Struct

from agentforge.model.layout import AttemptLayout, RunLayout
from agentforge.model.place import place_of
from agentforge.model.plan import Plan
from agentforge.model.secrets import spellings
from agentforge.model.state import RunState
from agentforge.ports.process import Identity, Processes
from agentforge.ports.provider import Command
from agentforge.runtime.exit_record import ExitRecord, read_claim, read_exit, take_claim
from agentforge.system import files, programs

MARK = "AGENTFORGE_ATTEMPT"


class SupervisorLimits(Struct, frozen=True):
    output_cap: int = 16 * 1024 * 1024
    term_grace: float = 5.0
    orphan_grace: float = 15 * 60.0


class SupervisedExit(Struct, frozen=True):
    """The exit record of a program, or the reason why it is missing."""

    record: ExitRecord | None = None
    lost: str = ""
    started: bool = True


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
    ) -> None:
        """`secrets`: values that are redacted from every program's output, whether it was given them or
        not."""
        self._processes = processes
        self._limits = limits
        self._project = project
        self._lease = lease
        self._secrets = secrets

    async def run(
        self, place: AttemptLayout, command: Command, mark: str, limits: AttemptLimits
    ) -> SupervisedExit:
        """Start the program and wait for its end."""
        with files.storage(place.spec):
            supervisor = self._start(place, command, mark, limits)
        return await self._follow(place, mark, supervisor)

    async def reattach(
        self, place: AttemptLayout, mark: str, reattached: Callable[[int], None]
    ) -> SupervisedExit:
        """Continue after the death of the engine that started it: reattach to the program, read its exit
        record, or report it as lost."""
        if take_claim(place):
            return SupervisedExit(lost="the engine died before the agent was started", started=False)
        claim = read_claim(place)
        if read_exit(place) is not None:
            return await self._read_exit(place, mark)
        if claim is None:
            return SupervisedExit(lost="an earlier engine gave up on it", started=False)
        if not self._processes.is_alive(claim.identity):
            return await self._read_exit(place, mark)
        reattached(claim.pid)
        return await self._follow(place, mark, claim.identity)

    async def end(self, place: AttemptLayout, mark: str) -> SupervisedExit:
        """End the program with everything it started; if it had already exited, its exit record counts."""
        if take_claim(place):
            return SupervisedExit(lost="ended before it was started", started=False)
        claim = read_claim(place)
        if read_exit(place) is None and claim is not None:
            self._processes.terminate(claim.identity)
            await self._processes.wait(claim.identity)
        record = read_exit(place)
        if record is None:
            await self._end_leftovers(place, mark)
        if record is None or record.status == "ended":
            return SupervisedExit(lost="ended on request")
        return SupervisedExit(record)

    def _start(self, place: AttemptLayout, command: Command, mark: str, limits: AttemptLimits) -> Identity:
        files.make_dir(place.root)
        stdin = None
        if command.stdin:
            stdin = os.path.join(place.root, "stdin")
            files.write(stdin, command.stdin.encode())
        spec = {
            "claim": place.claim,
            "agent": place.agent,
            "exit": place.exit,
            "output": place.output,
            "output_cap": self._limits.output_cap,
            "argv": command.argv,
            "env": command.env,
            "cwd": self._project,
            "stdin": stdin,
            "errors": place.errors if command.separate_errors else None,
            "secrets": spellings({*command.secrets, *self._secrets}),
            "after": command.after,
            "timeout": _tighter(limits.timeout, command.timeout),
            "idle_timeout": _first(command.idle_timeout, limits.idle_timeout),
            "term_grace": _first(command.term_grace, self._limits.term_grace),
            "orphan_grace": self._limits.orphan_grace,
            "lease": self._lease,
            "mark": f"{MARK}={mark}",
        }
        if command.after:
            # Supervisor and engine may die: a later engine must be able to run it.
            files.write(place.after, files.compact(command.after))
        files.write_private(place.spec, json.dumps(spec).encode())
        return self._processes.start_supervisor(place.spec)

    async def _follow(self, place: AttemptLayout, mark: str, supervisor: Identity) -> SupervisedExit:
        await self._processes.wait(supervisor)
        return await self._read_exit(place, mark)

    async def _read_exit(self, place: AttemptLayout, mark: str) -> SupervisedExit:
        record = read_exit(place)
        if record is None:
            await self._end_leftovers(place, mark)
            return SupervisedExit(lost="its supervisor died", started=not take_claim(place))
        if record.status == "orphaned":
            return SupervisedExit(lost="no engine reattached to it in time")
        if record.status == "ended":
            return SupervisedExit(lost="ended by another process")
        return SupervisedExit(record)

    async def _end_leftovers(self, place: AttemptLayout, mark: str) -> None:
        """Clean up after a supervisor that died."""
        await self._processes.end_marked(f"{MARK}={mark}")
        await run_after(place)


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _tighter(*limits: float | None) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)


log = logging.getLogger("agentforge.run")

AFTER_SECONDS = 10.0


async def run_after(place: AttemptLayout, seconds: float = AFTER_SECONDS) -> None:
    """Run the attempt's cleanup program, if it has one; safe to repeat."""
    argv = _argv(place)
    if not argv:
        return
    ended = await programs.run_async(programs.Program(argv, seconds))
    if ended.reason is programs.NoExit.TIMED_OUT:
        log.warning("cleanup program %s timed out after %g s", " ".join(argv), seconds)
    elif ended.reason:
        log.warning("can't run cleanup program %s: %s", argv[0], ended.problem)


def _argv(place: AttemptLayout) -> tuple[str, ...]:
    content = files.read_bytes(place.after)
    if content is None:
        return ()
    try:
        return msgspec.json.decode(content, type=tuple[str, ...])
    except msgspec.DecodeError:
        return ()  # Its writer died before any supervisor was started.


def has_living_agent(plan: Plan, state: RunState, layout: RunLayout, processes: Processes) -> bool:
    for provider, at in state.under_way():
        attempt = at.iteration.attempt if at.iteration else None
        if at.iteration is None or attempt is None or not attempt.in_flight:
            continue
        stage = place_of(plan, state, provider, at)
        if stage is None:
            continue
        place = layout.iteration(stage.folder, at.iteration.number).attempt(attempt.number)
        claim = read_claim(place)
        if claim is not None and read_exit(place) is None and processes.is_alive(claim.identity):
            return True
    return False
