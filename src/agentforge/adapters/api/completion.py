"""How a task ends: the tool `complete`, and the result file that it becomes."""

import os
from copy import deepcopy
from typing import Any

import msgspec

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
