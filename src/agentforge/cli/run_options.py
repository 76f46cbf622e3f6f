"""The options of starting and resuming, made of the rows of `model/run_options.py`, and what they say."""

import sys
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, cast, get_args

import click
from msgspec import Struct
from msgspec.structs import replace

from agentforge.cli.invocation import Decorated, options_of
from agentforge.cli.output import note
from agentforge.model.names import DEFAULT_PIPELINE
from agentforge.model.plan import Overrides
from agentforge.model.request import MAX_USER_REQUEST_BYTES
from agentforge.model.run_options import Argument, Options, OverrideOptions, arguments_of, overrides_of

if TYPE_CHECKING:
    from agentforge import Compiled, Engine


target_options = options_of(
    click.option(
        "-p",
        "--pipeline",
        metavar="PIPELINE|FILE",
        help=f"Pipeline file or name.  [default with a request: {DEFAULT_PIPELINE}]",
    ),
    click.option("-s", "--session", help="Name of the run.  [default: the pipeline's name and the time]"),
)


def options_for(kind: type[Any], without: Collection[str] = ()) -> Callable[[Decorated], Decorated]:
    """The options that have a help text, but those named. Pairs such as KEY=CMD and lists can be given
    several times."""
    found = []
    for name, row in arguments_of(kind).items():
        if row.help and name not in without:
            found.append(_option(name, row, kind.__annotations__[name].__origin__))
        # Not a row of its own: it says why for all the checks and stages that are skipped.
        if name == "skip":
            why = "Why the checks and stages are skipped; recorded in the log."
            found.append(click.option("--reason", metavar="TEXT", help=why))
    return options_of(*found)


def _option(name: str, row: Argument, type: Any) -> Callable[[Decorated], Decorated]:
    flags = row.flags or (f"--{name.replace('_', '-')}",)
    if type is bool:
        return click.option(*flags, name, is_flag=True, help=row.help)
    if type == bool | None:
        return click.option(*flags, name, default=None, help=row.help)
    if row.default is not None:
        return click.option(*flags, name, multiple=True, metavar=row.metavar, help=row.help)
    read = from_stdin if name == "request" else None
    return click.option(
        *flags, name, type=get_args(type)[0], metavar=row.metavar, help=row.help, callback=read
    )


def from_stdin(
    _context: click.Context | None, _option: click.Parameter | None, value: str | None
) -> str | None:
    """`-` is what stdin has; one byte more than a request may have, so that a longer one is refused."""
    if value != "-":
        return value
    return sys.stdin.buffer.read(MAX_USER_REQUEST_BYTES + 1).decode("utf-8", "replace").rstrip("\n")


def taken(kind: type[Options], options: dict[str, Any]) -> Options:
    """Take the options of `options_for(kind)` out of others, as arguments of `Engine`."""
    found = {name: options.pop(name) for name in arguments_of(kind) if name in options}
    if "commands" in found:
        found["commands"] = _commands(found["commands"])
    if pairs := found.get("provider_config"):
        from agentforge import provider_settings

        found["provider_config"] = provider_settings(pairs)
    elif pairs is not None:
        found["provider_config"] = {}
    if "skip" in found:
        reason = options.pop("reason")
        given = [flag for name, flag in (("skip", "--skip"), ("skip_checks", "--skip-check")) if found[name]]
        if given and not (reason or "").strip():
            raise click.UsageError(f"{given[0]} needs --reason TEXT: the log records why it was skipped")
        if reason is not None and not given:
            flags = "--skip-check NAME or --skip STAGE"
            raise click.UsageError(f"--reason says why something is skipped: use it with {flags}")
        for name in ("skip", "skip_checks"):
            found[name] = dict.fromkeys(found[name], reason or "")
    return cast(Options, found)


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


def options_given(context: click.Context) -> dict[str, str]:
    """The options of this call, without those that all commands have: how each is spelled, by its name."""
    return {
        name: option.opts[-1] if context.params[name] is not False else option.secondary_opts[-1]
        for option in context.command.params
        if isinstance(option, click.Option) and not option.hidden
        # Zero is given, too.
        if (name := option.name) is not None and context.params.get(name) not in (None, "", ())
        if context.params[name] is not False or (option.secondary_opts and option.default is None)
    }


# The process in the background gets what was typed, not what was read from it: so an option needs no second
# spelling, and both processes read it with the same code.
def repeated(context: click.Context, *, trusted: bool) -> list[str]:
    """These options for the same command in the background. `trusted`: the person was asked since."""
    found = ["--trust"] if trusted else []
    for name, flag in options_given(context).items():
        value = context.params[name]
        if name in ("foreground", "detach", "trust"):
            continue
        if isinstance(value, bool):
            found.append(flag)
        else:
            found += [f"{flag}={each}" for each in (value if isinstance(value, tuple) else (value,))]
    return found


class Definition(Struct, frozen=True):
    """A pipeline or a stage to run, as the command line names it."""

    session: str | None
    overrides: Overrides
    pipeline: str | None = None
    stage: str | None = None
    count: int | None = None
    """How often to run the pipeline, or the maximum iterations of the stage."""

    def compiled(self, engine: "Engine") -> "Compiled":
        if self.stage is not None:
            compiled = engine.compile(
                stage=self.stage, session=self.session, max_iterations=self.count, overrides=self.overrides
            )
        else:
            compiled = engine.compile(
                self.pipeline, session=self.session, passes=self.count or 1, overrides=self.overrides
            )
        show_warnings(compiled)
        return compiled

    def recompiled(self, engine: "Engine", session: str) -> "Compiled":
        """The new plan of a resumed run."""
        # The context given to a resumed run is added to its own, not put in its place.
        overrides = replace(self.overrides, context=None)
        if self.stage is not None:
            return engine.recompile(session, overrides=replace(overrides, max_iterations=self.count))
        return engine.recompile(session, self.pipeline, overrides=overrides, passes=self.count)


def definition_of(options: dict[str, Any], session: str | None, **what: Any) -> Definition:
    """Takes the overrides out of the options. `what`: the pipeline or the stage, and the count."""
    return Definition(session, overrides_of(taken(OverrideOptions, options)), **what)


def show_warnings(compiled: "Compiled") -> None:
    if compiled.warnings:
        from agentforge.model.diagnostic import render

        note(render(compiled.warnings))
