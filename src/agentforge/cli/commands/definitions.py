"""`agentforge stages`, `pipelines`, `graph` and `schema`: what a project defines, and how to write it."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from agentforge.cli.controls import open_engine
from agentforge.cli.invocation import WholeNumber, invocation, json_option, project_options
from agentforge.cli.output import echo, echo_wrapped, note, print_json, styled, wrapped
from agentforge.cli.pipeline_lines import ALL, STATUSES, list_pipeline_runs
from agentforge.cli.run_options import show_warnings
from agentforge.views.graph import graph as graph_of
from agentforge.views.lines.plan import graph_lines
from agentforge.views.text import one_line, padded, width

if TYPE_CHECKING:
    from agentforge import Available


FIRST = frozenset(
    (
        *("work", "improve-plan", "test-scanner", "idea-wizard", "docs-improve", "ideate", "loop", "design"),
        *("implement", "fix"),
        *("intake", "clarify", "analyze", "spec"),
    )
)
"""Built-in definitions that make sense alone, in any project."""


@click.command()
@project_options
def stages() -> None:
    """List the available stages.

    Run one with `agentforge STAGE [SESSION] [MAX]`.
    """
    from agentforge import Definitions

    _show(Definitions(invocation().root, os.environ).stages(), "stages", ".claude/stages/NAME/stage.yaml")


@click.command()
@click.option(
    "-s", "--status", type=click.Choice([*STATUSES, ALL]), help="List the runs with this status instead."
)
@click.option(
    "-n", "--limit", type=WholeNumber(min=1), help="List at most this many runs.  [default with -s: 10]"
)
@project_options
def pipelines(status: str | None, limit: int | None) -> None:
    """List the named pipelines, or the runs of the project.

    Run one with `agentforge run -p NAME`. With -s or -n, lists runs, the latest first; `running` includes
    interrupted ones, and `paused` those that wait for an approval.
    """
    from agentforge import Definitions

    if status or limit:
        list_pipeline_runs(invocation(), status or ALL, limit or 10)
        return
    _show(Definitions(invocation().root, os.environ).pipelines(), "pipelines", ".claude/pipelines/NAME.yaml")


def _show(found: "Sequence[Available]", what: str, where: str) -> None:
    if invocation().as_json:
        print_json(found)
        return
    if not found:
        echo(f"No {what} yet; create one in {where}")
        return
    columns = max(width(one.name) for one in found)
    # What belongs to the project or to the user first; then what a first run needs.
    groups = {
        "Yours": [one for one in found if not one.is_builtin],
        "Built in": [one for one in found if one.is_builtin and one.name in FIRST],
        "Built in, from agent-pipelines": [one for one in found if one.is_builtin and one.name not in FIRST],
    }
    for title, some in groups.items():
        if some:
            echo(styled(f"{title}:", "dim"))
        for one in some:
            described = one_line(one.description, 90)
            line = f"  {styled(padded(one.name, columns), 'strong')}  {described}".rstrip()
            echo_wrapped(line, indent=columns + 4)


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


@click.command()
@click.argument("kind", metavar="[pipeline|stage|settings|template]", default="pipeline")
@json_option
def schema(kind: str) -> None:
    """Print the JSON Schema of definition files.

    Without an argument, prints the schema of pipeline files. Editors with YAML support use it to complete,
    explain and validate keys; see docs/pipelines.md for the setup.

    \b
      agentforge schema pipeline > .vscode/agentforge-pipeline.json
      agentforge schema stage > .vscode/agentforge-stage.json
    """
    from agentforge import schema as schema_of

    match kind:
        case "pipeline" | "stage" | "settings" | "template":
            print_json(schema_of(kind))
        case _:
            known = "`pipeline`, `stage`, `settings` or `template`"
            raise click.UsageError(f"unknown schema '{kind}'; choose {known}")
