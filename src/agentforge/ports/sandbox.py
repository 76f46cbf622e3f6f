"""What an agent program is confined to."""

from typing import Protocol

from msgspec import Struct

from agentforge.model.plan import SandboxChoice
from agentforge.ports.provider import Command


class Confinement(Struct, frozen=True):
    """What one attempt may touch; everything else is read-only or hidden. All paths are absolute."""

    workspace: str
    """Writable, apart from what `protected` names within it."""
    protected: tuple[str, ...] = ()
    """Read-only, though within something writable: the folder of all runs, the attempt's own records."""
    writable: tuple[str, ...] = ()
    """Writable, though within something protected: the current iteration's folder, the progress file."""


class Sandbox(Protocol):
    @property
    def name(self) -> str: ...

    def probe(self, choice: SandboxChoice) -> None:
        """Raises ProviderUnusable with the exact fix, if there is no such sandbox on this machine."""
        ...

    def wrap(self, command: Command, choice: SandboxChoice, within: Confinement, mark: str) -> Command:
        """The same program, confined. `mark` tells this attempt from all others."""
        ...
