"""A sandbox for tests that confines nothing."""

from msgspec.structs import replace

from agentforge.model.errors import ProviderUnusable
from agentforge.model.plan import SandboxChoice
from agentforge.ports.provider import Command
from agentforge.ports.sandbox import Confinement


class NotingSandbox:
    """Notes what it is asked for."""

    def __init__(self, problem: str = "", nesting_problem: str = "") -> None:
        """`problem`: why it doesn't work on this machine."""
        self.name = "noting"
        self.problem = problem
        self.nesting_problem = nesting_problem
        self.probed: list[SandboxChoice] = []
        self.confined: list[tuple[Confinement, str]] = []
        """With the marks of the attempts."""

    def probe(self, choice: SandboxChoice) -> None:
        self.probed.append(choice)
        if self.problem:
            raise ProviderUnusable(self.problem, hint="install it")

    def wrap(self, command: Command, choice: SandboxChoice, within: Confinement, mark: str) -> Command:
        self.confined.append((within, mark))
        return replace(command, argv=("/usr/bin/env", *command.argv))

    def cleanup(self, mark: str) -> tuple[str, ...]:
        return ("/usr/bin/env", "true", mark)
