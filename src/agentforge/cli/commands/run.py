"""`agentforge run`, `pipeline`, `loop` and `agentforge STAGE`: run a pipeline or a single stage."""

import os
from shlex import quote
from typing import Any

import click

from agentforge import Definitions
from agentforge.cli.controls import trust_option
from agentforge.cli.invocation import HintedUsageError, WholeNumber, engine_options, invocation
from agentforge.cli.run_options import definition_of, from_stdin, options_for, taken, target_options
from agentforge.cli.start import start_attached, start_options, start_or_resume
from agentforge.model.names import DEFAULT_PIPELINE
from agentforge.model.run_options import OverrideOptions, StartOptions


@click.command()
@click.argument("wanted", metavar="[REQUEST]", required=False, callback=from_stdin)
@target_options
@options_for(StartOptions)
@trust_option
@options_for(OverrideOptions)
@engine_options
def run(
    *,
    wanted: str | None,
    pipeline: str | None,
    session: str | None,
    trust: bool,
    **options: Any,
) -> int:
    """Do what REQUEST says, or run a pipeline, with live progress.

    REQUEST says what you want; - reads it from stdin. The default pipeline plans the work, does it step by
    step, verifies it and reviews it. Other pipelines may take a request or none.

    Ctrl-C lets the agent finish its iteration and pauses the run; `agentforge resume` resumes it.
    """
    if wanted is not None:
        refuse_name(wanted)
        if options["request"] is not None:
            raise click.UsageError("the request is given twice: as an argument, and with --request")
        options["request"] = wanted
    pipeline = pipeline or Definitions(invocation().root).default_pipeline()
    if pipeline is None and options["request"] is None:
        raise HintedUsageError(
            "nothing to run",
            'say what you want, as in `agentforge run "Add a slugify function"`, or pass a pipeline with -p'
            " (`agentforge pipelines` lists the named ones)",
            click.get_current_context(),
        )
    what = definition_of(options, session, pipeline=pipeline or DEFAULT_PIPELINE)
    return start_attached(what, taken(StartOptions, options), trust=trust)


def refuse_name(wanted: str) -> None:
    """What names something to run is hardly a request: the wrong run would start."""
    root, word = invocation().root, quote(wanted)
    known = Definitions(root)
    hints = []
    if wanted in known.stage_names():
        hints.append(f"`agentforge {word}` runs the stage of that name")
    if wanted in known.pipeline_names():
        hints.append(f"`agentforge run -p {word}` runs the pipeline of that name")
    if wanted.endswith((".yaml", ".yml")) and (
        " " not in wanted or os.path.lexists(os.path.join(root, wanted))
    ):
        hints.append(f"`agentforge run -p {word}` runs a pipeline")
    if hints:
        message = f"{wanted!r} names something to run, and is not a request"
        raise HintedUsageError(message, ", ".join(hints), click.get_current_context())


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
