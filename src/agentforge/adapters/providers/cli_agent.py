"""An agent's own command-line program as a provider: what is particular to one CLI is its description."""

import logging
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from agentforge.adapters.providers.config import ConfigReader
from agentforge.adapters.providers.environment import Scalar, agent_environment
from agentforge.adapters.providers.oneshot import execute_once, exit_status
from agentforge.adapters.providers.program import find_program
from agentforge.model.errors import ProviderUnusable
from agentforge.ports.provider import Capabilities, Command, ExecuteRequest, ExecuteResult, Exit

_log = logging.getLogger(__name__)


class Call(Struct, frozen=True):
    """How a CLI is called for one request."""

    arguments: tuple[str, ...]
    stdin: str
    env: dict[str, str] = field(default_factory=dict)
    """What this CLI needs and the environment doesn't have."""
    timeout: float | None = None
    """Where the stage's config doesn't say."""
    warning: str = ""


class AgentCli(Struct, frozen=True):
    """One CLI, described."""

    name: str
    """Of the provider, and of the program."""
    title: str
    install: str
    call: Callable[[ExecuteRequest, Mapping[str, str]], Call]
    """Takes the request and the agent's environment; raises ProviderUnusable if a setting makes no sense."""
    capabilities: Capabilities


class CliConfig(Struct, frozen=True):
    command: str = ""
    """Another program than the installed one: a name, or a path relative to the work folder."""
    timeout: float | None = None
    """Seconds for one attempt; 0 is no limit."""
    env: dict[str, Scalar] = field(default_factory=dict)


class CliAgent:
    def __init__(
        self,
        cli: AgentCli,
        environ: Mapping[str, str] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._cli = cli
        self._environ = dict(os.environ if environ is None else environ)
        self._config = ConfigReader(cli.name, CliConfig, config)
        self._warned: set[str] = set()

    @property
    def name(self) -> str:
        return self._cli.name

    async def init(self) -> None:
        """Nothing to set up."""

    async def shutdown(self) -> None:
        """Nothing to release."""

    def capabilities(self) -> Capabilities:
        return self._cli.capabilities

    def validate(self) -> None:
        _program(self._cli, self._config.read({}), str(Path.cwd()), self._environ)

    def command(self, request: ExecuteRequest) -> Command:
        config = self._config.read(request.config)
        environment = agent_environment(self._environ, request, config.env)
        program = _program(self._cli, config, request.workdir, environment)
        call = self._cli.call(request, environment)
        self._warn_once(call.warning)
        limit = call.timeout if config.timeout is None else seconds("`timeout`", config.timeout)
        return Command((program, *call.arguments), {**environment, **call.env}, call.stdin, limit)

    def interpret(self, exit: Exit) -> ExecuteResult:
        return ExecuteResult(output=exit.output, exit_code=exit_status(exit), duration_ms=exit.duration_ms)

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:
        return await execute_once(self, request)

    def _warn_once(self, warning: str) -> None:
        if warning and warning not in self._warned:
            self._warned.add(warning)
            _log.warning("provider %s: %s", self.name, warning)


def seconds(setting: str, value: str | float) -> float | None:
    """A time limit as somebody wrote it; 0 is none."""
    try:
        limit = float(value)
    except ValueError:
        limit = math.nan
    if not 0 <= limit < math.inf:
        raise ProviderUnusable(
            f"{setting} is no number of seconds: {value!r}", hint="give one such as 900, or 0 for no limit"
        )
    return limit or None


def _program(cli: AgentCli, config: CliConfig, workdir: str, environment: Mapping[str, str]) -> str:
    found = find_program(config.command or cli.name, workdir, environment)
    if found is not None:
        return found
    if config.command:
        raise ProviderUnusable(
            f"{cli.title} CLI not found: {config.command!r}",
            hint=f"correct `command` in the config of provider {cli.name}, or leave it out",
        )
    raise ProviderUnusable(f"{cli.title} CLI not found. Install with: {cli.install}")
