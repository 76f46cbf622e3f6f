"""The schema of an artifact as an argument of a CLI that can enforce one."""

import re
from typing import Any

import msgspec

from agentforge.model.result import JSONObject

# The CLIs, and the APIs that they call, know less than the engine, and refuse the whole request because of a
# keyword that they don't know. So a schema is passed only if all of it is known everywhere: the keywords of
# draft 7 that have the same meaning in later ones, and patterns that every regular expression engine reads
# alike. The prompt has the schema anyway, and the engine checks the artifact itself.

MAX_SCHEMA_BYTES = 32 * 1024
"""An argument can't be much longer; a longer schema would also cost its tokens twice."""
_DRAFTS = re.compile(r"https?://json-schema\.org/(draft-0[67]|draft/20\d\d-\d\d)/schema#?")
_NOT_AT_TOP = frozenset({"$ref", "allOf", "anyOf", "oneOf", "not", "enum", "const"})
"""What the input of a tool can't have at its top."""
_WITH_SCHEMA = frozenset({"items", "contains", "additionalProperties", "propertyNames", "not"})
_WITH_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf"})
_BY_NAME = frozenset({"properties", "definitions", "$defs"})
_PLAIN = frozenset(
    {
        *("$ref", "$comment", "title", "description", "default", "examples", "readOnly", "writeOnly"),
        *("type", "enum", "const", "format", "pattern", "minLength", "maxLength"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minItems", "maxItems", "uniqueItems", "required", "minProperties", "maxProperties"),
    }
)
_KNOWN = _WITH_SCHEMA | _WITH_SCHEMAS | _BY_NAME | _PLAIN
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_QUANTIFIER = r"(?:[*+?]\??|\{\d+(?:,\d*)?\}\??)?+"
_PATTERN = re.compile(
    rf"(?:(?:[A-Za-z0-9_ \-:,;/@#%&=~!'\"<>.]|\\[dwsDWS.]|\[\^?(?:[A-Za-z0-9_ :,;/@#.-]|\\[dws.-])++\]|\))"
    rf"{_QUANTIFIER}|[|^$]|\((?:\?:)?)*+"
)


def schema_argument(schema: JSONObject | None) -> str:
    """The schema as JSON, or "" if it can't be passed."""
    if schema is None or schema.get("type") != "object" or schema.keys() & _NOT_AT_TOP:
        return ""
    if not _DRAFTS.fullmatch(str(schema.get("$schema", "http://json-schema.org/draft-07/schema"))):
        return ""
    schema = {key: value for key, value in schema.items() if key not in ("$schema", "$id")}
    written = msgspec.json.encode(schema)
    return written.decode() if len(written) <= MAX_SCHEMA_BYTES and _is_known(schema) else ""


def _is_known(schema: JSONObject) -> bool:
    todo: list[Any] = [schema]
    while todo:
        one = todo.pop()
        if isinstance(one, bool):
            continue
        if not isinstance(one, dict) or not one.keys() <= _KNOWN:
            return False
        named = [one.get(key, {}) for key in _BY_NAME]
        if not all(isinstance(schemas, dict) for schemas in named):
            return False
        if not all(_PROPERTY.fullmatch(name) for name in one.get("properties", {})):
            return False
        if not _PATTERN.fullmatch(str(one.get("pattern", ""))):
            return False
        todo += [value for key, value in one.items() if key in _WITH_SCHEMA]
        todo += [inner for key in _WITH_SCHEMAS for inner in one.get(key, ())]
        todo += [inner for schemas in named for inner in schemas.values()]
    return True
