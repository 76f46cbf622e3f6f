"""`agentforge design`: turn a request into a specification."""

import os
from datetime import UTC, datetime
from typing import Any

import click

from agentforge import pipeline_id
from agentforge.cli.invocation import engine_options
from agentforge.cli.pipeline_lines import DESIGN, start_lines
from agentforge.cli.run_options import definition_of, from_stdin, options_for, taken
from agentforge.cli.start import start_attached
from agentforge.model.run_options import OverrideOptions, StartOptions


@click.command()
@click.argument("request", callback=from_stdin)
@options_for(StartOptions, without=("request", "force"))
@options_for(OverrideOptions, without=("inputs",))
@click.option("--input", "inputs", multiple=True, metavar="PATH", help="Input file, folder or glob.")
@click.option(
    "-i", "--iterate", is_flag=True, help="Run a stage again after a rejection, whatever the pipeline says."
)
@engine_options
def design(*, request: str, **options: Any) -> int:
    """Turn REQUEST into a specification, with live progress.

    Runs the pipeline `design`: it records the request, asks you what it leaves open, analyzes the project and
    specifies the change. You approve the result of each stage, or reject it with feedback. `-` reads REQUEST
    from stdin.

    The run gets a new pipeline ID, which `status`, `approve`, `reject`, `resume` and `abort` take.
    """
    session = pipeline_id(datetime.now(UTC), os.urandom(4).hex())
    options["iterate"] = options["iterate"] or None
    what = definition_of(options, session, pipeline=DESIGN)
    how = taken(StartOptions, {**options, "request": request})
    return start_attached(what, how, trust=False, heading=start_lines(session, request))
