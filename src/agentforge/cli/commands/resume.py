"""`agentforge resume`: resume a stopped run."""

import click

from agentforge.cli.invocation import choose_session, engine_options, invocation, record_option
from agentforge.cli.start import resume_attached
from agentforge.cli.trust import trust_option
from agentforge.views.status import RESUMABLE


@click.command()
@click.argument("session", required=False)
@click.option("--context", metavar="TEXT", help="Text to add to ${CONTEXT} in later prompts.")
@click.option("--force", is_flag=True, help="Stop the engine that runs it, and take over.")
@click.option("--recompile", is_flag=True, help="Recompile from the current definition before resuming.")
@click.option("--accept-damage", is_flag=True, help="Continue even if the log has damaged lines.")
@trust_option
@record_option
@engine_options
def resume(*, session: str | None, context: str | None, recompile: bool, record: bool, **how: bool) -> int:
    """Resume a paused, failed or interrupted run.

    Resets failure counters. The run keeps the plan that it was started with unless --recompile is given.
    SESSION can be omitted if only one session can be resumed.

    A run that was not started on this machine by you, such as one that came with a repository, is resumed
    only with --trust: its log decides which programs are run.
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
        trust=how["trust"],
        record=record,
    )
