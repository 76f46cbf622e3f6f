"""The options that outrank what files say."""

from collections.abc import Callable
from typing import Any

import click

from agentforge.cli.invocation import Decorated
from agentforge.model.plan import Overrides


def overriding(command: Decorated) -> Decorated:
    options: tuple[Callable[[Decorated], Decorated], ...] = (
        click.option(
            "-i", "--input", "inputs", multiple=True, metavar="PATH", help="A file, folder or glob."
        ),
        click.option("--provider", metavar="NAME", help="Who does the work, above all that files say."),
        click.option("--model", metavar="NAME", help="The model, above all that files say."),
        click.option(
            "--provider-config",
            "settings",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of the provider's own, above all that files say; the value is YAML, and a.b=1 "
            "sets b within a.",
        ),
        click.option("--context", metavar="TEXT", help="Text for ${CONTEXT} in every prompt."),
        click.option(
            "--command", "commands", multiple=True, metavar="KEY=CMD", help="A command for the agents."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def overrides_of(options: dict[str, Any]) -> Overrides:
    return Overrides(
        options["provider"],
        options["model"],
        options["context"],
        tuple(options["inputs"]),
        _commands(options["commands"]),
        config=_settings(options["settings"]),
    )


def as_arguments(options: dict[str, Any]) -> list[str]:
    """The same options as they are typed, for another process of this program."""
    found = [f"--{name}={options[name]}" for name in ("provider", "model", "context") if options[name]]
    found += [f"--input={value}" for value in options["inputs"]]
    found += [f"--provider-config={value}" for value in options["settings"]]
    return found + [f"--command={value}" for value in options["commands"]]


def _settings(pairs: tuple[str, ...]) -> dict[str, Any]:
    if not pairs:
        return {}
    from agentforge.definition.provider_settings import settings_of

    return settings_of(pairs)


def _commands(pairs: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        key, equals, command = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(
                f"'{pair}' isn't KEY=CMD, as in test='pytest -q'", param_hint="--command"
            )
        found[key.strip()] = command
    return found
