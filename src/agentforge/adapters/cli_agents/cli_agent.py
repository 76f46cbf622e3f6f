"""Agents that are command-line programs: described by us, by a file, or by the stage itself (`cli`)."""

import logging
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from agentforge.adapters.cli_agents.command_line import Extras, chosen_model, taken_apart, validate_cli, words
from agentforge.adapters.cli_agents.description import AgentCli
from agentforge.adapters.cli_agents.outcome import interpreted, reader_of
from agentforge.adapters.cli_agents.program import (
    ProgramProvider,
    SettingValue,
    agent_environment,
    as_text,
    find_program,
    refuse_impossible,
    secrets_in,
)
from agentforge.adapters.cli_agents.settings import ConfigReader, in_words
from agentforge.adapters.cli_agents.stream import json_line, one_line
from agentforge.model.errors import ProviderUnusable
from agentforge.ports.provider import Capabilities, Command, ExecuteRequest, ExecuteResult, Exit

_log = logging.getLogger(__name__)
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
NAME = "cli"
DESCRIBES = frozenset(item.encode_name for item in msgspec.structs.fields(AgentCli)) - {"name"}


class CliConfig(Struct, frozen=True):
    """What a stage may say about its CLI."""

    command: str = ""
    """Another program than the installed one: a name, or a path relative to the work folder."""
    timeout: float | None = None
    """Seconds for one attempt; 0 is no limit."""
    idle_timeout: float | None = None
    """Seconds without any output; 0 is no limit."""
    env: dict[str, SettingValue] = field(default_factory=dict)
    pass_env: tuple[str, ...] = ()
    """Names or patterns of inherited variables that reach the agent, beside those that it needs anyway."""
    retries: int | None = None
    """How often the CLI may try again by itself."""
    arguments: tuple[SettingValue, ...] = ()
    """Further words of the command line."""
    permissions: tuple[SettingValue, ...] | None = None
    """Instead of the words by which the CLI is let do everything."""
    effort: str = ""
    model_provider: str = ""
    """Of codex: which of the providers in its own config is asked."""


