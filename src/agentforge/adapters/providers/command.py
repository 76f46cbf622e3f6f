"""Any program as an agent: an argv or a shell command, with a choice of how the prompt is passed. And the
script of a hook: a shell command with a declared environment."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from agentforge.adapters.cli_agents.program import (
    MAX_ARGUMENT_BYTES,
    ProgramProvider,
    check_arguments,
    exit_status,
    find_program,
)
from agentforge.adapters.cli_agents.settings import ConfigReader
from agentforge.adapters.environment import (
    SettingValue,
    agent_environment,
    as_text,
    passed_variables,
    secrets_in,
)
from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import Failure, FailureKind
from agentforge.ports.provider import Capabilities, Command, Endpoints, ExecuteRequest, ExecuteResult, Exit

SHELL = "/bin/sh"
PLACEHOLDER = "{prompt}"
MAX_OUTPUT = 64 * 1024
"""What is used of the output, in bytes."""
TRUNCATED = "\n(truncated at 64 KB)"
QUOTED_CHARS = 500
"""What a message quotes of the errors of a script that failed: their end."""


class CommandConfig(Struct, frozen=True):
    argv: tuple[str | int | float, ...] = ()
    run: str = ""
    """A shell command, instead of `argv`."""
    prompt: Literal["stdin", "argument", "file", "none"] = "stdin"
    env: dict[str, SettingValue] | Literal["declared"] = field(default_factory=dict)
    """Variables in addition to the inherited ones, or `declared`: pass only those that all programs need."""
    pass_env: tuple[str, ...] | None = None
    """Names or patterns (`ANTHROPIC_*`) of variables to inherit; all others are dropped."""


class CommandProvider(ProgramProvider):
    """With its own config it is a named agent; otherwise each stage defines the program."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        *,
        name: str = "command",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, environ)
        self._config = ConfigReader(name, CommandConfig, config)

    def capabilities(self) -> Capabilities:
        return Capabilities(can_judge=False)

    def validate(self) -> None:
        """Checks the program only if the provider's own config defines it."""
        if self._config.defaults:
            _words(self._config.read({}), str(Path.cwd()), self._environ)

    def validate_settings(self, model: str, config: Mapping[str, Any]) -> list[str]:  # noqa: ARG002 - the port's
        return self._config.validate(config, _refuse_unclear)

    def endpoints(self, model: str, config: Mapping[str, Any]) -> Endpoints:  # noqa: ARG002 - the port's
        # The user's own program: a sandbox without a network confines it, or it obeys the variable.
        return Endpoints()

    def command(self, request: ExecuteRequest) -> Command:
        config = self._config.read(request.config)
        if isinstance(config.env, str):
            environment = agent_environment(self._environ, request, passes=config.pass_env or ())
        else:
            environment = agent_environment(self._environ, request, config.env, passes=config.pass_env)
        words = _with_prompt(config, _words(config, request.workdir, environment), request)
        check_arguments("command", words)
        return Command(
            argv=words,
            env=environment,
            stdin=request.prompt if config.prompt == "stdin" else "",
            secrets=secrets_in(environment, inherited=self._environ),
        )


def _refuse_unclear(config: CommandConfig) -> None:
    if bool(config.argv) == bool(config.run):
        raise ProviderUnusable(
            "provider command: set either `argv` or `run`" + (", not both" if config.run else ""),
            hint='for example `argv: [my-agent, --quiet]` or `run: "my-agent --quiet"`',
        )


def _words(config: CommandConfig, workdir: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The argv without the prompt, with the program's absolute path."""
    _refuse_unclear(config)
    if config.run:
        # The word after the command is `$0`, so that `$1` is the first argument.
        return (SHELL, "-c", config.run, "sh")
    program, *arguments = (as_text(word) for word in config.argv)
    found = find_program(program, workdir, environment)
    if found is None:
        where = f"in {workdir}" if "/" in program else "in PATH"
        raise ProviderUnusable(
            f"program {program!r} not found {where}",
            hint="install it, make it executable, or use its absolute path in `argv`",
        )
    return (found, *arguments)


def _with_prompt(config: CommandConfig, words: tuple[str, ...], request: ExecuteRequest) -> tuple[str, ...]:
    if config.prompt == "argument":
        return (*words, request.prompt)
    if config.prompt != "file":
        return words
    if not any(PLACEHOLDER in word for word in words):
        raise ProviderUnusable(
            f"provider command: `prompt: file` requires {PLACEHOLDER} as the placeholder of the path",
            hint=f"for example `argv: [my-agent, --task, {PLACEHOLDER!r}]`",
        )
    if not request.prompt_path:
        raise ProviderUnusable(
            "provider command: `prompt: file` is set, but the request has no prompt file",
            hint="set `prompt_path` in the request, or use `prompt: stdin`",
        )
    # In a shell command, the path is one word, whatever its characters.
    written = shlex.quote(request.prompt_path) if config.run else request.prompt_path
    return tuple(word.replace(PLACEHOLDER, written) for word in words)


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
        output, encoded = exit.output, exit.output.encode()
        if exit.truncated or len(encoded) > MAX_OUTPUT:
            output = encoded[:MAX_OUTPUT].decode("utf-8", "ignore") + TRUNCATED
        return ExecuteResult(output, status, exit.duration_ms, failure=failure)
