"""Agents that are command-line programs: built in, described by a file, or described in the stage (`cli`)."""

import logging
import math
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from agentforge.adapters.cli_agents.addresses import endpoints_of
from agentforge.adapters.cli_agents.command_line import (
    CliConfig,
    build_arguments,
    choose_model,
    model_warning,
    permissions_of,
    retries_of,
    split_model,
    texts,
    validate_cli,
    whole_prompt,
)
from agentforge.adapters.cli_agents.description import JSON_LINES, TEXT, AgentCli, Words
from agentforge.adapters.cli_agents.outcome import interpret_exit
from agentforge.adapters.cli_agents.program import ProgramProvider, check_arguments, find_program
from agentforge.adapters.cli_agents.schema_argument import schema_argument
from agentforge.adapters.cli_agents.settings import ConfigReader, describe_error
from agentforge.adapters.cli_agents.stream import JsonLinesStream, StreamReader, json_line, one_line
from agentforge.adapters.environment import agent_environment, as_text, secrets_in
from agentforge.adapters.providers.claude import ClaudeStream
from agentforge.adapters.providers.codex import CodexStream
from agentforge.adapters.providers.gemini import GeminiStream
from agentforge.adapters.providers.opencode import OpencodeStream
from agentforge.model.errors import ProviderUnusable
from agentforge.model.result import JSONObject
from agentforge.model.secrets import KEY_HOSTS_HINT, host_problem, names_address
from agentforge.ports.provider import Capabilities, Command, Endpoints, ExecuteRequest, ExecuteResult, Exit

_log = logging.getLogger(__name__)
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
NAME = "cli"
DESCRIBES = frozenset(item.encode_name for item in msgspec.structs.fields(AgentCli)) - {"name"}


STREAMS: dict[str, StreamReader] = {
    "claude": ClaudeStream(),
    "codex": CodexStream(),
    "gemini": GeminiStream(),
    "opencode": OpencodeStream(),
}
"""The readers of the formats that one CLI has; any description can name them as its `output`."""
FORMATS = (TEXT, JSON_LINES, *STREAMS)


def reader_of(cli: AgentCli) -> StreamReader | None:
    """The reader of the CLI's output format, or None for plain text."""
    if cli.output == TEXT:
        return None
    if cli.output == JSON_LINES:
        return JsonLinesStream(cli.fields)
    return STREAMS[cli.output]


