"""The script of a hook, as a program for the supervisor: a shell command line with a declared environment."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from agentforge.adapters.cli_agents.program import MAX_ARGUMENT_BYTES, ProgramProvider, exit_status
from agentforge.adapters.environment import passed_variables, secrets_in
from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import Failure, FailureKind
from agentforge.ports.provider import Capabilities, Command, ExecuteRequest, ExecuteResult, Exit

SHELL = "/bin/sh"
MAX_OUTPUT = 64 * 1024
"""What is used of the output, in bytes."""
TRUNCATED = "\n(truncated at 64 KB)"
QUOTED_CHARS = 500
"""What a message quotes of the errors of a script that failed: their end."""


class ScriptConfig(Struct, frozen=True):
    run: str
    environment: tuple[str, ...] = ()
    """Variables that the script gets in addition to those that all programs need."""
    combined: bool = False
    """Whether its errors are part of its output, in order."""


class ScriptProvider(ProgramProvider):
    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        super().__init__("script", environ)

    def capabilities(self) -> Capabilities:
        return Capabilities(can_judge=False)

    def validate(self) -> None:
        """Every system has a shell."""

    def command(self, request: ExecuteRequest) -> Command:
        script = msgspec.convert(request.config, ScriptConfig)
        if "\0" in script.run or len(script.run.encode("utf-8", "replace")) > MAX_ARGUMENT_BYTES:
            raise ProviderUnusable(
                "the script contains a NUL character or exceeds the system's limit for an argument",
                hint="put it into a file and run that",
            )
        environment = {**passed_variables(self._environ, script.environment), **request.environment}
        return Command(
            argv=(SHELL, "-c", script.run),
            env=environment,
            secrets=secrets_in(environment, inherited=self._environ),
            separate_errors=not script.combined,
        )

    def interpret(self, exit: Exit) -> ExecuteResult:
        status, failure = exit_status(exit), None
        if status:
            said = " ".join((exit.errors.strip() or exit.output.strip())[-QUOTED_CHARS:].split())
            message = f"exit status {status}: {said}" if said else f"exit status {status}"
            failure = Failure(FailureKind.HOOK_FAILED, message, status)
        output = _cut(exit.output, is_cut=exit.truncated)
        return ExecuteResult(output, status, exit.duration_ms, failure=failure)


def _cut(output: str, *, is_cut: bool) -> str:
    encoded = output.encode()
    if len(encoded) <= MAX_OUTPUT and not is_cut:
        return output
    return encoded[:MAX_OUTPUT].decode("utf-8", "ignore") + TRUNCATED
