"""What providers whose agent is a program have in common: nothing to set up, one way to run and to end."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping

from agentforge.adapters.providers.oneshot import execute_once, exit_status
from agentforge.ports.provider import Capabilities, Command, ExecuteRequest, ExecuteResult, Exit


class ProgramProvider(ABC):
    """A process provider; what is left to say is the program and what it can do."""

    def __init__(self, name: str, environ: Mapping[str, str] | None = None) -> None:
        self._name = name
        self._environ = dict(os.environ if environ is None else environ)

    @property
    def name(self) -> str:
        return self._name

    # Empty on purpose: a program needs neither, and a subclass that does says so.
    async def init(self) -> None:  # noqa: B027
        """Nothing to set up."""

    async def shutdown(self) -> None:  # noqa: B027
        """Nothing to release."""

    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @abstractmethod
    def validate(self) -> None: ...

    @abstractmethod
    def command(self, request: ExecuteRequest) -> Command: ...

    def interpret(self, exit: Exit) -> ExecuteResult:
        return ExecuteResult(output=exit.output, exit_code=exit_status(exit), duration_ms=exit.duration_ms)

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:
        return await execute_once(self, request)
