"""The program `agentforge`: finds the command, loads only that one, reports every error.

`agent-pipelines` is the same program under the name of the shell engine, which accepts flags anywhere in
the line.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from agentforge.cli import exit_codes
from agentforge.cli.invocation import HintedUsageError, Invocation, engine_options, invocation
from agentforge.cli.output import drop_stdout, echo, show_error, show_unexpected, show_usage_error
from agentforge.model.errors import AgentForgeError
from agentforge.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

OURS = frozenset({"-C", "--project", "--log-level", "--log-format"})
"""Options of the program itself that take a value; they may stay where they are."""
GROUPS: dict[str, dict[str, str]] = {
    "Run": {
        "run": "run:run",
        "pipeline": "run:pipeline",
        "loop": "run:loop",
        "start": "design:start",
        "design": "design:design",
        "implement": "design:implement",
        "fix": "design:fix",
        "test": "design:write_tests",
        "resume": "resume:resume",
        "recover": "recover:recover",
        "replay": "replay:replay",
        "demo": "demo:demo",
    },
    "Watch": {
        "status": "status:status",
        "list": "status:list_runs",
        "top": "status:top",
        "tail": "tail:tail",
        "logs": "tail:logs",
        "attach": "tail:attach",
        "show": "show:show",
        "diff": "show:diff",
    },
    "Decide": {
        "inbox": "inbox:inbox",
        "approve": "answer:approve",
        "reject": "answer:reject",
        "answer": "answer:answer",
        "steer": "controls:steer",
        "pause": "controls:pause",
        "cancel": "controls:cancel",
        "abort": "controls:abort",
    },
    "Define": {
        "init": "init:init",
        "lint": "lint:lint",
        "dry-run": "dry_run:dry_run",
        "graph": "definitions:graph",
        "config": "config:config",
        "stages": "definitions:stages",
        "pipelines": "definitions:pipelines",
        "providers": "doctor:providers",
        "schema": "definitions:schema",
    },
    "Maintain": {
        "doctor": "doctor:doctor",
        "completion": "program:completion",
        "rm": "removal:rm",
        "clean": "removal:clean",
        "log": "log:log",
        "migrate": "migrate:migrate",
        "version": "program:version",
        "help": "program:help_",
    },
}
"""The commands in the order of --help, each with the place in `cli/commands` that defines it. A module is
imported only when its command is used or described."""
COMMANDS = {name: place for group in GROUPS.values() for name, place in group.items()}
ALIASES = {"runs": "list"}
SHELL_ENGINE_NAME = "agent-pipelines"
NEWER = ("test",)
"""Commands that the shell engine's name doesn't have: there, the word is that of a stage."""
EPILOG = "\b\nExit status:\n" + "\n".join(
    f"  {code:>3}  {words}" for code, words in exit_codes.MEANINGS.items()
)


def move_flags_behind_command(arguments: Sequence[str], is_command: Callable[[str], bool]) -> list[str]:
    """The arguments, with the shell engine's flags moved behind the first word.

    `--resume SESSION` without a command resumes a run.
    """
    # The shell engine took its flags anywhere in the line; Click takes those of a command only behind its
    # name.
    kept: list[str] = []
    moved: list[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        name, equals, _ = rest[0].partition("=")
        is_ours = name in OURS
        option = None if is_ours else _options_of_stages().get(name)
        taken = 2 if not equals and (is_ours or (option and not option.is_flag)) else 1
        (moved if option else kept).extend(rest[:taken])
        rest = rest[taken:]
    if not moved or not rest:
        return list(arguments)
    if "--resume" in moved and not is_command(rest[0]):
        return [*kept, "resume", *(flag for flag in moved if flag != "--resume"), *rest]
    return [*kept, rest[0], *moved, *rest[1:]]


def _options_of_stages() -> dict[str, click.Option]:
    """By their names; without those that the program itself has."""
    from agentforge.cli.commands.run import loop

    own = {param.name for param in app.params}
    options = (param for param in loop.params if isinstance(param, click.Option) and not param.hidden)
    return {
        name: option
        for option in options
        if option.name not in own
        for name in (*option.opts, *option.secondary_opts)
    }


class Verbs(click.Group):
    """Loads a command only when it is used or described."""

    places: Mapping[str, str] = {}
    """Of the commands, in `cli/commands`."""
    aliases: Mapping[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        where = self.places.get(self.aliases.get(cmd_name, cmd_name))
        if where is None or (cmd_name in NEWER and ctx.find_root().info_name == SHELL_ENGINE_NAME):
            return None
        module, _, name = where.partition(":")
        command: click.Command = getattr(import_module(f"agentforge.cli.commands.{module}"), name)
        if ctx.resilient_parsing:
            from agentforge.cli.completion import complete_names

            complete_names(command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Errors in the arguments are printed as JSON, too; they come before Click has read this option.
        invocation(ctx).as_json = "--json" in args
        return super().parse_args(ctx, args)


class Commands(Verbs):
    """Commands take precedence over stage names; any other word that names a stage runs that stage."""

    places = COMMANDS
    aliases = ALIASES

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        from agentforge.cli.completion import names_for, stages

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        names = [CompletionItem(name) for name in COMMANDS if name.startswith(incomplete)]
        return [*names, *names_for(ctx, stages, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        columns = max(map(len, COMMANDS))
        for group, names in GROUPS.items():
            found = [(name.ljust(columns), self.get_command(ctx, name)) for name in names]
            with formatter.section(f"{group} commands"):
                formatter.write_dl(
                    [
                        (name, command.get_short_help_str(formatter.width))
                        for name, command in found
                        if command
                    ]
                )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = ctx.obj or Invocation()
        if args and args[0].startswith("-"):
            args = move_flags_behind_command(
                args, lambda word: word in COMMANDS or word in _stages(ctx, args)
            )
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = invocation(ctx).word = args[0]
        command = self.get_command(ctx, word)
        if command is not None:
            return command.name, command, args[1:]
        stages = _stages(ctx, args)
        if word in stages:
            loop = self.get_command(ctx, "loop")
            return "loop", loop, args
        if ctx.resilient_parsing:
            return None, None, args
        raise _unknown(ctx, word, stages)


def _stages(ctx: click.Context, args: Sequence[str]) -> list[str]:
    from agentforge import Definitions

    # Which stages there are depends on the project, and Click has not read its option yet.
    found = invocation(ctx)
    for word, after in zip(args, [*args[1:], ""], strict=True):
        if word in ("-C", "--project"):
            found.project = after
        elif word.startswith("--project="):
            found.project = word.partition("=")[2]
    return Definitions(found.root, os.environ).stage_names()


def _unknown(ctx: click.Context, word: str, stages: Sequence[str]) -> click.UsageError:
    from agentforge.model.diagnostic import did_you_mean
    from agentforge.views.text import one_line

    name = invocation(ctx).name
    hint = did_you_mean(word, [*COMMANDS, "runs", *stages])
    if word == "test":
        # The shell engine's command for running its tests.
        hint = f"`{name} lint` and `{name} dry-run` check pipelines; MOCK_MODE=true runs them without agents"
    hint = hint or f"`{name} --help` lists the commands, `{name} stages` the stages"
    return HintedUsageError(f"'{one_line(word, 60)}' is neither a command nor a stage", hint, ctx)


@click.group(
    cls=Commands,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="agentforge")
@engine_options
def app() -> None:
    """Run coding agents in durable pipelines: validated, resumable after any crash, never billed twice.

    `agentforge STAGE [SESSION] [MAX]` runs a single stage, `agentforge run -p FILE` a pipeline.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    given = sys.argv[1:] if arguments is None else arguments
    sys.exit(call(list(given), sys.argv[0]))


