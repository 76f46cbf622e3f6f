"""`agentforge dry-run`: show what a run would do."""

from typing import Any

import click

from agentforge.cli.invocation import invocation, project_options
from agentforge.cli.output import echo, print_json
from agentforge.cli.run_options import RunOptions, compile_and_warn, override_options
from agentforge.views.lines.preview import preview


@click.command("dry-run")
@click.argument("kind", metavar="loop|pipeline", type=click.Choice(("loop", "stage", "pipeline")))
@click.argument("name")
@click.argument("session", default="preview")
@override_options
@project_options
def dry_run(kind: str, name: str, session: str, **options: Any) -> None:
    """Show what a run would do.

    Shows its stages, providers, iterations, inputs and directories. NAME is a stage, or a pipeline file
    or name. Nothing is started or written.
    """
    from agentforge import Engine

    call = invocation()
    pipeline, stage = (name, None) if kind == "pipeline" else (None, name)
    given = RunOptions(session, options, pipeline, stage)
    engine = Engine(call.root)
    compiled = compile_and_warn(given.compiled, engine)
    if call.as_json:
        print_json({"plan": compiled.plan, "run_dir": engine.runs.layout(session).root})
    else:
        echo(*preview(compiled.plan, engine.runs.layout(session)))
