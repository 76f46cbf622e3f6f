"""`agentforge schema`: JSON Schema of definition files, for editors."""

from typing import TYPE_CHECKING

import click

from agentforge.cli.invocation import json_option
from agentforge.cli.output import print_json

if TYPE_CHECKING:
    pass


@click.command()
@click.argument("kind", metavar="[pipeline|stage]", default="pipeline")
@json_option
def schema(kind: str) -> None:
    """Print the JSON Schema of pipeline files (default), or of stage.yaml.

    Editors that support YAML complete, explain and validate keys with it; docs/pipelines.md says how to set
    them up.

    \b
      agentforge schema pipeline > .vscode/agentforge-pipeline.json
      agentforge schema stage > .vscode/agentforge-stage.json
    """
    from agentforge import schema as schema_of

    match kind:
        case "pipeline" | "stage":
            print_json(schema_of(kind))
        case _:
            raise click.UsageError(f"no schema named '{kind}'; choose `pipeline` or `stage`")
