"""`agentforge dry-run`: what a stage or a pipeline would do, without doing it."""

import click

from agentforge.cli.invocation import invocation, looking
from agentforge.cli.output import print_json
from agentforge.cli.overrides import overriding
from agentforge.cli.wanted import Wanted
from agentforge.views.preview import preview

SESSION = "preview"


@click.command("dry-run")
@click.argument("kind", metavar="loop|pipeline", type=click.Choice(("loop", "stage", "pipeline")))
@click.argument("name")
@click.argument("session", default=SESSION)
@overriding
@looking
def dry_run(kind: str, name: str, session: str, **options: object) -> None:
    """Show what a run would do: its stages, providers, iterations, inputs and directories.

    NAME is a stage or a pipeline, by file or by name. Nothing is started and nothing is written.
    """
    from agentforge.cli.run import compile_shown
    from agentforge.sdk.engine import Engine

    call = invocation()
    is_pipeline = kind == "pipeline"
    wanted = Wanted(
        session, options, pipeline=name if is_pipeline else None, stage=None if is_pipeline else name
    )
    engine = Engine(call.root)
    compiled = compile_shown(wanted.compiled, engine)
    if call.as_json:
        print_json({"plan": compiled.plan, "run_dir": engine.runs.layout(session).root})
    else:
        click.echo("\n".join(preview(compiled.plan, engine.runs.layout(session))))
