"""`agentforge resume`: a person says go on."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from agentforge.cli.invocation import Invocation, driving, invocation, record_option
from agentforge.cli.sessions import chosen
from agentforge.views.requests import request_lines
from agentforge.views.stage_progress import current_step
from agentforge.views.status import RESUMABLE

if TYPE_CHECKING:
    from agentforge.definition.compiler import Compiled
    from agentforge.model.facts import AnyFact
    from agentforge.sdk.engine import Engine
    from agentforge.sdk.results import RunInfo, RunResult


@click.command()
@click.argument("session", required=False)
@click.option("--context", metavar="TEXT", help="Something the agents should know from now on.")
@click.option("--force", is_flag=True, help="Stop the process that drives the run, and take over.")
@click.option("--recompile", is_flag=True, help="Go on by the definition as it is now.")
@click.option("--accept-damage", is_flag=True, help="Go on although lines of the log are damaged.")
@record_option
@driving
def resume(*, session: str | None, context: str | None, recompile: bool, record: bool, **how: bool) -> int:
    """Go on with a run that stopped.

    Paused, failed and interrupted runs can be resumed; past failures no longer count. The run keeps the
    plan that it began with, unless it is told to --recompile. Without SESSION, the only one that can be
    resumed.
    """
    call = invocation()
    name = chosen(call, session, RESUMABLE, "to resume")
    return go_on(
        call,
        name,
        context=context,
        recompile=lambda engine: engine.recompile(name) if recompile else False,
        force=how["force"],
        accept_damage=how["accept_damage"],
        record=record,
    )


def go_on(
    call: Invocation,
    session: str,
    *,
    context: str | None,
    force: bool,
    recompile: "Callable[[Engine], Compiled | bool]",
    accept_damage: bool = False,
    notes: "Sequence[AnyFact]" = (),
    record: bool = False,
) -> int:
    from agentforge.cli.attached import conclude, drive
    from agentforge.cli.log_output import current_session
    from agentforge.cli.run import show_warnings

    info = call.runs.info(session)
    if not call.as_json and info.status in RESUMABLE:
        click.echo(f"Resuming session '{info.session}' from {_place(info)}")
        _show_others(call, info)

    async def work(engine: "Engine") -> "RunResult":
        current_session.set(session)
        compiled = recompile(engine)
        if not isinstance(compiled, bool):
            show_warnings(compiled)
        return await engine.resume(
            session,
            context,
            force=force,
            accept_damage=accept_damage,
            recompile=compiled,
            notes=notes,
            record=record,
        )

    return conclude(call, drive(call, work))


def _show_others(call: Invocation, info: "RunInfo") -> None:
    """What a resume doesn't answer."""
    asked = info.state.open_requests
    lines = request_lines(info.session, asked, call.program)
    for request, (question, command) in zip(asked, lines, strict=True):
        if request.kind != "escalation" or "resume" not in request.options:
            click.echo(f"Still open: {question}\n  Answer it with `{command}`.")


def _place(info: "RunInfo") -> str:
    """`stage build, iteration 2`: where it goes on."""
    state = info.state
    completed = state.node.completed if state.node else 0
    number = state.iteration.number if state.iteration else completed + 1
    step = current_step(info.plan, state)
    stage = f"stage {step.node.id}, " if step and info.plan.mode != "loop" else ""
    return f"{stage}iteration {number}"
