"""`agentforge design`, `implement`, `fix`, `test` and `start`: from a request to a specification or a tested
change."""

from typing import Any

import click

from agentforge import Definitions
from agentforge.cli.invocation import invocation
from agentforge.cli.pipeline_lines import DESIGN
from agentforge.cli.pipeline_start import pipeline_options, skip_options, start_pipeline
from agentforge.cli.run_options import from_stdin

IMPLEMENT = "implement"
request_argument = click.argument("request", callback=from_stdin)
optional_request = click.argument("request", required=False, callback=from_stdin)


@click.command()
@request_argument
@pipeline_options
def design(*, request: str, **options: Any) -> int:
    """Turn REQUEST into a specification, with live progress.

    Runs the pipeline `design`: it records the request, asks you what it leaves open, analyzes the project and
    specifies the change. You approve the result of each stage, or reject it with feedback. `-` reads REQUEST
    from stdin.

    The run gets a new pipeline ID, which `status`, `approve`, `reject`, `resume` and `abort` take.
    """
    return start_pipeline(DESIGN, request, options)


@click.command()
@optional_request
@skip_options
@pipeline_options
def implement(*, request: str | None, spec_id: str | None, skip_to: str | None, **options: Any) -> int:
    """Turn REQUEST, or a specification, into a tested change.

    Runs the pipeline `implement`: after the stages of `design`, it writes the tests, then the code that makes
    them pass, and improves it. The engine runs the tests itself. `-` reads REQUEST from stdin.
    """
    _refuse_nothing(request, spec_id)
    return start_pipeline(IMPLEMENT, request, options, spec_id=spec_id, skip_to=skip_to)


@click.command()
@request_argument
@skip_options
@pipeline_options
def fix(*, request: str, spec_id: str | None, skip_to: str | None, **options: Any) -> int:
    """Correct what REQUEST describes, with a failing test first.

    Runs the pipeline `fix`: it finds the cause, writes a test that shows it, unless one fails already, and
    then the correction. --artifact FILE has the violation as data, in the field `violation`.
    """
    given = {"violation": request}
    return start_pipeline("fix", request, options, artifact=given, spec_id=spec_id, skip_to=skip_to)


@click.command("test")
@optional_request
@skip_options
@pipeline_options
def write_tests(*, request: str | None, spec_id: str | None, skip_to: str | None, **options: Any) -> int:
    """Write the tests of a specification, before there is any code.

    Runs the pipeline `test`, with a specification from --from-spec ID or --artifact FILE.
    """
    return start_pipeline("test", request, options, spec_id=spec_id, skip_to=skip_to)


@click.command()
@optional_request
@skip_options
@pipeline_options
def start(*, request: str | None, spec_id: str | None, skip_to: str | None, **options: Any) -> int:
    """Run the default pipeline, which is `implement`, for REQUEST.

    The setting `pipeline.default_type` names another one.
    """
    _refuse_nothing(request, spec_id)
    pipeline = Definitions(invocation().root).default_pipeline() or IMPLEMENT
    return start_pipeline(pipeline, request, options, spec_id=spec_id, skip_to=skip_to)


def _refuse_nothing(request: str | None, spec_id: str | None) -> None:
    if request is None and spec_id is None:
        raise click.UsageError("say what you want, or name a specification with --from-spec ID")
