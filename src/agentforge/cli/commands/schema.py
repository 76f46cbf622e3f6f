"""`agentforge schema`: print the JSON Schema of definition files."""

import click

from agentforge.cli.invocation import json_option
from agentforge.cli.output import print_json


@click.command()
@click.argument("kind", metavar="[pipeline|stage]", default="pipeline")
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
        case "pipeline" | "stage":
            print_json(schema_of(kind))
        case _:
            raise click.UsageError(f"unknown schema '{kind}'; choose `pipeline` or `stage`")
