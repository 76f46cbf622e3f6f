"""What is to run, from when, with which options, some of which outrank what files say."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from agentforge.cli.invocation import options_of
from agentforge.cli.output import note
from agentforge.model.plan import Overrides

if TYPE_CHECKING:
    from agentforge.definition.compiler import Compiled
    from agentforge.model.facts import TmuxSessionCleaned
    from agentforge.sdk.engine import Engine


overriding = options_of(
    click.option("-i", "--input", "inputs", multiple=True, metavar="PATH", help="A file, folder or glob."),
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
    click.option("--command", "commands", multiple=True, metavar="KEY=CMD", help="A command for the agents."),
)


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
    from agentforge.definition.provider_settings import settings_from_pairs

    return settings_from_pairs(pairs)


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


class Wanted(Struct, frozen=True):
    session: str | None
    options: dict[str, Any]
    """Those of `overriding`."""
    pipeline: str | None = None
    stage: str | None = None
    count: int | None = None
    """How often the pipeline is to run, or the stage at most."""
    force: bool = False
    recompile: bool = False
    is_resumed: bool = False
    record: bool = False

    def compiled(self, engine: "Engine") -> "Compiled":
        asked = overrides_of(self.options)
        if self.stage is not None:
            return engine.compile(
                stage=self.stage, session=self.session, max_iterations=self.count, overrides=asked
            )
        return engine.compile(self.pipeline, session=self.session, passes=self.count or 1, overrides=asked)

    def recompiled(self, engine: "Engine") -> "Compiled | bool":
        """The plan by which a resumed run is to go on; none if it keeps its own."""
        if not self.recompile or self.session is None:
            return False
        # What is said to a run that goes on is added to its context, not put in its place.
        asked = overrides_of({**self.options, "context": None})
        if self.stage is not None:
            return engine.recompile(self.session, overrides=replace(asked, max_iterations=self.count))
        return engine.recompile(self.session, self.pipeline, overrides=asked, passes=self.count)

    def arguments(self, project: str, session: str, cleaned: "TmuxSessionCleaned | None") -> list[str]:
        """The same call, as it is made in the background."""
        flags = {
            "--force": self.force,
            "--resume": self.is_resumed,
            "--recompile": self.recompile,
            "--record": self.record,
        }
        line = ["pipeline" if self.stage is None else "loop", "-C", project, "--foreground"]
        line += [flag for flag, given in flags.items() if given]
        if cleaned is not None:
            line.append(f"--cleaned-tmux={cleaned.name}:{cleaned.pid or ''}")
        count = [] if self.count is None else [str(self.count)]
        return [*line, *as_arguments(self.options), "--", self.stage or self.pipeline or "", session, *count]


def compile_shown(compile: "Callable[[Engine], Compiled]", engine: "Engine") -> "Compiled":
    compiled = compile(engine)
    show_warnings(compiled)
    return compiled


def show_warnings(compiled: "Compiled") -> None:
    if compiled.warnings:
        from agentforge.definition.diagnostics import render

        note(render(compiled.warnings))
