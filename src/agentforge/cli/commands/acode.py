"""The commands that only `acode` has: it starts the loop, and shows a run by its stages."""

from datetime import UTC, datetime
from typing import Any

import click

from agentforge import Definitions
from agentforge.cli.commands.run import refuse_name
from agentforge.cli.commands.show import show
from agentforge.cli.commands.status import list_runs, status_of
from agentforge.cli.controls import trust_option
from agentforge.cli.invocation import choose_session_to_show, engine_options, invocation, project_options
from agentforge.cli.output import PROGRAM, echo, local_zone, print_json, styled
from agentforge.cli.run_options import definition_of, from_stdin, options_for, taken
from agentforge.cli.run_views import show_view
from agentforge.cli.start import start_attached
from agentforge.model.names import DEFAULT_PIPELINE
from agentforge.model.run_options import OverrideOptions, StartOptions
from agentforge.views.lines.acode import acode_status_rows
from agentforge.views.lines.metrics import metrics_lines


@click.command()
@click.argument("wanted", metavar="REQUEST", callback=from_stdin)
@click.option("-s", "--session", help="Name of the run.  [default: the pipeline's name and the time]")
@options_for(StartOptions)
@trust_option
@options_for(OverrideOptions)
@engine_options
def run(*, wanted: str, session: str | None, trust: bool, **options: Any) -> int:
    """Plan what REQUEST says, do it step by step, verify it and review it; - reads REQUEST from stdin.

    Ctrl-C lets the agent finish its iteration and pauses the run; `acode resume` resumes it.
    """
    refuse_name(wanted)
    options["request"] = wanted
    pipeline = Definitions(invocation().root).default_pipeline() or DEFAULT_PIPELINE
    what = definition_of(options, session, pipeline=pipeline)
    return start_attached(what, taken(StartOptions, options), trust=trust)


# It is the argument.
run.params = [parameter for parameter in run.params if parameter.name != "request"]


@click.command()
@click.argument("session", metavar="[ID]", required=False)
@project_options
def status(session: str | None) -> None:
    """Show the stage and the step of a run, and what a person can do.

    ID can be omitted if there is only one unfinished session.
    """
    call, now = invocation(), datetime.now(UTC)
    info = call.runs.info(choose_session_to_show(call, session))
    if call.as_json:
        print_json(status_of(info, now, call.program))
        return
    for row in acode_status_rows(status_of(info, now, PROGRAM), now, local_zone()):
        echo(f"{row.label}: {styled(call.named(row.value), row.tone)}")


@click.group()
def metrics() -> None:
    """Show what the stages of a run took."""


@metrics.command("session")
@click.argument("session", metavar="[ID]", required=False)
@project_options
def metrics_of_session(session: str | None) -> None:
    """Show the duration, tokens, retries and steps of each stage."""
    from agentforge import RunWork

    call = invocation()
    work = RunWork(call.runs, choose_session_to_show(call, session))
    if call.as_json:
        show_view(call, work, "metrics", (None, None, None), details=False)
    else:
        echo(*metrics_lines(work.metrics()))


@click.group()
def session() -> None:
    """List runs, and show what happened in them."""


@session.command("history")
@click.argument("session", metavar="[ID]", required=False)
@click.option("--cycles", is_flag=True, help="Also show checks, reasons and routes.")
@project_options
def history(session: str | None, cycles: bool) -> None:
    """List the visits to stages, with verdicts."""
    from agentforge import RunWork

    call = invocation()
    work = RunWork(call.runs, choose_session_to_show(call, session))
    show_view(call, work, "history", (None, None, None), details=cycles)


session.add_command(list_runs)
session.add_command(show)
