"""Processes on Linux: /proc tells who they are, a pidfd tells when they are gone."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from agentforge.adapters.marked_tree import MarkedTree, Row
from agentforge.adapters.supervisor_start import SupervisorStarter
from agentforge.model.errors import AgentForgeError
from agentforge.ports.process import Identity

POLL_SECONDS = 0.05


class LinuxProcesses:
    def __init__(self, supervisor: str) -> None:
        """`supervisor` is the path of the supervisor program."""
        self._starter = SupervisorStarter(supervisor)
        self._boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._host = os.uname().nodename

    def identify(self, pid: int) -> Identity | None:
        stat = _stat(pid)
        return None if stat is None or stat.is_dead else self._identity(pid, stat)

    def is_alive(self, identity: Identity) -> bool:
        return self.identify(identity.pid) == identity

    def start_supervisor(self, spec_path: str) -> Identity:
        pid = self._starter.start(spec_path)
        stat = _stat(pid)  # There even if it is dead by now, since we haven't reaped it.
        if stat is None:
            raise AgentForgeError(
                f"the supervisor (process {pid}) vanished at once",
                hint="let this program's SIGCHLD have its default action, and try again",
            )
        return self._identity(pid, stat)

    async def wait(self, identity: Identity) -> None:
        try:
            descriptor = os.pidfd_open(identity.pid)
        except ProcessLookupError:
            pass
        except OSError:  # No such call, or no descriptor left.
            await self._poll(identity)
        else:
            try:
                # Only now is it certain whose descriptor that is.
                if self.is_alive(identity):
                    await _readable(descriptor)
            finally:
                os.close(descriptor)
        self._starter.reap()

    def terminate(self, identity: Identity) -> None:
        try:
            descriptor = os.pidfd_open(identity.pid)
        except ProcessLookupError:
            return
        try:
            if self.is_alive(identity):
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        finally:
            os.close(descriptor)

    async def end_marked(self, mark: str, seconds: float = 5.0) -> int:
        """`seconds` is the grace between TERM and KILL."""
        self._starter.reap()
        return await MarkedTree(lambda: _table(mark)).end(seconds)

    async def _poll(self, identity: Identity) -> None:
        while self.is_alive(identity):  # noqa: ASYNC110 - nothing tells us.
            await asyncio.sleep(POLL_SECONDS)

    def _identity(self, pid: int, stat: "_Stat") -> Identity:
        return Identity(pid, stat.start_time, self._boot_id, self._host)


class _Stat:
    """/proc/PID/stat without the name, which may hold blanks and brackets."""

    def __init__(self, text: bytes) -> None:
        fields = text.rpartition(b")")[2].decode().split()
        # The main thread of a living process may be a zombie; then others are left.
        self.is_dead = fields[0] in "ZX" and int(fields[17]) <= 1
        self.parent, self.session, self.start_time = int(fields[1]), int(fields[3]), fields[19]


def _stat(pid: int) -> _Stat | None:
    try:
        return _Stat(Path(f"/proc/{pid}/stat").read_bytes())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # Nothing else: a look that failed for want of descriptors is no death.


def _table(mark: str) -> dict[int, Row]:
    table: dict[int, Row] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _stat(int(name))) is not None and not stat.is_dead:
            pid = int(name)
            table[pid] = Row(pid, stat.parent, stat.session, stat.start_time, _carries(pid, mark.encode()))
    return table


def _carries(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # Gone, or another user's.
        return False


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
