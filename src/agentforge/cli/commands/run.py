"""`agentforge run`: run a pipeline in the foreground."""

from typing import TYPE_CHECKING, Any

import click

from agentforge.cli.invocation import engine_options, record_option
from agentforge.cli.run_options import RunOptions, override_options
from agentforge.cli.start import start_attached

if TYPE_CHECKING:
    pass


@click.command()
@click.option("-p", "--pipeline", metavar="PIPELINE|FILE", help="A file, or the name of a pipeline.")
@click.option("-s", "--session", help="What to call the run.  [default: the pipeline's name and the time]")
@click.option("--force", is_flag=True, help="Stop a run of that name, keep it aside, begin anew.")
@record_option
@override_options
@engine_options
def run(*, pipeline: str | None, session: str | None, force: bool, record: bool, **options: Any) -> int:
    """Run a pipeline, shown as it goes.

    Ctrl-C lets the agent finish its iteration and pauses the run: `agentforge resume` goes on.
    """
    if pipeline is None:
        raise click.UsageError("give a pipeline: agentforge run -p FILE (`agentforge pipelines` lists names)")
    return start_attached(RunOptions(session, options, pipeline=pipeline, force=force, record=record))