class CliAgent(ProgramProvider):
    def __init__(
        self,
        cli: AgentCli,
        environ: Mapping[str, str] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(cli.name, environ)
        validate_cli(cli)
        self.cli = cli
        self._reader = reader_of(cli)
        self._config = ConfigReader(cli.name, CliConfig, config)
        self._warned: set[str] = set()

    def capabilities(self) -> Capabilities:
        return Capabilities(
            supports_tools=self.cli.tools,
            supports_reasoning_control=bool(self.cli.efforts),
            supports_resume=bool(self.cli.resume_arguments),
        )

    def validate(self) -> None:
        _program(self.cli, self._config.read({}), str(Path.cwd()), self._environ)

    def validate_settings(self, model: str, config: Mapping[str, Any]) -> None:
        validate_config(self.cli, self._config.read(config), model, self._environ)

    def command(self, request: ExecuteRequest) -> Command:
        command, warning = command_of(self.cli, self._config.read(request.config), request, self._environ)
        if warning and warning not in self._warned:
            self._warned.add(warning)
            _log.warning("provider %s: %s", self.name, warning)
        return command

    def interpret(self, exit: Exit) -> ExecuteResult:
        wanted = exit.model or self._environ.get(self.cli.model_variable, "") or self.cli.default_model
        model = taken_apart(self.cli, wanted)[0]
        return interpreted(self.cli, self._reader, replace(exit, model=model))

    def progress(self, line: str) -> str:
        event = json_line(line) if self._reader else None
        if self._reader is None or event is None or not self._reader.is_event(event):
            return one_line(line)
        return self._reader.progress(event)


def command_of(
    cli: AgentCli, config: CliConfig, request: ExecuteRequest, inherited: Mapping[str, str]
) -> tuple[Command, str]:
    """The command, and what is doubtful about it."""
    environment = _environment(cli, config, request, inherited)
    program = _program(cli, config, request.workdir, environment)
    chosen = chosen_model(cli, request.model, config.effort, environment)
    retries = cli.retries if config.retries is None else config.retries
    extras = Extras(
        arguments=_texts(config.arguments),
        permissions=None if config.permissions is None else _texts(config.permissions),
        retries=retries,
        model_provider=config.model_provider,
    )
    argv = (program, *words(cli, request, chosen, extras))
    refuse_impossible(cli.name, argv)
    command = Command(
        argv=argv,
        env=environment,
        stdin=request.prompt + cli.prompt_suffix if cli.prompt == "stdin" else "",
        timeout=_timeout(cli, config, environment),
        idle_timeout=_idle_timeout(cli, config),
        term_grace=cli.term_grace,
        separate_errors=True,
        secrets=secrets_in(environment, cli.secrets, inherited=inherited),
        state=state_folders(cli, environment),
    )
    return command, chosen.warning


def validate_config(cli: AgentCli, config: CliConfig, model: str, inherited: Mapping[str, str]) -> None:
    """Raises ProviderUnusable for what can't be meant, whatever the rest of the request is."""
    environment = {**inherited, **{name: as_text(value) for name, value in config.env.items()}}
    chosen_model(cli, model, config.effort, environment)
    _timeout(cli, config, environment)
    _idle_timeout(cli, config)


def _texts(words: Iterable[Any]) -> tuple[Any, ...]:
    """Numbers in YAML are words on a command line."""
    return tuple(as_text(word) if isinstance(word, SettingValue) else word for word in words)


def _environment(
    cli: AgentCli, config: CliConfig, request: ExecuteRequest, inherited: Mapping[str, str]
) -> dict[str, str]:
    passes = (*cli.passes, *config.pass_env)
    found = agent_environment(inherited, request, config.env, passes=passes)
    retries = cli.retries if config.retries is None else config.retries
    bounds = {} if retries is None else dict.fromkeys(cli.retry_variables, str(retries))
    if config.retries is not None:
        found.update(bounds)
    ours = {name: as_text(value) for name, value in cli.environment.items()}
    return {**ours, **bounds, **found, **root_environment(cli, found, os.geteuid())}


def root_environment(cli: AgentCli, environment: Mapping[str, str], uid: int) -> dict[str, str]:
    """What root needs: some CLIs refuse to work unattended for it unless they are told of a sandbox."""
    if uid != 0 or any(environment.get(name) for name in cli.root_unless):
        return {}
    return {name: as_text(value) for name, value in cli.root_environment.items()}


def state_folders(cli: AgentCli, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Absolute paths; what depends on a variable that isn't set is left out."""
    home = environment.get("HOME", "")

    def value(found: re.Match[str]) -> str:
        return environment.get(found[1]) or found[2] or ""

    expanded = (_VARIABLE.sub(value, path) for path in cli.state)
    paths = (home + path[1:] if path.startswith("~") and home else path for path in expanded)
    return tuple(path for path in paths if path.startswith("/"))


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


def _timeout(cli: AgentCli, config: CliConfig, environment: Mapping[str, str]) -> float | None:
    if config.timeout is not None:
        return seconds("`timeout`", config.timeout)
    written = environment.get(cli.timeout_variable, "")
    return seconds(cli.timeout_variable, written) if written else cli.timeout


def _idle_timeout(cli: AgentCli, config: CliConfig) -> float | None:
    if config.idle_timeout is None:
        return cli.idle_timeout
    return seconds("`idle_timeout`", config.idle_timeout)


def _program(cli: AgentCli, config: CliConfig, workdir: str, environment: Mapping[str, str]) -> str:
    found = find_program(config.command or cli.program_name, workdir, environment)
    if found is not None:
        return found
    if config.command:
        raise ProviderUnusable(
            f"{cli.shown_name} CLI not found: {config.command!r}",
            hint=f"correct `command` in the config of provider {cli.name}, or leave it out",
        )
    if cli.install:
        raise ProviderUnusable(f"{cli.shown_name} CLI not found. Install with: {cli.install}")
    where = f"in {workdir}" if "/" in cli.program_name else "in PATH"
    raise ProviderUnusable(
        f"{cli.shown_name} CLI not found: no program {cli.program_name!r} {where}",
        hint=f"install it, or give another one with `command` in the config of provider {cli.name}",
    )


class OwnCli(ProgramProvider):
    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(NAME, environ)
        self._config = ConfigReader(NAME, CliConfig)

    def capabilities(self) -> Capabilities:
        # Whether a stage's program can go on with a session is known only where the stage is.
        return Capabilities(supports_tools=True, supports_reasoning_control=True, supports_resume=True)

    def validate(self) -> None:
        """There is nothing to look for before a stage says what."""

    def validate_settings(self, model: str, config: Mapping[str, Any]) -> None:
        validate_config(described(config), self._config.read(_settings(config)), model, self._environ)

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
    validate_cli(cli)
    return cli


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in DESCRIBES}
