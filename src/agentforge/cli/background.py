"""Start runs in the background, in another process of this program that tmux keeps running."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from agentforge.cli import exit_codes
from agentforge.cli.invocation import Invocation
from agentforge.model.names import session_argument

if TYPE_CHECKING:
    from agentforge import Background, BackgroundRun, Engine
    from agentforge.model.facts import TmuxSessionCleaned


Arguments = Callable[["TmuxSessionCleaned | None"], list[str]]
"""The arguments of the other process, given what was cleaned up before."""


class Detached(Struct, frozen=True):
    """A run to start in the background."""

    session: str
    arguments: Arguments
    force: bool = False


class Launched(Struct, frozen=True):
    run: "BackgroundRun"
    cleaned: "TmuxSessionCleaned | None"

    @property
    def shown(self) -> dict[str, object]:
        """As JSON."""
        return {
            "session": self.run.session,
            "tmux": self.run.name,
            "window": self.run.is_window,
            "cleaned": self.cleaned,
        }


Prepare = Callable[["Engine", "Background"], Awaitable[Detached]]
"""Reports errors while the terminal is still attached."""


def _cleaned(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> "tuple[TmuxSessionCleaned, ...]":
    if value is None:
        return ()
    from agentforge.model.facts import TmuxSessionCleaned

    name, _, pid = value.partition(":")
    return (TmuxSessionCleaned(name, int(pid) if pid.isdigit() else None),)


cleaned_option = click.option("--cleaned-tmux", "notes", hidden=True, callback=_cleaned)


def detach(call: Invocation, prepare: Prepare) -> Launched:
    from agentforge import Background, Engine
    from agentforge.cli.log_output import set_up_logs

    async def start() -> Launched:
        background = Background(call.runs)
        async with Engine(call.root) as engine:
            run = await prepare(engine, background)
            # Last: a run that is refused must not end the tmux session of the one before.
            cleaned = await background.free_tmux_name(run.session, force=run.force)
        return Launched(await background.start(run.session, run.arguments(cleaned)), cleaned)

    set_up_logs(call)
    return asyncio.run(start())


def in_background(
    command: str, call: Invocation, session: str, flags: Sequence[str] = (), words: Sequence[str] = ()
) -> Arguments:
    """A command in the background, on the session if there are no other `words`."""

    def arguments(cleaned: "TmuxSessionCleaned | None") -> list[str]:
        note = [] if cleaned is None else [f"--cleaned-tmux={cleaned.name}:{cleaned.pid or ''}"]
        line = [command, "-C", call.root, f"--background={session}", *flags, *note]
        return [*line, "--", *(words or [session])]

    return arguments


def show_detached(call: Invocation, launched: Launched) -> int:
    started = launched.run
    where = "tmux window" if started.is_window else "tmux"
    session = session_argument(started.session)
    commands = {
        "Attach": f"attach {session}",
        "Output": f"logs {session}",
        "Status": f"status {session}",
        "Stop": f"pause {session}",
    }
    lines = (f"  {label + ':':<8} {call.program} {command}" for label, command in commands.items())
    call.report(launched.shown, f"Session started in {where}: {started.name}", "", *lines)
    return exit_codes.COMPLETED
