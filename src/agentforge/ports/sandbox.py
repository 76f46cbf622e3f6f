"""Sandboxes confine agent programs."""

from typing import Protocol

from msgspec import Struct

from agentforge.model.plan import SandboxChoice
from agentforge.ports.provider import Command


class Confinement(Struct, frozen=True):
    """What one attempt may touch; everything else is read-only or hidden. All paths are absolute."""

    workspace: str
    """Writable, except for the paths below."""
    protected: tuple[str, ...] = ()
    """Read-only, even inside a writable or hidden path: what the attempt may read of its run, its own
    records, and files that decide what is executed later."""
    writable: tuple[str, ...] = ()
    """Writable, even inside a protected or hidden path: the current iteration's folder, the progress file."""
    hidden: tuple[str, ...] = ()
    """Empty and read-only, except for the paths in `protected` and `writable`: the folder of all runs, the
    other branches of a block."""


class Sandbox(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def nesting_problem(self) -> str:
        """Why a program can't build a sandbox of its own inside this one; empty: it can."""

    def probe(self, choice: SandboxChoice) -> None:
        """Raises ProviderUnusable if the sandbox doesn't work on this machine."""

    def wrap(self, command: Command, choice: SandboxChoice, within: Confinement, mark: str) -> Command:
        """The same program, confined. `mark` identifies the attempt."""

    def cleanup(self, mark: str) -> tuple[str, ...]:
        """The program that ends a confined attempt whose processes aren't ours; empty: not needed."""
