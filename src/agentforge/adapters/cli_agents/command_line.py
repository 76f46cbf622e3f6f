"""Builds the command line of an agent's CLI for one request, and validates CLI descriptions."""

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from msgspec import Struct, field

from agentforge.adapters.cli_agents.description import JSON_LINES, AgentCli, Words
from agentforge.adapters.cli_agents.schema_argument import schema_argument
from agentforge.adapters.environment import SettingValue, as_text
from agentforge.adapters.known_models import model_doubt
from agentforge.model.diagnostic import did_you_mean, is_misspelled
from agentforge.model.errors import ProviderUnusable
from agentforge.model.spending import DIGITS, Amount
from agentforge.ports.provider import ExecuteRequest

PLACEHOLDER = re.compile(r"\{(model|effort|session|prompt|retries|model_provider|schema|budget)\}")
MAX_PATTERN_CHARS = 4096
TEMPLATES = {
    "prompt_arguments": {"prompt"},
    "model_arguments": {"model"},
    "effort_arguments": {"effort"},
    "resume_arguments": {"session"},
    "retry_arguments": {"retries", "model_provider"},
    "schema_arguments": {"schema"},
    "budget_arguments": {"budget"},
}
"""The placeholders that each template accepts."""


class CliConfig(Struct, frozen=True):
    """The settings of a CLI in a stage."""

    command: str = ""
    """Overrides the program: a name, or a path relative to the working folder."""
    timeout: float | None = None
    """Seconds for one attempt; 0 means no limit."""
    idle_timeout: float | None = None
    """Seconds without any output; 0 means no limit."""
    env: dict[str, SettingValue] = field(default_factory=dict)
    pass_env: tuple[str, ...] = ()
    """Names or patterns of additional inherited variables to pass to the agent."""
    retries: int | None = None
    """How often the CLI may retry by itself."""
    arguments: tuple[SettingValue, ...] = ()
    """Additional command-line arguments."""
    permissions: tuple[SettingValue, ...] | None = None
    """Overrides the arguments that grant all permissions."""
    effort: str = ""
    model_provider: str = ""
    """For codex: the provider to use, from codex's own config."""


def texts(values: Iterable[Any]) -> tuple[Any, ...]:
    """Convert YAML numbers and booleans to command-line arguments."""
    return tuple(as_text(value) if isinstance(value, SettingValue) else value for value in values)


def permissions_of(cli: AgentCli, config: CliConfig) -> Words:
    return cli.permission_arguments if config.permissions is None else texts(config.permissions)


def retries_of(cli: AgentCli, config: CliConfig) -> int | None:
    return cli.retries if config.retries is None else config.retries


class ModelChoice(Struct, frozen=True):
    """The model, by the CLI's name for it, and the reasoning effort."""

    model: str
    effort: str


def choose_model(cli: AgentCli, requested: str, effort: str, environment: Mapping[str, str]) -> ModelChoice:
    """The model of the request; falls back to the environment, then to the CLI's default."""
    model, suffix = split_model(
        cli, requested or environment.get(cli.model_variable, "") or cli.default_model
    )
    effort = suffix or _effort(cli, effort, environment)
    return ModelChoice(cli.aliases.get(model, model), effort)


def model_warning(cli: AgentCli, requested: str, environment: Mapping[str, str]) -> str:
    """What is unknown about a model, with the nearest name, or ""; the CLI decides."""
    model = split_model(cli, requested)[0]
    head, _, suffix = model.rpartition(":")
    if head and is_misspelled(suffix, cli.efforts):
        return f"`model`: unknown effort in `{model}`; {did_you_mean(suffix, cli.efforts)}"
    is_open = not cli.models or any(environment.get(name) for name in cli.any_model_with)
    return "" if not model or is_open else model_doubt(cli.name, model, (*cli.models, *cli.aliases))


def split_model(cli: AgentCli, model: str) -> tuple[str, str]:
    """Split `MODEL:EFFORT`; a colon before anything else belongs to the model's name."""
    head, _, suffix = model.rpartition(":")
    return (head, suffix) if head and suffix in cli.efforts else (model, "")


def _effort(cli: AgentCli, requested: str, environment: Mapping[str, str]) -> str:
    source = "`effort`" if requested else cli.effort_variable
    effort = requested or environment.get(cli.effort_variable, "") or cli.default_effort
    if not effort or effort in cli.efforts:
        return effort
    if not cli.efforts:
        raise ProviderUnusable(
            f"provider {cli.name} doesn't support a reasoning effort, but {source} is {effort!r}",
            hint="remove `effort`",
        )
    raise ProviderUnusable(
        f"{source}: invalid reasoning effort {effort!r}", hint=f"use one of {', '.join(cli.efforts)}"
    )


def build_arguments(cli: AgentCli, config: CliConfig, request: ExecuteRequest, chosen: ModelChoice) -> Words:
    """All arguments after the program."""
    retries = retries_of(cli, config)
    values = {
        "model": chosen.model,
        "effort": chosen.effort,
        "session": request.resume,
        "retries": "" if retries is None else str(retries),
        "model_provider": config.model_provider,
        "schema": schema_argument(request.schema),
        "budget": _budget(cli, config, request.budget),
    }
    return (
        *cli.arguments,
        *permissions_of(cli, config),
        *_filled(cli.model_arguments, values),
        *_filled(cli.effort_arguments, values),
        *_filled(cli.retry_arguments, values),
        *_filled(cli.schema_arguments, values),
        *texts(config.arguments),
        # After those of the stage, which may set one, too: the last one counts.
        *_filled(cli.budget_arguments, values),
        # At the end: some CLIs take the session as a command of its own, and the prompt by its position.
        *_filled(cli.resume_arguments, values),
        *_prompt_words(cli, request),
    )


