"""Ending everything that carries a mark, and what it started: the part that is the same on every system."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from msgspec import Struct

from agentforge.model.errors import AgentForgeError

FREEZE_PASSES = 20
KILL_PATIENCE = 10.0


class ProcessRow(Struct, frozen=True):
    """A process as a look at the system shows it; zombies aren't shown."""

    pid: int
    parent: int
    session: int
    """Or the nearest thing that the system has."""
    start_time: str
    marked: bool


ProcessTable = Mapping[int, ProcessRow]
Look = Callable[[], ProcessTable]


def members(table: ProcessTable, known: Iterable[ProcessRow], myself: int) -> dict[int, ProcessRow]:
    """What belongs to the marked: those known before, whole sessions that a member leads or whose leader is
    gone, and all descendants. Never ourselves, our ancestors, or their sessions."""
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
    """The process itself and all above it."""
    line = {pid, 0, 1}
    while pid in table and table[pid].parent not in line:
        pid = table[pid].parent
        line.add(pid)
    return line


class MarkedTree:
    """What was found once stays a member though its parent dies and its environment tells nothing."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self.known: dict[int, ProcessRow] = {}

    async def end(self, grace: float) -> int:
        """TERM and a grace, then KILL until none is left; how many there were."""
        self._signal(self._living(), signal.SIGTERM, signal.SIGCONT)
        if await self._gone(grace):
            return len(self.known)
        patience = time.monotonic() + KILL_PATIENCE
        while time.monotonic() < patience:
            self._signal(self._freeze(), signal.SIGKILL)
            if await self._gone(0.1):
                return len(self.known)
        left = " ".join(map(str, sorted(self._living())))
        raise AgentForgeError(
            f"processes of an earlier attempt can't be ended: {left}",
            hint=f"end them as their owner (kill -9 {left}), then resume the run",
        )

    def _living(self) -> set[int]:
        found = members(self._look(), self.known.values(), os.getpid())
        self.known.update(found)
        return set(found)

    def _freeze(self) -> set[int]:
        """Stop them until a look shows none that is new: what is stopped can't fork."""
        frozen: set[int] = set()
        for _ in range(FREEZE_PASSES):
            fresh = self._living() - frozen
            if not fresh:
                break
            self._signal(fresh, signal.SIGSTOP)
            frozen |= fresh
        return frozen

    async def _gone(self, seconds: float) -> bool:
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
