"""The schema that an agent gets: that of its stage, without the fields that the engine sets."""

from collections.abc import Collection
from typing import Any, Final

import msgspec

from agentforge.model.result import JSONObject

MAX_PARTS: Final = 100
"""Of parts within each other. No schema is accepted that is deeper."""


def without_fields(schema: JSONObject, fields: Collection[str]) -> JSONObject:
    """A field that the engine sets counts as present: it is left out wherever the artifact itself is
    described, except in `not`, which would then match all. A definition may describe other values, too: the
    artifact gets a copy of it."""
    text = msgspec.json.encode(schema)
    if not any(msgspec.json.encode(name) in text for name in fields):
        return schema
    stripped = _Stripped(schema, frozenset(fields))
    found = stripped.part(schema)
    while stripped.todo:
        reference = stripped.todo.pop()
        stripped.definitions[stripped.names[reference]] = stripped.part(referred(reference, schema))
    return {**found, "$defs": stripped.definitions} if stripped.names else found


def referred(reference: Any, schema: JSONObject) -> Any:
    """What a reference such as `#/$defs/name` leads to, or None."""
    parts = reference.split("/") if isinstance(reference, str) else [""]
    at: Any = schema if parts[0] == "#" else None
    for step in parts[1:]:
        at = at.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(at, dict) else None
    return at


class _Stripped:
    def __init__(self, schema: JSONObject, fields: frozenset[str]) -> None:
        self._schema = schema
        self._fields = fields
        known = schema.get("$defs")
        self.definitions: JSONObject = dict(known) if isinstance(known, dict) else {}
        self._prefix = max(self.definitions, key=len, default="")
        """Of the names of copies, which no definition has."""
        self.names: dict[str, str] = {}
        """Those of copies, by reference."""
        self.todo: list[str] = []

    def part(self, one: Any, depth: int = 0) -> Any:
        """A schema that is applied to the artifact."""
        if not isinstance(one, dict) or depth > MAX_PARTS:
            return one
        kept = {key: self._kept(key, value, depth + 1) for key, value in one.items()}
        if kept.get("required") == []:  # Draft 4 allows no empty list.
            del kept["required"]
        return kept

    def _kept(self, key: str, value: Any, depth: int) -> Any:
        match key, value:
            case "properties", dict():
                return {name: of for name, of in value.items() if name not in self._fields}
            case "required", list():
                return self._names(value)
            case "allOf" | "anyOf" | "oneOf", list():
                return [self.part(each, depth) for each in value]
            case "dependentSchemas" | "dependentRequired" | "dependencies", dict():
                return {
                    name: self._names(each) if isinstance(each, list) else self.part(each, depth)
                    for name, each in value.items()
                }
            case "if" | "then" | "else", _:
                return self.part(value, depth)
            case "$ref", _ if value != "#" and isinstance(referred(value, self._schema), dict):
                return f"#/$defs/{self._copy(value)}"
        return value

    def _copy(self, reference: str) -> str:
        if reference not in self.names:
            self.names[reference] = f"{self._prefix}_{len(self.names) + 1}"
            self.todo.append(reference)
        return self.names[reference]

    def _names(self, names: list[Any]) -> list[Any]:
        return [name for name in names if not (isinstance(name, str) and name in self._fields)]
