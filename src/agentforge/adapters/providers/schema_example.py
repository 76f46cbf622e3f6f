"""The simplest object that a simple JSON Schema describes: what the mock leaves without a fixture."""

from typing import Any

from agentforge.model.agent_schema import referred
from agentforge.model.result import JSONObject
from agentforge.system.schemas import InvalidSchema, JsonSchema

TEXT = "mock"
MAX_ELEMENTS = 10
MAX_DEPTH = 32
MAX_PARTS = 1_000
"""A schema may contain itself, or another one several times."""


def example_of(schema: JSONObject) -> JSONObject | None:
    """None if the schema asks for more than types, required properties, minimums and references."""
    try:
        known = JsonSchema(schema)
    except InvalidSchema:
        return None
    found = _Simplest(schema).of(schema)
    return found if isinstance(found, dict) and not known.mismatches(found) else None


class _Simplest:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._parts = 0

    def of(self, schema: Any, depth: int = 0) -> Any:
        self._parts += 1
        if not isinstance(schema, dict) or depth > MAX_DEPTH or self._parts > MAX_PARTS:
            return TEXT
        given = [schema[key] for key in ("const", "default") if key in schema]
        lists = (schema.get(key) for key in ("examples", "enum"))
        given += [one for listed in lists if isinstance(listed, list) for one in listed]
        if given:
            return given[0]
        if "$ref" in schema:
            return self.of(referred(schema["$ref"], self._root), depth + 1)
        if "anyOf" in schema:
            return self.of(schema["anyOf"][0], depth + 1)
        kinds = schema.get("type", "string")
        kind = kinds if isinstance(kinds, str) else kinds[0]
        if kind == "object":
            known = schema.get("properties", {})
            return {name: self.of(known.get(name), depth + 1) for name in schema.get("required", ())}
        if kind == "array":
            one = self.of(schema.get("items"), depth + 1)
            return [one] * min(int(schema.get("minItems", 0)), MAX_ELEMENTS)
        least = schema.get("minimum", 0)
        return {"integer": least, "number": least, "boolean": False, "null": None}.get(kind, TEXT)
