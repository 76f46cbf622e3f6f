"""The options of a start: what to run, and the overrides of the definition."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from agentforge.cli.background import cleaned_argument
from agentforge.cli.invocation import options_of
from agentforge.cli.output import note
from agentforge.model.plan import Overrides

if TYPE_CHECKING:
    from agentforge import Compiled, Engine
    from agentforge.model.facts import TmuxSessionCleaned


override_options = options_of(
    click.option(
        "-i", "--input", "inputs", multiple=True, metavar="PATH", help="Input file, folder or glob."
    ),
    click.option("--provider", metavar="NAME", help="Provider to use (overrides the definition)."),
    click.option("--model", metavar="NAME", help="Model to use (overrides the definition)."),
    click.option(
        "--provider-config",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Provider setting (overrides the definition). The value is YAML; a.b=1 sets b within a.",
    ),
    click.option("--context", metavar="TEXT", help="Text for ${CONTEXT} in every prompt."),
    click.option(
        "--command", "commands", multiple=True, metavar="KEY=CMD", help="Command for agents and checks."
    ),
)


skip_check_options = options_of(
    click.option(
        "--skip-check",
        "skipped",
        multiple=True,
        metavar="NAME",
        help="Skip this check; requires --reason.",
    ),
    click.option("--reason", metavar="TEXT", help="Why the checks are skipped; recorded in the log."),
)


def skipped_checks(options: dict[str, Any]) -> dict[str, str]:
    """Take the options of `skip_check_options` out of others: the reason for each check."""
    names, reason = options.pop("skipped"), options.pop("reason")
    if names and not (reason or "").strip():
        raise click.UsageError("--skip-check needs --reason TEXT: the log records why a check was skipped")
    if reason is not None and not names:
        raise click.UsageError("--reason says why checks are skipped: use it with --skip-check NAME")
    return dict.fromkeys(names, reason)


def skipped_arguments(skipped: Mapping[str, str]) -> list[str]:
    """As command-line arguments: one reason applies to all."""
    reasons = [f"--reason={reason}" for reason in dict.fromkeys(skipped.values())]
    return [*(f"--skip-check={name}" for name in skipped), *reasons]


def overrides_from(options: dict[str, Any]) -> Overrides:
    return Overrides(
        options["provider"],
        options["model"],
        options["context"],
        tuple(options["inputs"]),
        _commands(options["commands"]),
        config=_settings(options["settings"]),
    )


def to_arguments(options: dict[str, Any]) -> list[str]:
    """The options as command-line arguments, for another process of this program."""
    found = [f"--{name}={options[name]}" for name in ("provider", "model", "context") if options[name]]
    found += [f"--input={value}" for value in options["inputs"]]
    found += [f"--provider-config={value}" for value in options["settings"]]
    return found + [f"--command={value}" for value in options["commands"]]


def _settings(pairs: tuple[str, ...]) -> dict[str, Any]:
    if not pairs:
        return {}
    from agentforge import provider_settings

    return provider_settings(pairs)


def _commands(pairs: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        key, equals, command = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(
                f"must be KEY=CMD (as in test='pytest -q'), got '{pair}'", param_hint="--command"
            )
        found[key.strip()] = command
    return found


class RunOptions(Struct, frozen=True):
    session: str | None
    options: dict[str, Any]
    """Those of `override_options`."""
    pipeline: str | None = None
    stage: str | None = None
    count: int | None = None
    """How often to run the pipeline, or the maximum iterations of the stage."""
    force: bool = False
    recompile: bool = False
    is_resumed: bool = False
    record: bool = False
    trust: bool = False
    approve: bool = False
    skip_checks: dict[str, str] = {}

    def compiled(self, engine: "Engine") -> "Compiled":
        overrides = overrides_from(self.options)
        if self.stage is not None:
            return engine.compile(
                stage=self.stage, session=self.session, max_iterations=self.count, overrides=overrides
            )
        return engine.compile(
            self.pipeline, session=self.session, passes=self.count or 1, overrides=overrides
        )

    def recompiled(self, engine: "Engine") -> "Compiled | bool":
        """The new plan of a resumed run, or False if it keeps its own."""
        if not self.recompile or self.session is None:
            return False
        # The context given to a resumed run is added to its own, not put in its place.
        overrides = overrides_from({**self.options, "context": None})
        if self.stage is not None:
            return engine.recompile(self.session, overrides=replace(overrides, max_iterations=self.count))
        return engine.recompile(self.session, self.pipeline, overrides=overrides, passes=self.count)

    def arguments(self, project: str, session: str, cleaned: "TmuxSessionCleaned | None") -> list[str]:
        """The arguments of the same call in the background."""
        flags = {
            "--force": self.force,
            "--resume": self.is_resumed,
            "--recompile": self.recompile,
            "--record": self.record,
            "--trust": self.trust,
            "--yes": self.approve,
        }
        line = ["pipeline" if self.stage is None else "loop", "-C", project, f"--background={session}"]
        line.append("--foreground")
        line += [flag for flag, given in flags.items() if given]
        line += [*skipped_arguments(self.skip_checks), *cleaned_argument(cleaned)]
        count = [] if self.count is None else [str(self.count)]
        return [*line, *to_arguments(self.options), "--", self.stage or self.pipeline or "", session, *count]


def compile_and_warn(compile: "Callable[[Engine], Compiled]", engine: "Engine") -> "Compiled":
    compiled = compile(engine)
    show_warnings(compiled)
    return compiled


def show_warnings(compiled: "Compiled") -> None:
    if compiled.warnings:
        from agentforge.model.diagnostic import render

        note(render(compiled.warnings))
