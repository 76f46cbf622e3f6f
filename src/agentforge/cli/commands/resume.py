"""`agentforge resume`: resume a stopped run."""

from typing import TYPE_CHECKING, Any

import click

from agentforge.cli.background import cleaned_option
from agentforge.cli.invocation import choose_session, engine_options, invocation, record_option
from agentforge.cli.start import resume_attached, resume_detached
from agentforge.cli.trust import trust_option
from agentforge.views.status import RESUMABLE

if TYPE_CHECKING:
    from agentforge import Compiled, Engine


@click.command()
@click.argument("session", required=False)
@click.option("--context", metavar="TEXT", help="Text to add to ${CONTEXT} in later prompts.")
@click.option("--force", is_flag=True, help="Stop the engine that runs it, and take over.")
@click.option("--recompile", is_flag=True, help="Recompile from the current definition before resuming.")
@click.option("--accept-damage", is_flag=True, help="Continue even if the log has damaged lines.")
@click.option("--detach", is_flag=True, help="Resume in the background, in tmux.")
@cleaned_option
@trust_option
@record_option
@engine_options
def resume(*, session: str | None, context: str | None, recompile: bool, record: bool, **how: Any) -> int:
    """Resume a paused, failed or interrupted run.

    Resets failure counters. The run keeps the plan that it was started with unless --recompile is given.
    SESSION can be omitted if only one session can be resumed.

    A run that was not started on this machine by you, such as one that came with a repository, is resumed
    only with --trust: its log decides which programs are run.
    """
    call = invocation()
    name = choose_session(call, session, RESUMABLE, "to resume")

    def recompiled(engine: "Engine") -> "Compiled | bool":
        return engine.recompile(name) if recompile else False

    if how["detach"]:
        given = {"--force": how["force"], "--recompile": recompile, "--record": record}
        given["--accept-damage"] = how["accept_damage"]
        flags = [flag for flag, is_given in given.items() if is_given]
        flags += [f"--context={context}"] if context else []
        return resume_detached(
            call, name, flags, force=how["force"], recompile=recompiled, trust=how["trust"]
        )
    return resume_attached(
        call,
        name,
        context=context,
        recompile=recompiled,
        force=how["force"],
        accept_damage=how["accept_damage"],
        notes=how["notes"],
        trust=how["trust"],
        record=record,
    )