class CliAgent(ProgramProvider):
    def __init__(
        self,
        cli: AgentCli,
        environ: Mapping[str, str] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(cli.name, environ)
        validate_cli(cli, FORMATS)
        self.cli: AgentCli = cli
        self._reader = reader_of(cli)
        self._config = ConfigReader(cli.name, CliConfig, config)

    def capabilities(self) -> Capabilities:
        return Capabilities(
            supports_tools=self.cli.tools,
            supports_reasoning_control=bool(self.cli.efforts),
            supports_resume=bool(self.cli.resume_arguments),
            writes_result=True,
            bounds=("cost_usd",) if self.cli.budget_arguments else (),
        )

    def validate(self) -> None:
        _program(self.cli, self._config.read({}), str(Path.cwd()), self._environ)

    def validate_settings(self, model: str, config: Mapping[str, Any]) -> list[str]:
        return _validated(self._config, self.cli, model, config, self._environ)

    def endpoints(self, model: str, config: Mapping[str, Any]) -> Endpoints:
        return endpoints_of(self.cli, model, self._config.read(config), self._environ)

    def missing_price(self, model: str, config: Mapping[str, Any]) -> str | None:  # noqa: ARG002 - the port's
        name = split_model(self.cli, model)[0] or self.cli.default_model
        patterns = self.cli.priced_models
        is_known = not (name and patterns) or any(fnmatchcase(name, pattern) for pattern in patterns)
        return None if is_known else ""

    def builds_sandbox(self, config: Mapping[str, Any]) -> str:
        if not _lacks(self.cli, self._config.read(config), self.cli.own_sandbox_unless):
            return ""
        return f"`permissions: [{self.cli.own_sandbox_unless[0]}]`"

    def sent_besides(self, config: Mapping[str, Any], schema: JSONObject | None) -> str:  # noqa: ARG002
        again = schema_argument(schema) if self.cli.schema_arguments else ""
        return f"{again}{self.cli.schema_suffix if again else ''}{self.cli.prompt_suffix}"

    def command(self, request: ExecuteRequest) -> Command:
        return command_of(self.cli, self._config.read(request.config), request, self._environ)

    def interpret(self, exit: Exit) -> ExecuteResult:
        # A CLI may not report its model: then it is the one that was asked for, without the effort.
        requested = exit.model or self._environ.get(self.cli.model_variable, "") or self.cli.default_model
        model = split_model(self.cli, requested)[0]
        config = self._config.read(exit.config)
        return interpret_exit(self.cli, config, self._reader, replace(exit, model=model))

    def progress(self, line: str) -> str:
        event = json_line(line) if self._reader else None
        if self._reader is None or event is None or not self._reader.is_event(event):
            return one_line(line)
        return self._reader.progress(event)


def command_of(
    cli: AgentCli, config: CliConfig, request: ExecuteRequest, inherited: Mapping[str, str]
) -> Command:
    _check_addresses(cli, config, inherited)
    # Whether it refuses to write below `.claude`, where the result belongs.
    is_guarded = _lacks(cli, config, cli.guarded_unless)
    if is_guarded and request.outbox:
        # Its paths are those in the outbox, also in the prompt.
        paths, prompt = request.outbox_paths, request.prompt
        for path, other in paths.items():
            prompt = prompt.replace(path, other)
        result, status = paths[request.result_path], paths[request.status_path]
        artifact = paths.get(request.artifact_path, "")
        request = replace(
            request, prompt=prompt, result_path=result, status_path=status, artifact_path=artifact
        )
    environment = _environment(cli, config, request, inherited)
    program = _program(cli, config, request.workdir, environment)
    chosen = choose_model(cli, request.model, config.effort, environment)
    argv = (program, *build_arguments(cli, config, request, chosen))
    check_arguments(cli.name, argv)
    return Command(
        argv=argv,
        env=environment,
        stdin=whole_prompt(cli, request) if cli.prompt == "stdin" else "",
        timeout=_timeout(cli, config, environment),
        idle_timeout=_idle_timeout(cli, config),
        term_grace=cli.term_grace,
        separate_errors=True,
        secrets=secrets_in(environment, cli.secrets, inherited=inherited),
        state=state_folders(cli, environment),
        outbox=request.outbox if is_guarded else "",
    )


def _lacks(cli: AgentCli, config: CliConfig, words: Words) -> bool:
    """Whether none of the words is among the arguments that it is started with; False if there are none."""
    given = {*permissions_of(cli, config), *texts(config.arguments)}
    return bool(words) and not any(word in argument for argument in given for word in words)


def _validated(
    reader: ConfigReader[CliConfig],
    cli: AgentCli,
    model: str,
    settings: Mapping[str, Any],
    environ: Mapping[str, str],
) -> list[str]:
    """Warnings. Raises ProviderUnusable with everything that is wrong; it has those about the model, too."""

    def environment(config: CliConfig) -> dict[str, str]:
        return {**environ, **{name: as_text(value) for name, value in config.env.items()}}

    def check_root(config: CliConfig) -> None:
        if not _lacks(cli, config, cli.guarded_unless):
            refuse_as_root(cli, environment(config), os.geteuid())

    def model_doubts() -> tuple[str, ...]:
        # A provider from the CLI's own configuration has its own models.
        config = reader.read(settings)
        doubt = "" if config.model_provider else model_warning(cli, model, environment(config))
        return (doubt,) if doubt else ()

    # What is invalid for any request.
    checks: tuple[Callable[[CliConfig], object], ...] = (
        lambda config: choose_model(cli, model, config.effort, environment(config)),
        lambda config: _check_addresses(cli, config, environ),
        lambda config: _timeout(cli, config, environment(config)),
        lambda config: _idle_timeout(cli, config),
        check_root,
    )
    try:
        warnings = reader.validate(settings, *checks)
    except ProviderUnusable as error:
        with suppress(ProviderUnusable):
            error.doubts = model_doubts()
        raise
    return [*warnings, *model_doubts()]


def refuse_as_root(cli: AgentCli, environment: Mapping[str, str], uid: int) -> None:
    """Raises ProviderUnusable if the CLI would refuse to run unattended as root."""
    for name, needed in cli.root_environment.items():
        found = environment.get(name)
        others = any(environment.get(other) for other in cli.root_unless if other != name)
        if uid == 0 and found and found != needed and not others:
            raise ProviderUnusable(
                f"{cli.shown_name} refuses to run unattended as root: {name} is {found!r}, not {needed}",
                hint=f"set {name} to {needed}, or unset it: AgentForge then sets it",
            )


def _check_addresses(cli: AgentCli, config: CliConfig, inherited: Mapping[str, str]) -> None:
    """A CLI sends its key to the address in such a variable."""
    for name, value in {**cli.environment, **config.env}.items():
        if names_address(name) and (problem := host_problem(as_text(value), inherited)):
            raise ProviderUnusable(f"provider {cli.name}: `{name}`: {problem}", hint=KEY_HOSTS_HINT)


def _environment(
    cli: AgentCli, config: CliConfig, request: ExecuteRequest, inherited: Mapping[str, str]
) -> dict[str, str]:
    passes = (*cli.passes, *config.pass_env)
    found = agent_environment(inherited, request, config.env, passes=passes)
    retries = retries_of(cli, config)
    bounds = {} if retries is None else dict.fromkeys(cli.retry_variables, str(retries))
    if config.retries is not None:
        found.update(bounds)
    # The last one counts: the CLI's defaults give way to the user's variables, and a default number of
    # retries does, too; one that the stage sets doesn't.
    ours = {name: as_text(value) for name, value in cli.environment.items()}
    return {**ours, **bounds, **found, **root_environment(cli, found, os.geteuid())}


def root_environment(cli: AgentCli, environment: Mapping[str, str], uid: int) -> dict[str, str]:
    """Variables for root: some CLIs refuse to run unattended as root unless they are told of a sandbox."""
    if uid != 0 or any(environment.get(name) for name in cli.root_unless):
        return {}
    return {name: as_text(value) for name, value in cli.root_environment.items()}


def state_folders(cli: AgentCli, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Absolute paths; those that depend on an unset variable are omitted."""
    home = environment.get("HOME", "")

    def value(found: re.Match[str]) -> str:
        return environment.get(found[1]) or found[2] or ""

    expanded = (_VARIABLE.sub(value, path) for path in cli.state)
    paths = (home + path[1:] if path.startswith("~") and home else path for path in expanded)
    return tuple(path for path in paths if path.startswith("/"))


def parse_seconds(setting: str, value: str | float) -> float | None:
    """Parse a time limit; 0 means None."""
    try:
        limit = float(value)
    except ValueError:
        limit = math.nan
    if not 0 <= limit < math.inf:
        raise ProviderUnusable(
            f"{setting} must be a number of seconds, got {value!r}", hint="for example 900, or 0 for no limit"
        )
    return limit or None


def _timeout(cli: AgentCli, config: CliConfig, environment: Mapping[str, str]) -> float | None:
    if config.timeout is not None:
        return parse_seconds("`timeout`", config.timeout)
    written = environment.get(cli.timeout_variable, "")
    if written:
        return parse_seconds(cli.timeout_variable, written)
    return None if cli.timeout is None else parse_seconds("`timeout`", cli.timeout)


def _idle_timeout(cli: AgentCli, config: CliConfig) -> float | None:
    seconds = cli.idle_timeout if config.idle_timeout is None else config.idle_timeout
    return None if seconds is None else parse_seconds("`idle_timeout`", seconds)


def _program(cli: AgentCli, config: CliConfig, workdir: str, environment: Mapping[str, str]) -> str:
    found = find_program(config.command or cli.program_name, workdir, environment)
    if found is not None:
        return found
    if config.command:
        raise ProviderUnusable(
            f"{cli.shown_name} CLI not found: {config.command!r}",
            hint=f"fix or remove `command` in the config of provider {cli.name}",
        )
    if cli.install:
        raise ProviderUnusable(f"{cli.shown_name} CLI not found. Install with: {cli.install}")
    where = f"in {workdir}" if "/" in cli.program_name else "in PATH"
    raise ProviderUnusable(
        f"{cli.shown_name} CLI not found: no program {cli.program_name!r} {where}",
        hint=f"install it, or set `command` in the config of provider {cli.name}",
    )


class InlineCli(ProgramProvider):
    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(NAME, environ)
        self._config = ConfigReader(NAME, CliConfig)

    def capabilities(self) -> Capabilities:
        # Whether a stage's program can resume a session depends on the stage.
        return Capabilities(
            supports_tools=True, supports_reasoning_control=True, supports_resume=True, writes_result=True
        )

    def validate(self) -> None:
        """Nothing to check: the program is defined by the stage."""

    def validate_settings(self, model: str, config: Mapping[str, Any]) -> list[str]:
        settings = _settings(config)
        cli = cli_from_config(config)
        return _validated(self._config, cli, model, settings, self._environ)

    def endpoints(self, model: str, config: Mapping[str, Any]) -> Endpoints:
        own = self._config.read(_settings(config))
        return endpoints_of(cli_from_config(config), model, own, self._environ)

    def command(self, request: ExecuteRequest) -> Command:
        cli = cli_from_config(request.config)
        config = self._config.read(_settings(request.config))
        return command_of(cli, config, request, self._environ)

    def interpret(self, exit: Exit) -> ExecuteResult:
        cli = cli_from_config(exit.config or {"program": NAME})
        config = self._config.read(_settings(exit.config))
        return interpret_exit(cli, config, reader_of(cli), exit)


def cli_from_config(config: Mapping[str, Any]) -> AgentCli:
    """Extract the description of the CLI from a stage's settings."""
    found = {key: value for key, value in config.items() if key in DESCRIBES}
    if not found.get("program"):
        raise ProviderUnusable(
            "provider cli: `program` is missing", hint="set it: `provider: {type: cli, program: my-agent}`"
        )
    lists = {key: texts(value) for key, value in found.items() if isinstance(value, list | tuple)}
    try:
        cli = msgspec.convert({**found, **lists, "name": found["program"]}, AgentCli, str_keys=True)
    except msgspec.ValidationError as error:
        raise ProviderUnusable(
            f"provider cli: {describe_error(error)}", hint="fix the provider's config in the stage"
        ) from error
    validate_cli(cli, FORMATS)
    return cli


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in DESCRIBES}
