"""The simplest object that a simple JSON Schema describes: what the mock leaves without a fixture."""

from typing import Any

from agentforge.model.result import JSONObject
from agentforge.system.schemas import InvalidSchema, JsonSchema

TEXT = "mock"
MAX_ELEMENTS = 10


def example_of(schema: JSONObject) -> JSONObject | None:
    """None if the schema asks for more than types, required properties and minimums."""
    try:
        known = JsonSchema(schema)
    except InvalidSchema:
        return None
    found = _simplest(schema)
    return found if isinstance(found, dict) and not known.mismatches(found) else None


def _simplest(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return TEXT
    given = [schema[key] for key in ("const", "default") if key in schema]
    lists = (schema.get(key) for key in ("examples", "enum"))
    given += [one for listed in lists if isinstance(listed, list) for one in listed]
    if given:
        return given[0]
    kinds = schema.get("type", "string")
    kind = kinds if isinstance(kinds, str) else kinds[0]
    if kind == "object":
        known = schema.get("properties", {})
        return {name: _simplest(known.get(name)) for name in schema.get("required", ())}
    if kind == "array":
        return [_simplest(schema.get("items"))] * min(int(schema.get("minItems", 0)), MAX_ELEMENTS)
    least = schema.get("minimum", 0)
    return {"integer": least, "number": least, "boolean": False, "null": None}.get(kind, TEXT)
