"""docs/events.md: the types of events and their fields, from the facts."""

import ast
import inspect
import re
import types
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from importlib import import_module
from itertools import groupby
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from agentforge.model.artifact import Artifact, ContextUse, OmittedPart, PlannedItem
from agentforge.model.check import FilesBefore
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.facts import FACTS, AnyFact, JudgeResult
from agentforge.model.plan import Plan
from agentforge.model.result import Artifacts, Result, Signals, Usage, WorkReport
from agentforge.model.state import RunSettings, Waiver

INTRODUCTION = """\
# Events

Use this page to read the log of a run from a program. `agentforge tail SESSION --json` prints its events,
one JSON object a line; `engine.events(session)` and `engine.subscribe()` return them in Python
([sdk](sdk.md)).

This page is generated from `src/agentforge/model/facts/` by `make docs`.

| key of an event | value |
|---|---|
| `seq` | number: the position in the log, counted from 1 |
| `type` | text: one of the types below |
| `timestamp` | time, in UTC |
| `session` | text: the name of the run |
| `cursor` | [position](#objects) in the plan; `null` for events of the whole run |
| `data` | the fields of the type, below |
| `trace_id` | text: the same for all events of a run |

In `data`, a field with a default is left out if it has that value, unless the table says "always written".
Programs should ignore types and fields that they don't know.
"""
OBJECTS: dict[type[Struct], str] = {
    Cursor: "position",
    Destination: "destination",
    Result: "result",
    Usage: "usage",
    JudgeResult: "judgment",
    WorkReport: "work",
    Artifacts: "artifacts",
    Signals: "signals",
    RunSettings: "settings",
    Waiver: "waiver",
    FilesBefore: "files",
    Artifact: "artifact",
    PlannedItem: "item",
    ContextUse: "context use",
    OmittedPart: "omitted part",
}
PLAIN = {
    str: "text",
    int: "number",
    float: "number",
    bool: "true or false",
    datetime: "time",
    type(None): "`null`",
    Any: "any value",
}


def events_page() -> str:
    return "".join([INTRODUCTION, *_sections(), "\n## Objects\n", *map(_object, OBJECTS)])


def _sections() -> Iterator[str]:
    for module, kinds in groupby(FACTS.values(), lambda kind: kind.__module__):
        title, _, _ = (import_module(module).__doc__ or "").partition(":")
        yield f"\n## {title}\n"
        yield from map(_event, kinds)


def _event(kind: type[AnyFact]) -> str:
    return f"\n### `{kind.TYPE}`\n\n{text_of(kind)}\n\n{_table(kind)}"


def _object(kind: type[Struct]) -> str:
    title = OBJECTS[kind]
    return f"\n**{title[0].upper()}{title[1:]}**: {text_of(kind)}\n\n{_table(kind)}"


def text_of(kind: type[Struct]) -> str:
    return _text(kind.__doc__)


def _text(written: str | None) -> str:
    return re.sub(r"\bNone\b", "`null`", " ".join((written or "").split()))


def _table(kind: type[Struct]) -> str:
    hints, notes = get_type_hints(kind), _field_texts(kind)
    rows = ["| field | value | default | |\n|---|---|---|---|\n"]
    for field in msgspec.structs.fields(kind):
        shown = _type(hints[field.name])
        rows.append(
            f"| `{field.encode_name}` | {shown} | {_default(field)} | {notes.get(field.name, '')} |\n"
        )
    return "".join(rows)


def _type(hint: Any) -> str:
    if hint in PLAIN:
        return PLAIN[hint]
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        parts = [_type(part) for part in get_args(hint)]
        return " or ".join(dict.fromkeys(parts))
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in get_args(hint))
    if origin in (tuple, list):
        return f"list of {_type(get_args(hint)[0])}"
    if origin is dict:
        return f"{_type(get_args(hint)[1])} by name"
    return _class(hint)


def _class(hint: type) -> str:
    if issubclass(hint, Enum):
        values = [f"`{member.value}`" for member in hint]
        return ", ".join(values) if len(values) < 6 else "text: a kind of failure"
    if hint in OBJECTS:
        return f"[{OBJECTS[hint]}](#objects)"
    return "the plan, as in `plan.json`" if hint is Plan else "object"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
        if isinstance(value, str | int):
            return f"`{_json(value)}`, always written"
        return "empty" if not isinstance(value, dict | tuple) or not value else f"`{_json(value)}`"
    if field.default is msgspec.UNSET:
        return "left out"
    return "" if field.default is msgspec.NODEFAULT else f"`{_json(field.default)}`"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _field_texts(kind: type[Struct]) -> dict[str, str]:
    """The text below each field in the source, also of inherited fields."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, Struct) and base is not Struct:
            found |= _own_texts(base)
    return found


def _own_texts(kind: type[Struct]) -> dict[str, str]:
    (body,) = [node for node in ast.parse(inspect.getsource(kind)).body if isinstance(node, ast.ClassDef)]
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                found[name] = _text(words)
    return found
