"""What a model is told before the task, and how a task ends: the tool `complete`, and the result file that it
becomes. What the model gives is validated here: pydantic-ai only shows a schema to the model and takes what
comes."""

import os
from copy import deepcopy
from typing import Any

import msgspec
from jsonschema import Draft202012Validator, SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from agentforge.adapters.api.task import Task
from agentforge.host import files

COMPLETE = "complete"
COMPLETE_DESCRIPTION = (
    "Call this when the work is done, or when it can't be done. It ends the task; nothing can follow."
)

_TEXTS = {"type": "array", "items": {"type": "string"}}
_FIELDS: dict[str, Any] = {
    "summary": {"type": "string", "description": "What was done, in a few sentences."},
    "decision": {
        "type": "string",
        "enum": ["continue", "stop", "error"],
        "description": "continue: more iterations may improve the work; stop: nothing is left to do; "
        "error: the work can't be done, say why in `reason`.",
    },
    "reason": {"type": "string", "description": "Why this decision."},
    "items_completed": _TEXTS,
    "files_touched": _TEXTS,
    "outputs": _TEXTS,
    "paths": _TEXTS,
    "plateau_suspected": {"type": "boolean"},
    "risk": {"type": "string", "enum": ["low", "medium", "high"]},
    "notes": {"type": "string"},
    "errors": _TEXTS,
}


def complete_schema(schema: dict[str, Any] | None) -> dict[str, Any]:
    """The schema of `complete`; with a schema for the result, it must be given and fit."""
    whole: dict[str, Any] = {"type": "object", "properties": dict(_FIELDS), "required": ["summary"]}
    if schema is None:
        return whole
    result = deepcopy(schema)
    result.pop("$schema", None)
    definitions = result.pop("$defs", None)
    if _refers(result, definitions):
        # A reference that would point elsewhere from within another schema is said in words instead.
        told = msgspec.json.encode(schema).decode()
        result, definitions = {"type": "object", "description": f"Must fit this JSON Schema: {told}"}, None
    if definitions:
        whole["$defs"] = definitions
    whole["properties"]["result"] = result
    whole["required"].append("result")
    return whole


def result_file(given: dict[str, Any], touched: list[str]) -> dict[str, Any]:
    """What the engine reads as an iteration's result."""
    all_touched = list(dict.fromkeys([*given.get("files_touched", ()), *touched]))
    return {
        "summary": given.get("summary", ""),
        "decision": given.get("decision", "continue"),
        "reason": given.get("reason", ""),
        "work": {"items_completed": given.get("items_completed", []), "files_touched": all_touched},
        "artifacts": {"outputs": given.get("outputs", []), "paths": given.get("paths", [])},
        "signals": {
            "plateau_suspected": given.get("plateau_suspected", False),
            "risk": given.get("risk", "low"),
            "notes": given.get("notes", ""),
        },
        "errors": given.get("errors", []),
    }


def put(path: str, content: Any) -> None:
    """All at once: whoever reads it finds nothing or everything."""
    if not path:
        return
    files.replace(path, files.pretty(content), draft=f"{path}.{os.getpid()}.tmp")


def _refers(node: Any, definitions: Any) -> bool:
    """Whether anything refers to another place than a definition that doesn't itself refer on."""
    text = msgspec.json.encode([node, definitions]).decode()
    inner = msgspec.json.encode(definitions).decode()
    return '"$ref"' in inner or text.count('"$ref"') != text.count('"$ref":"#/$defs/')


MOST = 10


class NotASchema(ValueError):
    pass


def checker(schema: dict[str, Any]) -> Validator:
    """Raises NotASchema. References are followed within the schema only, never over the network."""
    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise NotASchema(f"at {error.json_path}: {error.message}") from error
    registry: Registry[Any] = Registry()
    return kind(schema, registry=registry)


def misfits(check: Validator, data: Any) -> list[str]:
    """What is wrong with the data, where; empty if it fits."""
    try:
        errors = sorted(check.iter_errors(data), key=lambda error: error.json_path)
    except Unresolvable as error:
        return [f"the schema refers to something that isn't there: {error}"]
    found = [f"{error.json_path}: {error.message[:300]}" for error in errors[:MOST]]
    return found + ([f"and {len(errors) - MOST} more"] if len(errors) > MOST else [])


SYSTEM = """\
You are a step of an automated pipeline and work on the files in {workspace}. Nobody reads along and nobody
can answer questions: decide for yourself. Use the tools to look at the files and to change them; paths are
relative to that folder. When the work is done, call `{complete}` with a summary and your decision. Where the
task asks for a result.json or a status.json, `{complete}` writes it: give it the same content instead.
"""

GO_ON = """\
You were interrupted. What you did before has been kept, but the last tool calls may not have taken effect:
look before you repeat them. Then finish the task, and call `{complete}`.
"""


def system_of(task: Task) -> str:
    return task.system or SYSTEM.format(workspace=task.files.workspace, complete=COMPLETE)


def go_on() -> str:
    return GO_ON.format(complete=COMPLETE)
