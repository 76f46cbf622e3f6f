"""The YAML of pipelines and stages as JSON Schema (draft 7, which all editors know).

Derived from the tables that the reader uses. It describes shapes; names, references and combinations are the
compiler's.
"""

from typing import Any

from agentforge.definition.file_keys import PIPELINE, STAGE
from agentforge.definition.kinds import Schema
from agentforge.definition.table import Table

DIALECT = "http://json-schema.org/draft-07/schema#"


def pipeline_schema() -> Schema:
    return _schema("AgentForge pipeline", PIPELINE)


def stage_schema() -> Schema:
    """Of a stage.yaml; every key has a default, as the prompt may be all there is."""
    return _schema("AgentForge stage", STAGE)


def _schema(title: str, table: Table[Any]) -> Schema:
    definitions: dict[str, Schema] = {}
    schema = table.written_out(definitions)
    return {"$schema": DIALECT, "title": title, **schema, "definitions": definitions}
