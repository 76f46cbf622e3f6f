"""The provider `cli`: a stage describes the program itself, in its config."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agentforge.adapters.providers.agent_cli import AgentCli
from agentforge.adapters.providers.cli_agent import CliConfig, check_config, command_of
from agentforge.adapters.providers.cli_check import check_cli
from agentforge.adapters.providers.config import ConfigReader
from agentforge.adapters.providers.environment import Scalar, as_text
from agentforge.adapters.providers.interpreting import interpreted
from agentforge.adapters.providers.program_provider import ProgramProvider
from agentforge.adapters.providers.readers import reader_of
from agentforge.adapters.providers.type_words import in_words
from agentforge.model.errors import ProviderUnusable
from agentforge.ports.provider import Capabilities, Command, ExecuteRequest, ExecuteResult, Exit

NAME = "cli"
DESCRIBES = frozenset(item.encode_name for item in msgspec.structs.fields(AgentCli)) - {"name"}


class OwnCli(ProgramProvider):
    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(NAME, environ)
        self._config = ConfigReader(NAME, CliConfig)

    def capabilities(self) -> Capabilities:
        # Whether a stage's program can go on with a session is known only where the stage is.
        return Capabilities(supports_tools=True, supports_reasoning_control=True, supports_resume=True)

    def validate(self) -> None:
        """There is nothing to look for before a stage says what."""

    def check_settings(self, model: str, config: Mapping[str, Any]) -> None:
        check_config(described(config), self._config.read(_settings(config)), model, self._environ)

    def command(self, request: ExecuteRequest) -> Command:
        cli = described(request.config)
        config = self._config.read(_settings(request.config))
        return command_of(cli, config, request, self._environ)[0]

    def interpret(self, exit: Exit) -> ExecuteResult:
        cli = described(exit.config or {"program": NAME})
        return interpreted(cli, reader_of(cli), exit)


def described(config: Mapping[str, Any]) -> AgentCli:
    """The description among a stage's settings."""
    found = {key: value for key, value in config.items() if key in DESCRIBES}
    if not found.get("program"):
        raise ProviderUnusable(
            "provider cli: no `program` is given", hint="name it: `provider: {type: cli, program: my-agent}`"
        )
    words = {key: _texts(value) for key, value in found.items() if isinstance(value, list | tuple)}
    try:
        cli = msgspec.convert({**found, **words, "name": found["program"]}, AgentCli, str_keys=True)
    except msgspec.ValidationError as error:
        raise ProviderUnusable(
            f"provider cli: {in_words(error)}", hint="correct the provider's config in the stage"
        ) from error
    check_cli(cli)
    return cli


def _texts(words: Sequence[Any]) -> list[Any]:
    """Numbers in YAML are words on a command line."""
    return [as_text(word) if isinstance(word, Scalar) else word for word in words]


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in DESCRIBES}
