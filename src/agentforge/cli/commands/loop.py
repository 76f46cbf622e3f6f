"""`agentforge loop` and `agentforge STAGE`: run a single stage, in the background by default."""

from typing import Any

import click

from agentforge.cli.invocation import WholeNumber, engine_options
from agentforge.cli.run_options import definition_of
from agentforge.cli.start import start_options, start_or_resume


@click.command()
@click.argument("stage")
@click.argument("session", required=False)
@click.argument("maximum", metavar="[MAX]", type=WholeNumber(min=1), required=False)
@start_options
@engine_options
def loop(*, stage: str, session: str | None, maximum: int | None, **options: Any) -> int:
    """Run a single stage, at most MAX times. `agentforge STAGE [SESSION] [MAX]` is the same.

    Runs in the background unless --foreground is given: in a detached tmux session `pipeline-SESSION`, or
    in a new window if you are inside tmux.
    """
    session = stage if session is None else session
    return start_or_resume(options, definition_of(options, session, stage=stage, count=maximum))
