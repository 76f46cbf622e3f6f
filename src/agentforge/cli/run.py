"""`agentforge run`: begin a run and stay with it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from agentforge.cli.invocation import driving, invocation, record_option
from agentforge.cli.output import note
from agentforge.cli.overrides import overriding
from agentforge.cli.wanted import Wanted

if TYPE_CHECKING:
    from agentforge.definition.compiler import Compiled
    from agentforge.model.facts import AnyFact
    from agentforge.sdk.engine import Engine
    from agentforge.sdk.results import RunResult


@click.command()
@click.option("-p", "--pipeline", metavar="PIPELINE|FILE", help="A file, or the name of a pipeline.")
@click.option("-s", "--session", help="What to call the run.  [default: the pipeline's name and the time]")
@click.option("--force", is_flag=True, help="Stop a run of that name, keep it aside, begin anew.")
@record_option
@overriding
@driving
def run(*, pipeline: str | None, session: str | None, force: bool, record: bool, **options: Any) -> int:
    """Run a pipeline, shown as it goes.

    Ctrl-C lets the agent finish its iteration and pauses the run: `agentforge resume` goes on.
    """
    if pipeline is None:
        raise click.UsageError("give a pipeline: agentforge run -p FILE (`agentforge pipelines` lists names)")
    return begin(Wanted(session, options, pipeline=pipeline, force=force, record=record))


def begin(wanted: Wanted, notes: "Sequence[AnyFact]" = ()) -> int:
    """Begin a run and stay with it."""
    from agentforge.cli.attached import conclude, drive
    from agentforge.cli.log_output import current_session

    call = invocation()

    async def work(engine: "Engine") -> "RunResult":
        compiled = compile_shown(wanted.compiled, engine)
        current_session.set(compiled.plan.session.name)
        return await engine.start(compiled, force=wanted.force, notes=notes, record=wanted.record)

    return conclude(call, drive(call, work))


def compile_shown(compile: "Callable[[Engine], Compiled]", engine: "Engine") -> "Compiled":
    compiled = compile(engine)
    show_warnings(compiled)
    return compiled


def show_warnings(compiled: "Compiled") -> None:
    if compiled.warnings:
        from agentforge.definition.diagnostics import render

        note(render(compiled.warnings))
