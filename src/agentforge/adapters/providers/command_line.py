"""The command line by which an agent's CLI is called for one request."""

import re
from collections.abc import Mapping

from msgspec import Struct

from agentforge.adapters.providers.agent_cli import AgentCli, Words
from agentforge.model.errors import ProviderUnusable
from agentforge.ports.provider import ExecuteRequest

PLACEHOLDER = re.compile(r"\{(model|effort|session|prompt|retries|model_provider)\}")


class Chosen(Struct, frozen=True):
    """The model to ask for, as the CLI calls it, and how hard it is to think."""

    model: str
    effort: str
    warning: str = ""


def chosen_model(cli: AgentCli, wanted: str, effort: str, environment: Mapping[str, str]) -> Chosen:
    """What the request wants, or else what the environment or the CLI has."""
    model, suffix = taken_apart(cli, wanted or environment.get(cli.model_variable, "") or cli.default_model)
    effort = suffix or _effort(cli, effort, environment)
    doubt = f"model {model!r} isn't known to work (known: {', '.join(cli.models)})"
    known = not model or not cli.models or model in cli.models
    return Chosen(cli.aliases.get(model, model), effort, "" if known else doubt)


def taken_apart(cli: AgentCli, model: str) -> tuple[str, str]:
    """`M:E` as model and effort; a colon before anything else belongs to the model's name."""
    head, _, suffix = model.rpartition(":")
    return (head, suffix) if head and suffix in cli.efforts else (model, "")


def _effort(cli: AgentCli, wanted: str, environment: Mapping[str, str]) -> str:
    said_by = "`effort`" if wanted else cli.effort_variable
    effort = wanted or environment.get(cli.effort_variable, "") or cli.default_effort
    if not effort or effort in cli.efforts:
        return effort
    if not cli.efforts:
        raise ProviderUnusable(
            f"provider {cli.name} takes no effort of reasoning, but {said_by} is {effort!r}",
            hint="leave `effort` out",
        )
    raise ProviderUnusable(
        f"{said_by} is no effort of reasoning: {effort!r}", hint=f"use {', '.join(cli.efforts)}"
    )


class Extras(Struct, frozen=True):
    """What the stage's config says about the command line."""

    arguments: Words = ()
    permissions: Words | None = None
    """Instead of the CLI's own."""
    retries: int | None = None
    model_provider: str = ""


def words(cli: AgentCli, request: ExecuteRequest, chosen: Chosen, extras: Extras) -> Words:
    """Everything after the program."""
    permissions = cli.permission_arguments if extras.permissions is None else extras.permissions
    values = {
        "model": chosen.model,
        "effort": chosen.effort,
        "session": request.resume,
        "retries": "" if extras.retries is None else str(extras.retries),
        "model_provider": extras.model_provider,
    }
    return (
        *cli.arguments,
        *permissions,
        *_filled(cli.model_arguments, values),
        *_filled(cli.effort_arguments, values),
        *_filled(cli.retry_arguments, values),
        *extras.arguments,
        *_filled(cli.resume_arguments, values),
        *_prompt_words(cli, request),
    )


def _filled(template: Words, values: Mapping[str, str]) -> Words:
    """The words with their values; none at all if one of the values is missing."""
    names = {name for word in template for name in PLACEHOLDER.findall(word)}
    if any(not values.get(name) for name in names):
        return ()
    return tuple(PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in template)


def _prompt_words(cli: AgentCli, request: ExecuteRequest) -> Words:
    template = cli.prompt_arguments
    match cli.prompt:
        case "stdin":
            return template or ()
        case "argument":
            given = request.prompt + cli.prompt_suffix
        case "file":
            given = request.prompt_path
            if not given:
                raise ProviderUnusable(
                    f"provider {cli.name}: `prompt: file`, but the request names no prompt file",
                    hint="set `prompt_path` in the request, or use `prompt: stdin`",
                )
    template = ("{prompt}",) if template is None else template
    return tuple(word.replace("{prompt}", given) for word in template)
