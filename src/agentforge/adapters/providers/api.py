"""Models called directly: the tool loop as the agent program. Needs the extra `api`."""

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from agentforge.adapters import known_models
from agentforge.adapters.cli_agents.program import ProgramProvider, exit_status
from agentforge.adapters.cli_agents.settings import ConfigReader
from agentforge.adapters.environment import SettingValue, agent_environment, as_text, secrets_in
from agentforge.adapters.extras import install_command
from agentforge.model.errors import NOT_JSON, MissingKey, ProviderUnusable, StorageFailed
from agentforge.model.layout import LOCKS, RUNS
from agentforge.model.plan import NETWORK
from agentforge.model.result import JSONObject, Usage
from agentforge.model.secrets import KEY_HOSTS_HINT, Redactor, host_problem
from agentforge.model.spending import UNITS
from agentforge.ports.provider import Capabilities, Command, Endpoints, ExecuteRequest, ExecuteResult, Exit
from agentforge.ports.sources import MAX_SOURCE_BYTES
from agentforge.system.named_files import read_project_file
from agentforge.tool_loop.task import (
    ADDRESSES,
    DEFAULT_ALLOWED,
    KEYS,
    SYSTEM,
    TOKEN,
    Api,
    CommandRules,
    Endpoint,
    Files,
    LoopEnded,
    ModelTask,
    Price,
    SessionBegun,
    decode,
    describe,
    endpoint_of,
    program_argv,
)

NEEDED = ("pydantic_ai", "anthropic", "openai")
SESSIONS = "api-sessions"
# The engine's files in an iteration's folder; all others belong to the agent.
ENGINES_OWN = ("prompt.md", "context.json", "attempts.jsonl", "error.json", "judge.json", "artifact.json")

