"""Processes that outlive the engine: who they are, whether they live, how all of one ends."""

from typing import Protocol

from msgspec import Struct


class Identity(Struct, frozen=True):
    """A process, told apart from any other that may get the same pid later or elsewhere."""

    pid: int
    start_time: str
    boot_id: str
    host: str


class Processes(Protocol):
    def identify(self, pid: int) -> Identity | None:
        """Nothing if no such process lives."""
        ...

    def is_alive(self, identity: Identity) -> bool:
        """Whether that very process lives; a zombie doesn't. Of another host or boot: not alive here."""
        ...

    def start_supervisor(self, spec_path: str) -> Identity:
        """Start the supervisor in a session of its own, detached from the engine's life and terminal."""
        ...

    async def wait(self, identity: Identity) -> None:
        """Return once that process is gone; it need not be a child."""
        ...

    def terminate(self, identity: Identity) -> None:
        """Ask that very process to end (a supervisor then ends its agent's whole tree)."""
        ...

    async def end_marked(self, mark: str, seconds: float = 5.0) -> int:
        """End every process that carries the mark in its environment, and what those started; the
        count. For agents whose supervisor died: none may live when the next attempt begins."""
        ...
