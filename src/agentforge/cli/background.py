"""Handing a run over to tmux, and saying how to look after it there."""

import asyncio
import os
import shlex
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from agentforge.cli import exit_codes
from agentforge.cli.invocation import Invocation
from agentforge.cli.log_output import set_up_logs
from agentforge.cli.output import print_json
from agentforge.cli.wanted import Wanted
from agentforge.sdk.background import Background, Begun
from agentforge.sdk.engine import Engine

if TYPE_CHECKING:
    from agentforge.model.facts import TmuxSessionCleaned

Check = Callable[[Engine, Wanted, Background], Awaitable[str]]


def send(call: Invocation, wanted: Wanted, check: Check) -> int:
    """Start the run in tmux; everything that can be refused at once is."""
    set_up_logs(call)
    begun, cleaned = asyncio.run(_send(call, wanted, check))
    if call.as_json:
        print_json(
            {"session": begun.session, "tmux": begun.name, "window": begun.is_window, "cleaned": cleaned}
        )
    else:
        click.echo("\n".join(_hints(call, begun)))
    return exit_codes.COMPLETED


async def _send(call: Invocation, wanted: Wanted, check: Check) -> "tuple[Begun, TmuxSessionCleaned | None]":
    background = Background(call.runs, os.environ)
    async with Engine(call.root) as engine:
        session = await check(engine, wanted, background)
        cleaned = await background.make_way(session, force=wanted.force)
    return await background.start(session, wanted.arguments(call.root, session, cleaned)), cleaned


def _hints(call: Invocation, begun: Begun) -> list[str]:
    kind = "window" if begun.is_window else "session"
    first = "tmux window" if begun.is_window else "tmux"
    attach = "select-window" if begun.is_window else "attach"
    session = f"{'-- ' if begun.session.startswith('-') else ''}{shlex.quote(begun.session)}"
    return [
        f"Session started in {first}: {begun.name}",
        "",
        f"  Monitor: tmux capture-pane -t {begun.name} -p | tail -50",
        f"  Attach:  tmux {attach} -t {begun.name}",
        f"  Status:  {call.program} status {session}",
        f"  Kill:    tmux kill-{kind} -t {begun.name}",
    ]
