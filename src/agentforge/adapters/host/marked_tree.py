"""Ends all processes that carry a mark, and their descendants: the platform-independent part."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from msgspec import Struct

from agentforge.model.errors import AgentForgeError

# One look at the process table is not enough: while it is read, processes fork, and their parents end. So the
# members are collected until there are no new ones, stopped so that they can't fork, and only then killed. A
# process that was a member once stays one by its number and start time, even if its environment can no longer
# be read and its parent is gone. Killing process groups alone misses the daemons that call `setsid`.

FREEZE_PASSES = 20
KILL_TIMEOUT = 10.0


class ProcessRow(Struct, frozen=True):
    """A row of the process table; zombies are not listed."""

    pid: int
    parent: int
    session: int
    """Or the closest equivalent of the platform."""
    start_time: str
    marked: bool


ProcessTable = Mapping[int, ProcessRow]
ReadTable = Callable[[], ProcessTable]


def members(table: ProcessTable, known: Iterable[ProcessRow], myself: int) -> dict[int, ProcessRow]:
    """The marked processes, those known before, whole sessions that a member leads or whose leader is gone,
    and all descendants. Never this process, its ancestors, or their sessions."""
    spared = _ancestors(table, myself)
    spared_sessions = {table[pid].session for pid in spared if pid in table}
    found = {row.pid for row in table.values() if row.marked} - spared
    same = (row.pid for row in known if row.pid in table and table[row.pid].start_time == row.start_time)
    found |= set(same) - spared
    while True:
        sessions = {table[pid].session for pid in found}
        sessions = {leader for leader in sessions if leader in found or leader not in table} - spared_sessions
        joined = {
            row.pid for row in table.values() if row.parent in found or row.session in sessions
        } - spared
        if joined <= found:
            return {pid: table[pid] for pid in found}
        found |= joined


def _ancestors(table: ProcessTable, pid: int) -> set[int]:
    """The process and all its ancestors."""
    line = {pid, 0, 1}
    while pid in table and table[pid].parent not in line:
        pid = table[pid].parent
        line.add(pid)
    return line


class MarkedTree:
    """A process found once stays a member even if its parent dies and its environment is unreadable."""

    def __init__(self, read_table: ReadTable) -> None:
        self._read_table = read_table
        self.known: dict[int, ProcessRow] = {}

    async def end(self, grace: float) -> int:
        """Send SIGTERM, wait for the grace, then SIGKILL until none is left; returns how many there were."""
        self._signal(self._living(), signal.SIGTERM, signal.SIGCONT)
        if await self._wait_gone(grace):
            return len(self.known)
        deadline = time.monotonic() + KILL_TIMEOUT
        while time.monotonic() < deadline:
            self._signal(self._freeze(), signal.SIGKILL)
            if await self._wait_gone(0.1):
                return len(self.known)
        left = " ".join(map(str, sorted(self._living())))
        raise AgentForgeError(
            f"can't kill processes of an earlier attempt: {left}",
            hint=f"kill them as their owner (kill -9 {left}), then resume the run",
        )

    def _living(self) -> set[int]:
        found = members(self._read_table(), self.known.values(), os.getpid())
        self.known.update(found)
        return set(found)

    def _freeze(self) -> set[int]:
        """Stop them until no new ones appear: a stopped process can't fork."""
        frozen: set[int] = set()
        for _ in range(FREEZE_PASSES):
            fresh = self._living() - frozen
            if not fresh:
                break
            self._signal(fresh, signal.SIGSTOP)
            frozen |= fresh
        return frozen

    async def _wait_gone(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        pause = 0.01
        while self._living():
            if time.monotonic() >= until:
                return False
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.1)
        return True

    @staticmethod
    def _signal(pids: Iterable[int], *numbers: signal.Signals) -> None:
        for pid in pids:
            for number in numbers:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
