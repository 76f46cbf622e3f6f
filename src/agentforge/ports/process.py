"""Processes that outlive the engine: identify them, check that they are alive, end their process trees."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct


class Identity(Struct, frozen=True):
    """Identifies a process even if its pid is reused later or on another host."""

    pid: int
    start_time: str
    boot_id: str
    host: str


class Processes(Protocol):
    def identify(self, pid: int) -> Identity | None:
        """The identity, or None if no such process is running."""
        ...

    def is_alive(self, identity: Identity) -> bool:
        """Whether exactly this process is running. False for zombies, other hosts and earlier boots."""
        ...

    async def start_supervisor(self, folder: str, spec: bytes) -> Identity:
        """Start the supervisor in the attempt's folder and in a new session, detached from the engine and its
        terminal, and hand the specification over to it: not through a file, since it contains secrets."""
        ...

    async def wait(self, identity: Identity) -> None:
        """Return once the process has exited; it need not be a child."""
        ...

    def terminate(self, identity: Identity) -> None:
        """Send SIGTERM to exactly this process (a supervisor then ends its agent's whole process tree)."""
        ...

    def supervisors(self) -> Mapping[Identity, str]:
        """The supervisors that are running, each with the folder of its attempt as it was named at the
        start."""
        ...

    async def end_marked(self, mark: str, seconds: float = 5.0) -> int:
        """End every process that has the mark in its environment, with all descendants; return the count.
        For agents whose supervisor died: none may be running when the next attempt starts."""
        ...

    def inherited(self, variable: str) -> frozenset[str]:
        """The values of the variable with which this process and those that started it were started, as far
        as they can be read."""
        ...
