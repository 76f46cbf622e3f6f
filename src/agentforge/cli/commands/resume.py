"""Runs that stopped: `resume`, because a person says so, and `recover` for every run that was left behind."""

from typing import TYPE_CHECKING

import click

from agentforge.cli.invocation import choose_session, engine_options, invocation, record_option
from agentforge.cli.start import resume_attached
from agentforge.views.status import RESUMABLE

if TYPE_CHECKING:
    pass


@click.command()
@click.argument("session", required=False)
@click.option("--context", metavar="TEXT", help="Something the agents should know from now on.")
@click.option("--force", is_flag=True, help="Stop the process that drives the run, and take over.")
@click.option("--recompile", is_flag=True, help="Go on by the definition as it is now.")
@click.option("--accept-damage", is_flag=True, help="Go on although lines of the log are damaged.")
@record_option
@engine_options
def resume(*, session: str | None, context: str | None, recompile: bool, record: bool, **how: bool) -> int:
    """Go on with a run that stopped.

    Paused, failed and interrupted runs can be resumed; past failures no longer count. The run keeps the
    plan that it began with, unless it is told to --recompile. Without SESSION, the only one that can be
    resumed.
    """
    call = invocation()
    name = choose_session(call, session, RESUMABLE, "to resume")
    return resume_attached(
        call,
        name,
        context=context,
        recompile=lambda engine: engine.recompile(name) if recompile else False,
        force=how["force"],
        accept_damage=how["accept_damage"],
        record=record,
    )