def call(arguments: list[str], path: str = "agentforge") -> int:
    """Run one command and return its exit status. `path`: by which the program was called."""
    is_shell_engine_name = os.path.basename(path) == SHELL_ENGINE_NAME
    seen = Invocation(SHELL_ENGINE_NAME if is_shell_engine_name else "agentforge", path)
    return call_program(app, arguments, seen)


def call_program(app: click.Group, arguments: list[str], seen: Invocation) -> int:
    """Run one command of a program, and report every error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A character that the terminal's encoding lacks must not end a run.
            stream.reconfigure(errors="replace")
    if seen.completion_variable in os.environ:
        # A shell shows what is printed: errors would be in the way.
        with suppress(Exception):
            app.main(arguments, seen.name, standalone_mode=False, obj=seen)
        return exit_codes.COMPLETED
    try:
        return _called(app, arguments, seen)
    except click.exceptions.NoArgsIsHelpError as error:
        echo(*error.format_message().split("\n"))
        # The shell engine exited with 1 when it was called without arguments.
        return exit_codes.FAILED if seen.name == SHELL_ENGINE_NAME and not arguments else exit_codes.USAGE
    except click.ClickException as error:
        return show_usage_error(error, as_json=seen.as_json, program=_program(seen), word=seen.word)
    except AgentForgeError as error:
        _record_failure(seen, error)
        return show_error(error, as_json=seen.as_json, program=_program(seen))
    except (click.Abort, KeyboardInterrupt):
        return exit_codes.SIGNAL + 2
    except BrokenPipeError:
        # The reader of our output closed the pipe.
        drop_stdout()
        return exit_codes.COMPLETED
    except Exception as error:
        _record_failure(seen, AgentForgeError(f"unexpected {type(error).__name__}: {error}"))
        return show_unexpected(error, as_json=seen.as_json)


def _program(seen: Invocation) -> Callable[[str], str]:
    """How to call a command of the program again; the error may be about the project itself."""
    try:
        seen.program  # noqa: B018 - it may raise
    except (AgentForgeError, OSError):
        return seen.name_of
    return seen.program_of


def _record_failure(seen: Invocation, error: AgentForgeError) -> None:
    """The terminal of a run in the background is gone when it ends."""
    if seen.background is not None:
        from agentforge import Background

        with suppress(Exception):
            Background(seen.runs).record_failure(seen.background, error)


def _called(app: click.Group, arguments: list[str], seen: Invocation) -> int:
    if os.name != "posix":
        raise AgentForgeError("AgentForge needs Linux or macOS", hint="use it inside WSL")
    outcome: Any = app.main(arguments, seen.name, standalone_mode=False, obj=seen)
    return outcome if isinstance(outcome, int) else exit_codes.COMPLETED


if __name__ == "__main__":
    main()
