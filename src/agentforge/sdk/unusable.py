"""What stands in for a provider that can't be used: it starts nothing, but an agent that an earlier engine
started by it is still waited for, ended and understood."""

from typing import NoReturn

from agentforge.model.errors import AgentForgeError, ProviderUnusable
from agentforge.model.failure import Failure, FailureKind
from agentforge.ports.provider import (
    Capabilities,
    ExecuteRequest,
    ExecuteResult,
    Exit,
    Provider,
    ShowsProgress,
)
from agentforge.runtime.tasks.call import is_program


class Unusable:
    def __init__(self, name: str, why: AgentForgeError, provider: Provider | None) -> None:
        """`provider` is the one that it stands in for, where that could be made."""
        self._name = name
        self._why = why
        self._provider = provider

    @property
    def name(self) -> str:
        return self._provider.name if self._provider else self._name

    async def init(self) -> None:
        self.validate()

    async def shutdown(self) -> None:
        pass

    def capabilities(self) -> Capabilities:
        return self._provider.capabilities() if self._provider else Capabilities()

    def validate(self) -> NoReturn:
        raise ProviderUnusable(self._why.message, hint=self._why.hint)

    def command(self, request: ExecuteRequest) -> NoReturn:  # noqa: ARG002 - the port's
        self.validate()

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:  # noqa: ARG002 - the port's
        self.validate()

    def interpret(self, exit: Exit) -> ExecuteResult:
        if self._provider is not None and is_program(self._provider):
            return self._provider.interpret(exit)
        failure = Failure(FailureKind.PROVIDER_MISSING, self._why.message)
        return ExecuteResult(exit.output, exit.exit_code or 0, exit.duration_ms, failure=failure)

    def progress(self, line: str) -> str:
        return self._provider.progress(line) if isinstance(self._provider, ShowsProgress) else line
