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
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if isinstance(given := schema.get(key), list) and given:
            return given[0]
    kinds = schema.get("type", "string")
    match kinds[0] if isinstance(kinds, list) and kinds else kinds:
        case "object":
            known = schema.get("properties")
            known = known if isinstance(known, dict) else {}
            return {str(name): _simplest(known.get(name)) for name in schema.get("required", ())}
        case "array":
            number = schema.get("minItems", 0)
            return [_simplest(schema.get("items"))] * min(int(number), MAX_ELEMENTS)
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return TEXT