def _filled(template: Words, values: Mapping[str, str]) -> Words:
    """The template with its values, or () if a value is missing."""
    names = {name for word in template for name in PLACEHOLDER.findall(word)}
    if any(not values.get(name) for name in names):
        return ()
    return tuple(PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in template)


def _budget(cli: AgentCli, config: CliConfig, given: Amount | None) -> str:
    """The lower one of the budget of the request and of the one that its settings pass to the CLI; "" if the
    request has none."""
    if given is None or given.cost_usd is None:
        return ""
    own = own_budget(cli, config)
    lowest = given.cost_usd if own is None else min(own, given.cost_usd)
    # Not every CLI reads 1e-05.
    return f"{lowest:.{DIGITS}f}".rstrip("0").removesuffix(".")


def own_budget(cli: AgentCli, config: CliConfig) -> float | None:
    """The budget that its description or the settings of the stage pass to it."""
    option, found = cli.budget_arguments[0].partition("=")[0] if cli.budget_arguments else "", None
    words = (*cli.arguments, *permissions_of(cli, config), *texts(config.arguments), "")
    for word, following in pairwise(words):
        name, equals, value = word.partition("=")
        if option and name == option:
            try:
                found = float(value if equals else following)
            except ValueError:
                continue  # The CLI refuses it.
    return found if found is not None and found > 0 else None


def whole_prompt(cli: AgentCli, request: ExecuteRequest) -> str:
    has_schema = bool(cli.schema_arguments and schema_argument(request.schema))
    return request.prompt + (cli.schema_suffix if has_schema else "") + cli.prompt_suffix


def _prompt_words(cli: AgentCli, request: ExecuteRequest) -> Words:
    template = cli.prompt_arguments
    match cli.prompt:
        case "stdin":
            return template or ()
        case "argument":
            given = whole_prompt(cli, request)
        case "file":
            given = request.prompt_path
            if not given:
                raise ProviderUnusable(
                    f"provider {cli.name}: `prompt: file` is set, but the request has no prompt file",
                    hint="set `prompt_path` in the request, or use `prompt: stdin`",
                )
    template = ("{prompt}",) if template is None else template
    return tuple(word.replace("{prompt}", given) for word in template)


class Problem(NamedTuple):
    key: str
    message: str
    hint: str


def validate_cli(cli: AgentCli, formats: Collection[str]) -> None:
    """Raises ProviderUnusable for the first problem."""
    for problem in problems(cli, formats):
        raise ProviderUnusable(f"provider {cli.name}: {problem.message}", hint=problem.hint)


def problems(cli: AgentCli, formats: Collection[str]) -> Iterator[Problem]:
    """`formats`: the names that `output` accepts."""
    if cli.output not in formats:
        hint = f"use one of {', '.join(formats)}"
        yield Problem("output", f"unknown output format {cli.output!r}", hint)
    if cli.fields != type(cli.fields)() and cli.output != JSON_LINES:
        yield Problem(
            "fields", f"`fields` requires JSON lines, not output {cli.output!r}", "add `output: json_lines`"
        )
    if cli.retries is not None and cli.retries < 0:
        yield Problem("retries", f"`retries` must be 0 or more, got {cli.retries}", "use 0 or more")
    if cli.efforts and not cli.effort_arguments:
        hint = "such as `effort_arguments: [--effort, '{effort}']`"
        yield Problem("efforts", "`efforts` requires `effort_arguments`", hint)
    yield from _placeholders(cli)
    yield from _patterns(cli)


def _placeholders(cli: AgentCli) -> Iterator[Problem]:
    for key, known in TEMPLATES.items():
        words = getattr(cli, key) or ()
        found = {name for word in words for name in PLACEHOLDER.findall(word)}
        if found - known:
            unknown = ", ".join(f"{{{name}}}" for name in sorted(found - known))
            known_names = ", ".join(f"{{{name}}}" for name in sorted(known))
            yield Problem(key, f"`{key}` doesn't support {unknown}", f"use {known_names}")
        needed = key != "prompt_arguments" or cli.prompt != "stdin"
        if words and needed and not found & known:
            known_names = " or ".join(f"{{{name}}}" for name in sorted(known))
            yield Problem(key, f"`{key}` must contain {known_names}", "add the placeholder to the arguments")


def _patterns(cli: AgentCli) -> Iterator[Problem]:
    for key in ("error_patterns", "lost_session_patterns", "failures"):
        for pattern in getattr(cli, key):
            try:
                # What later versions of Python may read differently is an error, not a warning.
                with warnings.catch_warnings():
                    warnings.simplefilter("error", FutureWarning)
                    re.compile(pattern[: MAX_PATTERN_CHARS + 1])
            except (re.error, RecursionError, OverflowError, FutureWarning) as error:
                shown = pattern if len(pattern) <= 80 else f"{pattern[:80]}…"
                yield Problem(key, f"`{key}`: invalid regular expression {shown!r}: {error}", "fix it")
            if len(pattern) > MAX_PATTERN_CHARS:
                message = f"`{key}`: a pattern is longer than {MAX_PATTERN_CHARS} characters"
                yield Problem(key, message, "shorten it")
