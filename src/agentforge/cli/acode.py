"""The program `acode`: the same as `agentforge`, with the commands and the lines of a plan, execute, verify,
review loop."""

import os
import re
import sys
from copy import copy

import click

from agentforge.cli.invocation import ACODE, HintedUsageError, Invocation, engine_options, invocation
from agentforge.cli.main import COMMANDS, EPILOG, Verbs, call_program
from agentforge.version import __version__

VERBS: dict[str, str] = {
    "run": "acode:run",
    "status": "acode:status",
    "resume": "resume:resume",
    "pause": "controls:pause",
    "cancel": "controls:cancel",
    "review": "acode:review",
    "metrics": "acode:metrics",
    "session": "acode:session",
    "config": "config:config",
}
"""The commands in the order of --help, each with the place in `cli/commands` that defines it."""
SHARED = frozenset({"status", "resume", "pause", "cancel", "config"})
"""Those that stand for the command of `agentforge` with that name."""
_NAMED = re.compile(rf"\bagentforge(?= (?:{'|'.join(sorted(SHARED))})\b)")


def _described(command: click.Command) -> click.Command:
    """A copy whose help names the commands of this program: `agentforge` has some of them, too."""
    command = copy(command)
    command.help = _NAMED.sub(ACODE, command.help or "")
    if isinstance(command, click.Group):
        command.commands = {name: _described(inner) for name, inner in command.commands.items()}
    return command


class AcodeVerbs(Verbs):
    places = VERBS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        return _described(command) if command else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = ctx.obj or _invocation()
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = invocation(ctx).word = args[0]
        if ctx.resilient_parsing or word in VERBS:
            return super().resolve_command(ctx, args)
        from agentforge.model.diagnostic import did_you_mean
        from agentforge.views.text import one_line

        hint = did_you_mean(word, VERBS) or "`acode --help` lists the commands"
        if word in COMMANDS:
            hint = f"`agentforge {word}` is a command"
        raise HintedUsageError(f"'{one_line(word, 60)}' is not a command of acode", hint, ctx)


@click.group(
    cls=AcodeVerbs,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name=ACODE)
@engine_options
def acode() -> None:
    """Plan a change, make it step by step, verify it and review it.

    `acode run "REQUEST"` does so in the current project. The runs are those of `agentforge`, whose commands
    show and control them, too.
    """


def main() -> None:
    sys.exit(call(sys.argv[1:], sys.argv[0]))


def call(arguments: list[str], path: str = ACODE) -> int:
    """Run one command and return its exit status. `path`: by which the program was called."""
    return call_program(acode, arguments, _invocation(path))


def _invocation(path: str = ACODE) -> Invocation:
    return Invocation(ACODE, os.path.join(os.path.dirname(path), ACODE), SHARED)
