"""`agentforge graph`: show the nodes of a pipeline with their routes."""

import click

from agentforge.cli.invocation import invocation, project_options
from agentforge.cli.output import echo, note, print_json, wrapped
from agentforge.cli.run_options import show_warnings
from agentforge.views.graph import graph as graph_of
from agentforge.views.lines.plan import graph_lines

SESSION = "preview"


@click.command()
@click.argument("pipeline")
@click.option("--svg", metavar="FILE", help="Also write the graph to this SVG file.")
@project_options
def graph(pipeline: str, svg: str | None) -> None:
    """Show the nodes of a pipeline with their routes.

    Lists the checks of each node and where the run goes after each verdict: to the next node, to an earlier
    or a later one, to a person, or to its end. PIPELINE is a file or the name of a pipeline. Nothing is
    started.

    \b
      agentforge graph feature.yaml
      agentforge graph feature.yaml --svg feature.svg
    """
    from agentforge import write_graph
    from agentforge.cli.controls import open_engine

    with open_engine(call := invocation()) as engine:
        compiled = engine.engine.compile(pipeline, session=SESSION)
    show_warnings(compiled)
    plan = compiled.plan
    drawn = write_graph(plan, svg) if svg else None
    if call.as_json:
        print_json(
            {
                "pipeline": plan.pipeline.name,
                "source": plan.source.path,
                "nodes": graph_of(plan),
                "svg": drawn,
            }
        )
        return
    for line in graph_lines(plan):
        echo(*wrapped(line, 8))
    if drawn:
        note(f"Wrote {drawn}")
