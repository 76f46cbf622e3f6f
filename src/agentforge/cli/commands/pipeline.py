"""`agentforge pipeline`: run a pipeline, in the background by default."""

from typing import Any

import click

from agentforge.cli.invocation import WholeNumber, engine_options
from agentforge.cli.run_options import definition_of
from agentforge.cli.start import start_options, start_or_resume


@click.command()
@click.argument("file")
@click.argument("session", required=False)
@click.argument("runs", type=WholeNumber(min=1), required=False)
@start_options
@engine_options
def pipeline(*, file: str, session: str | None, runs: int | None, **options: Any) -> int:
    """Run a pipeline from a file or by name, RUNS times in a row.

    Runs in the background unless --foreground is given: in a detached tmux session `pipeline-SESSION`, or
    in a new window if you are inside tmux.
    """
    if options["is_resumed"] and session is None:
        raise click.UsageError("missing session to resume: agentforge pipeline FILE SESSION --resume")
    return start_or_resume(options, definition_of(options, session, pipeline=file, count=runs))
