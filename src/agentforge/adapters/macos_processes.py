"""Processes on macOS: `ps` and `sysctl` tell what /proc would. Weaker: environments may be hidden from us."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from agentforge.adapters.marked_tree import MarkedTree, Row
from agentforge.adapters.supervisor_start import SupervisorStarter
from agentforge.host.programs import Program, run
from agentforge.model.errors import AgentForgeError
from agentforge.ports.process import Identity

Ask = Callable[[tuple[str, ...]], str]
"""Runs a program and returns what it printed; empty if it had nothing to say."""

POLL_SECONDS = 0.1
ASK_SECONDS = 10.0
MAX_LISTING = 64 * 1024 * 1024


def ask_system(argv: tuple[str, ...]) -> str:
    # Times are compared as text, so language and time zone must not change it.
    env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C", "TZ": "UTC"}
    return run(Program(argv, ASK_SECONDS, env=env, max_output=MAX_LISTING)).output


class MacProcesses:
    def __init__(self, supervisor: str, ask: Ask = ask_system) -> None:
        """`supervisor` is the path of the supervisor program."""
        self._starter = SupervisorStarter(supervisor)
        self._ask = ask
        self._boot_id = ask(("sysctl", "-n", "kern.bootsessionuuid")).strip()
        self._host = os.uname().nodename

    def identify(self, pid: int) -> Identity | None:
        self._starter.reap()
        state, start_time = self._state(pid)
        return None if not state or state.startswith("Z") else self._identity(pid, start_time)

    def is_alive(self, identity: Identity) -> bool:
        # A laptop's host name changes with its network; the boot's id belongs to one machine anyway.
        return identity.boot_id == self._boot_id and (
            (now := self.identify(identity.pid)) is not None and now.start_time == identity.start_time
        )

    def start_supervisor(self, spec_path: str) -> Identity:
        pid = self._starter.start(spec_path)
        state, start_time = self._state(pid)  # There even if it is dead by now, since we haven't reaped it.
        if not state:
            raise AgentForgeError(
                f"ps tells nothing about process {pid}",
                hint="check that `ps -p PID -o stat=,lstart=` works here",
            )
        return self._identity(pid, start_time)

    async def wait(self, identity: Identity) -> None:
        while self.is_alive(identity):  # noqa: ASYNC110 - nothing tells us.
            await asyncio.sleep(POLL_SECONDS)

    def terminate(self, identity: Identity) -> None:
        if self.is_alive(identity):
            with suppress(ProcessLookupError):
                os.kill(identity.pid, signal.SIGTERM)

    async def end_marked(self, mark: str, seconds: float = 5.0) -> int:
        """`seconds` is the grace between TERM and KILL."""
        self._starter.reap()
        return await MarkedTree(lambda: self._table(mark)).end(seconds)

    def _identity(self, pid: int, start_time: str) -> Identity:
        return Identity(pid, start_time, self._boot_id, self._host)

    def _state(self, pid: int) -> tuple[str, str]:
        """The state letters and the start time, which `ps` prints as five words."""
        state, _, start_time = self._ask(("ps", "-p", str(pid), "-o", "stat=,lstart=")).strip().partition(" ")
        return state, start_time.strip()

    def _table(self, mark: str) -> dict[int, Row]:
        """The process group stands in for the session, which `ps` doesn't tell here."""
        table: dict[int, Row] = {}
        listing = self._ask(("ps", "-axww", "-E", "-o", "pid=,ppid=,pgid=,stat=,lstart=,command="))
        for line in listing.splitlines():
            pid, parent, group, state, *rest = line.split()
            if not state.startswith("Z"):
                start_time, command = " ".join(rest[:5]), rest[5:]
                table[int(pid)] = Row(int(pid), int(parent), int(group), start_time, mark in command)
        return table