Positive = Annotated[float, Meta(gt=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]


class ApiConfig(Struct, frozen=True):
    model: str = ""
    """Used if the stage has no model."""
    base_url: str = ""
    api: Api | None = None
    api_key_env: str = ""
    system: str = ""
    schema: dict[str, Any] | str | None = None
    """A JSON Schema, or a path to one, for the result given to `complete`. That of the stage's artifact
    replaces it."""
    max_steps: AtLeastOne = 50
    max_tokens: AtLeastOne | None = None
    temperature: float | None = None
    prices: dict[str, Price] = field(default_factory=dict)
    """By model, for those that aren't in the price list."""
    allow: tuple[str, ...] = DEFAULT_ALLOWED
    command_timeout: Positive = 120.0
    request_timeout: Positive = 120.0
    retries: NotNegative = 2
    timeout: Annotated[float, Meta(ge=0)] = 300.0
    """Seconds for one attempt; 0 means no limit."""
    env: dict[str, SettingValue] = field(default_factory=dict)
    pass_env: tuple[str, ...] = ()
    """Additional variables to pass to the model's commands."""


class ApiProvider(ProgramProvider):
    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        *,
        name: str = "api",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, environ)
        self._config = ConfigReader(name, ApiConfig, config)

    def capabilities(self) -> Capabilities:
        return Capabilities(supports_tools=True, supports_resume=True, bounds=UNITS)

    def missing_price(self, model: str, config: Mapping[str, Any]) -> str | None:
        settings = self._config.read(config)
        endpoint = _any_endpoint(settings, model, self._declared(settings))
        if _price(settings, model, endpoint) is not None:
            return None
        if endpoint.priced:
            # Which takes long to import.
            from agentforge.tool_loop.prices import cost_of

            if cost_of(endpoint, None, 1, 1) is not None:
                return None
        return f"`prices: {{{endpoint.model}: {{input: 3, output: 15}}}}` to its settings"

    def validate(self) -> None:
        missing = [module for module in NEEDED if find_spec(module) is None]
        if missing:
            raise ProviderUnusable(
                f"provider {self.name} needs packages that aren't installed ({', '.join(missing)}). "
                f"Install with: {install_command('api')}"
            )
        if self._config.defaults:
            self._config.read({})

    def validate_settings(self, model: str, config: Mapping[str, Any]) -> list[str]:
        def with_any_key(settings: ApiConfig) -> Endpoint:
            keys = dict.fromkeys([*KEYS.values(), settings.api_key_env], "any")
            return self._endpoint(settings, model, {**self._declared(settings), **keys})

        warnings = self._config.validate(config, lambda _: _refuse_path(config.get("schema")), with_any_key)
        settings = self._config.read(config)
        endpoint = with_any_key(settings)
        if endpoint.priced and not endpoint.base_url:  # Else it is a server of its own models.
            known = known_models.ANTHROPIC if endpoint.api == "anthropic" else known_models.OPENAI
            warnings += filter(None, [known_models.model_doubt(self.name, endpoint.model, known)])
        try:
            self._endpoint(settings, model, self._declared(settings))
        except MissingKey as error:
            # Only a warning: the next provider of a chain may have one.
            warnings.append(f"{error.message}: {error.hint}")
        return warnings

    def endpoints(self, model: str, config: Mapping[str, Any]) -> Endpoints:
        settings = self._config.read(config)
        endpoint = _any_endpoint(settings, model, self._declared(settings))
        if not endpoint.base_url:
            raise ProviderUnusable(
                f"it calls {endpoint.shown}",
                hint="use a model on this machine, such as `ollama:qwen3-coder:30b`, or set `base_url`",
            )
        # Without variables: under `network: local` its client takes no proxy.
        return Endpoints((endpoint.base_url,))

    def sent_besides(self, config: Mapping[str, Any], schema: JSONObject | None) -> str:
        tool = "" if schema is None else msgspec.json.encode(schema).decode()
        return f"{self._config.read(config).system or SYSTEM}{tool}"

    def command(self, request: ExecuteRequest) -> Command:
        task, environment = self.task(request)
        key = (task.endpoint.key_env,) if task.endpoint.key_env else ()
        return Command(
            argv=program_argv(sys.executable, "run", *key),
            env=environment,
            stdin=msgspec.json.encode(task).decode(),
            timeout=self._config.read(request.config).timeout or None,
            secrets=secrets_in(environment, key, inherited=self._environ),
        )

    def task(self, request: ExecuteRequest) -> tuple[ModelTask, dict[str, str]]:
        """The task, and the environment of the program that does it, with the key of the endpoint."""
        config = self._config.read(request.config)
        endpoint = self._endpoint(config, request.model, {**request.environment, **self._declared(config)})
        endpoint = replace(endpoint, local=request.environment.get(NETWORK) == "local")
        key = (endpoint.key_env,) if endpoint.key_env else ()
        environment = agent_environment(self._environ, request, config.env, passes=(*config.pass_env, *key))
        # Unused credentials must not be visible to the model's commands.
        unused = {*KEYS.values(), *ADDRESSES.values(), TOKEN}.difference(key, config.pass_env, config.env)
        task = ModelTask(
            prompt=request.prompt,
            endpoint=endpoint,
            files=_files(request, config),
            system=config.system,
            resume=request.resume,
            schema=_schema(config.schema, request.workdir) if request.schema is None else request.schema,
            is_artifact=request.schema is not None,
            verdicts=request.verdicts,
            returns_items=request.returns_items,
            max_steps=config.max_steps,
            max_tokens=config.max_tokens,
            temperature=config.temperature,
            retries=config.retries,
            request_timeout=config.request_timeout,
            commands=CommandRules(config.allow, config.command_timeout),
            budget=request.budget,
            price=_price(config, request.model, endpoint),
        )
        self._refuse_secrets(task, environment, request)
        return task, {name: value for name, value in environment.items() if name not in unused}

    def _refuse_secrets(
        self, task: ModelTask, environment: Mapping[str, str], request: ExecuteRequest
    ) -> None:
        """Raises ProviderUnusable if a request without a key would take another secret to such a host: in its
        address or its text, or in a variable that its tools have."""
        endpoint = task.endpoint
        problem = host_problem(endpoint.base_url, self._environ) if endpoint.base_url else ""
        if not problem or endpoint.key_env:
            return
        hidden = Redactor(secrets_in(environment, inherited=self._environ))
        written = msgspec.json.encode(task).decode()
        if secrets_in(request.environment) or hidden.text(written) != written:
            raise ProviderUnusable(
                hidden.text(f"provider {self.name}: a secret in the prompt or the settings: {problem}"),
                hint=KEY_HOSTS_HINT,
            )

    def _declared(self, config: ApiConfig) -> dict[str, str]:
        return {**self._environ, **{name: as_text(value) for name, value in config.env.items()}}

    def _endpoint(self, config: ApiConfig, model: str, environ: Mapping[str, str]) -> Endpoint:
        """Raises ProviderUnusable also if the key must not be sent there."""
        endpoint = _named_endpoint(config, model, environ)
        problem = host_problem(endpoint.base_url, self._environ) if endpoint.base_url else ""
        if endpoint.key_env and problem:
            raise ProviderUnusable(
                f"provider {self.name}: the key in {endpoint.key_env}: {problem}", hint=KEY_HOSTS_HINT
            )
        return endpoint

    def interpret(self, exit: Exit) -> ExecuteResult:
        """By the program's last event; without one, by the exit status."""
        events = [event for line in exit.output.splitlines() if (event := decode(line)) is not None]
        begun = next((event for event in events if isinstance(event, SessionBegun)), None)
        ended = next((event for event in reversed(events) if isinstance(event, LoopEnded)), None)
        status = exit_status(exit)
        if ended is None:
            # An unfinished agent: what it said so far, for people.
            usage = Usage(model=begun.model, agent_session=begun.session) if begun else None
            lines = (
                describe(event) if (event := decode(line)) else line for line in exit.output.splitlines()
            )
            return ExecuteResult("\n".join(filter(None, lines)), status, exit.duration_ms, usage)
        if ended.failure is not None:
            return ExecuteResult(ended.text, status or 1, exit.duration_ms, ended.usage, ended.failure)
        return ExecuteResult(ended.text, status, exit.duration_ms, ended.usage)

    def progress(self, line: str) -> str:
        return describe(decode(line))


