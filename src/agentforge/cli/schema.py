"""`agentforge schema`: the JSON Schema of pipelines and stages, for editors."""

import click

from agentforge.cli.invocation import json_option
from agentforge.cli.output import print_json


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
    from agentforge.definition.schema import pipeline_schema, stage_schema

    schemas = {"pipeline": pipeline_schema, "stage": stage_schema}
    if kind not in schemas:
        raise click.UsageError(f"no schema named '{kind}'; choose `pipeline` or `stage`")
    print_json(schemas[kind]())
