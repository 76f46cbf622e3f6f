"""Sandboxes confine agent programs."""

from typing import Protocol

from msgspec import Struct

from agentforge.model.plan import SandboxChoice
from agentforge.ports.provider import Command


class Confinement(Struct, frozen=True):
    """What one attempt may touch; everything else is read-only or hidden. All paths are absolute."""

    workspace: str
    """Writable, except for the paths in `protected`."""
    protected: tuple[str, ...] = ()
    """Read-only, even inside a writable path: the folder of all runs, the attempt's own records."""
    writable: tuple[str, ...] = ()
    """Writable, even inside a protected path: the current iteration's folder, the progress file."""


class Sandbox(Protocol):
    @property
    def name(self) -> str: ...

    def probe(self, choice: SandboxChoice) -> None:
        """Raises ProviderUnusable if the sandbox doesn't work on this machine."""
        ...

    def wrap(self, command: Command, choice: SandboxChoice, within: Confinement, mark: str) -> Command:
        """The same program, confined. `mark` identifies the attempt."""
        ...
