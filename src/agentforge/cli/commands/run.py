"""`agentforge run`: run a pipeline in the foreground."""

from shlex import quote
from typing import Any

import click

from agentforge.cli.invocation import engine_options, record_option, yes_option
from agentforge.cli.run_options import RunOptions, override_options, skip_check_options, skipped_checks
from agentforge.cli.start import start_attached
from agentforge.cli.trust import trust_option


@click.command(context_settings={"allow_extra_args": True})
@click.pass_context
@click.option("-p", "--pipeline", metavar="PIPELINE|FILE", help="Pipeline file or name.")
@click.option("-s", "--session", help="Name of the run.  [default: the pipeline's name and the time]")
@click.option("--force", is_flag=True, help="Stop and archive any run with this name, then start over.")
@trust_option
@record_option
@yes_option
@skip_check_options
@override_options
@engine_options
def run(
    context: click.Context,
    /,
    *,
    pipeline: str | None,
    session: str | None,
    force: bool,
    trust: bool,
    record: bool,
    approve: bool,
    **options: Any,
) -> int:
    """Run a pipeline in the foreground with live progress.

    Ctrl-C lets the agent finish its iteration and pauses the run; `agentforge resume` resumes it.
    """
    if context.args:
        error = click.UsageError(f"unexpected extra argument '{context.args[0]}'", context)
        error.hint = f"`agentforge run -p {quote(context.args[0])}` runs a pipeline"  # type: ignore[attr-defined]
        raise error
    if pipeline is None:
        raise click.UsageError(
            "missing pipeline: pass a file or a name with -p (`agentforge pipelines` lists the named ones)"
        )
    skipped = skipped_checks(options)
    return start_attached(
        RunOptions(
            session,
            options,
            pipeline=pipeline,
            force=force,
            trust=trust,
            record=record,
            approve=approve,
            skip_checks=skipped,
        )
    )