def _named_endpoint(config: ApiConfig, model: str, environ: Mapping[str, str]) -> Endpoint:
    return endpoint_of(
        model or config.model,
        environ,
        api=config.api,
        base_url=config.base_url,
        key_env=config.api_key_env,
    )


def _any_endpoint(config: ApiConfig, model: str, environ: Mapping[str, str]) -> Endpoint:
    """Also without a key."""
    keys = dict.fromkeys([*KEYS.values(), config.api_key_env], "any")
    return _named_endpoint(config, model, {**environ, **keys})


def _price(config: ApiConfig, model: str, endpoint: Endpoint) -> Price | None:
    """By the name as it is written, or without its server."""
    return config.prices.get(model or config.model) or config.prices.get(endpoint.model)


def _files(request: ExecuteRequest, config: ApiConfig) -> Files:
    """The model's tools can't write the pipeline's files, except for those shared with the agent."""
    here = os.path.dirname(request.result_path)
    own = [os.path.join(here, name) for name in (*ENGINES_OWN, SESSIONS)]
    artifact = request.artifact_path or os.path.join(here, "artifact.json")
    own += [os.path.join(here, f"attempt-{number}") for number in range(1, request.attempt + 1)]
    return Files(
        workspace=request.workdir,
        result=request.result_path,
        artifact=artifact if config.schema is not None or request.schema is not None else "",
        sessions=os.path.join(here, SESSIONS),
        protected=(
            os.path.join(request.workdir, RUNS),
            os.path.join(request.workdir, LOCKS),
            request.result_path,
            request.status_path,
            artifact,
            *own,
        ),
        writable=(here, request.progress_path) if request.progress_path else (here,),
    )


def _schema(given: dict[str, Any] | str | None, workdir: str) -> dict[str, Any] | None:
    if not isinstance(given, str):
        return given
    path = os.path.join(workdir, os.path.expanduser(given))
    try:
        content = read_project_file(workdir, path, MAX_SOURCE_BYTES)
        return msgspec.json.decode(content if content is not None else b"", type=dict[str, Any])
    except (StorageFailed, *NOT_JSON) as error:
        reason = error.message if isinstance(error, StorageFailed) else "it is missing or not a JSON object"
        raise ProviderUnusable(
            f"provider api: can't read the schema {path}: {reason}",
            hint="fix `schema` in the provider's config",
        ) from error


def _refuse_path(schema: Any) -> None:
    """The content of a readable schema is part of the plan instead of its path."""
    if isinstance(schema, str):
        raise ProviderUnusable(
            f"provider api: the schema {schema} is missing or not a JSON object",
            hint="fix `schema` in the provider's config: it is read when the run starts",
        )
