"""The schemas of artifacts: finds them, checks them, and tells which fields they name."""

# A schema is read when a person starts the run, as all that a plan names (`lower`). In a file of its own it
# is JSON and not YAML, as editors and other tools expect. For the place of a mistake it is read once more, as
# YAML, of which JSON is a part: the reader of definitions keeps places.

import re
from collections.abc import Iterator, Mapping
from posixpath import dirname, join
from typing import Any

import msgspec
from msgspec import Struct

from agentforge.definition.precedence import merged
from agentforge.definition.read.artifact_keys import is_schema
from agentforge.definition.read.values import as_data
from agentforge.definition.report import Report, SourceText, absolute, relative
from agentforge.definition.specs import ResolvedStage
from agentforge.definition.yaml_tree import Keyed, Listed, Scalar, Tree, Written, parse_value, shown
from agentforge.model.agent_schema import referred
from agentforge.model.artifact import ArtifactRule
from agentforge.model.diagnostic import SourcePlace, choice
from agentforge.model.errors import NOT_JSON
from agentforge.model.plan_limits import MAX_SCHEMA_BYTES
from agentforge.model.result import JSONObject
from agentforge.model.secrets import REFERENCE
from agentforge.ports.sources import MAX_SOURCE_BYTES, Sources

FOLDER = "schemas"
"""Of the built-in ones."""
_SUFFIX = ".json"
_BYTE = re.compile(r"\(byte (\d+)\)")


class _Read(Struct, frozen=True):
    schema: Any
    source: str
    """The file or the name; empty for one in the definition."""
    tree: Keyed | None = None
    """As written in the definition."""
    text: SourceText | None = None
    """Of its file."""

    def place(self, path: tuple[str | int, ...]) -> SourcePlace:
        """Where it has that part, or the last of the parts around it that can be found."""
        tree: Tree | None = self.tree
        if self.text:
            # YAML allows no tabs before a value.
            tree = parse_value(SourceText(self.text.file, self.text.text.replace("\t", " ")), Report())
        at = tree.at if tree else self.text.start if self.text else SourcePlace("", 1, 1)
        for step in path:
            if isinstance(tree, Keyed):
                tree = next((one.value for one in tree.entries if one.key.text == step), None)
            elif isinstance(tree, Listed) and isinstance(step, int) and step < len(tree.items):
                tree = tree.items[step]
            at = tree.at if tree else at
        return at


class Schemas:
    """Of one compilation; each schema is read and checked once."""

    def __init__(self, sources: Sources, report: Report) -> None:
        self._sources = sources
        self._report = report
        self._known: dict[SourcePlace, _Read | None] = {}

    def rule(self, stage: ResolvedStage) -> ArtifactRule | None:
        """What the artifact of the stage must look like. None: it has none, or the report has the error."""
        spec = merged(stage, "artifact")
        written: Tree | None = spec.get("schema") if spec else None
        if spec is None or written is None:
            self._report_without_schema(stage)
            return None
        if written.at not in self._known:
            self._known[written.at] = self._checked(written)
        found = self._known[written.at]
        if found is None:
            return None
        self._check_fill(spec.get("fill") or {}, found.schema)
        for field in spec.get("result") or ():
            self._check_named(field, found.schema)
        return ArtifactRule(found.schema, found.source, **spec.fields())

    def _report_without_schema(self, stage: ResolvedStage) -> None:
        """Defaults may have the rest for stages that have a schema."""
        own = stage.spec.work.get("artifact") or stage.stage_work.get("artifact")
        if own and stage.is_found:
            hint = "add `schema: …`: a built-in name, a file or the schema itself"
            self._report.error("missing-key", own.at, "`artifact` has no `schema`", hint)

    def _check_fill(self, fill: Mapping[str, Written[str]], schema: JSONObject) -> None:
        named = fields_of(schema)
        for field, source in fill.items():
            types = [types_of(one, schema) for one in named.get(field, ())]
            if (
                self._check_named(Written(field, source.at), schema)
                and types
                and not any(one is None or "string" in one for one in types)
            ):
                text = "an id" if source.value == "id" else "the text of the user request"
                message = f"{shown(field)} is filled with {text}"
                hint = "write `type: string` for it in the schema"
                self._report.error("bad-value", source.at, f"{message}, which the schema refuses", hint)

    def _check_named(self, field: Written[str], schema: JSONObject) -> bool:
        named = fields_of(schema)
        if field.value in named or not is_closed(schema):
            return True
        message = f"the schema allows no field {shown(field.value)}"
        self._report.error("unknown-field", field.at, message, choice(field.value, "fields", named))
        return False

    def _checked(self, written: Tree) -> _Read | None:
        if isinstance(written, Keyed):
            read: _Read | None = _Read(as_data(written, "the schema", self._report), "", tree=written)
        else:
            read = self._read(written) if is_schema(written) else None
        return read if read and self._is_usable(read) else None

    def _read(self, named: Tree) -> _Read | None:
        assert isinstance(named, Scalar)
        name, project = named.text, self._sources.project
        is_file = name.endswith(_SUFFIX) or "/" in name
        if is_file:
            inline = named.at.file.startswith("<")
            folder = project if inline else dirname(absolute(project, named.at.file))
            path = absolute(folder, name)
        else:
            path = join(self._sources.builtin, FOLDER, f"{name}{_SUFFIX}")
        content = self._sources.read(path)
        if content is None:
            self._report_missing(named, path if is_file else None)
            return None
        text = SourceText(relative(project, path), content.removeprefix("\ufeff"))
        self._report.add_text(text.file, text.text)
        return self._decoded(text, text.file if is_file else name)

    def _report_missing(self, named: Scalar, path: str | None) -> None:
        """`path`: of the file, if it is one."""
        code, name = "missing-schema", shown(named.text)
        if path is None:
            code, message = "unknown-schema", f"no built-in schema is named {name}"
            known = choice(named.text, "schemas", schema_names(self._sources))
            hint = f"{known}; the name of a file ends in `.json`"
        elif self._sources.is_dir(path):
            message, hint = f"the schema file {name} is a folder", "name a file in it"
        else:
            message = f"no schema file {name}; looked for {relative(self._sources.project, path)}"
            hint = "create it, or correct the path"
        self._report.error(code, named.at, message, hint)

    def _decoded(self, text: SourceText, source: str) -> _Read | None:
        if len(text.text) > MAX_SOURCE_BYTES:
            message = f"the schema is larger than {MAX_SCHEMA_BYTES:,} bytes"
            self._report.error("too-large", text.start, message)
            return None
        try:
            return _Read(msgspec.json.decode(text.text), source, text=text)
        except NOT_JSON as error:
            problem = str(error).partition("\n")[0][:200]
            self._report.error("syntax", _place_of(error, text), f"the schema is not valid JSON: {problem}")
            return None

    def _is_usable(self, read: _Read) -> bool:
        problem, schema = self._sources.schema_problem(read.schema), read.schema
        if problem:
            at, hint = read.place(problem.path), _meant(schema, problem.path)
            self._report.error("bad-schema", at, f"invalid schema: {problem.message}", hint)
            return False
        encoded = msgspec.json.encode(schema)
        if len(encoded) > MAX_SCHEMA_BYTES:
            message = f"the schema has {len(encoded):,} bytes; the maximum is {MAX_SCHEMA_BYTES:,}"
            self._report.error("too-large", read.place(()), message, "describe less of the artifact")
            return False
        if read.text and REFERENCE in read.text.text:
            self._report.refuse_reference(REFERENCE, read.place(()))
            return False
        if (types := types_of(schema, schema)) is not None and "object" not in types:
            at = read.place(("type",))
            said = " or ".join(sorted(types)) or "no type"
            message = f"an artifact is a JSON object; the schema says {said}"
            hint = "write `type: object`, and the rest below `properties`"
            self._report.error("not-an-object", at, message, hint)
            return False
        return True


def schema_names(sources: Sources) -> list[str]:
    """Of the built-in schemas."""
    names = sources.listing(join(sources.builtin, FOLDER))
    return [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]


_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def _meant(schema: Any, path: tuple[str | int, ...]) -> str:
    """The hint for a wrong type, which is the most common mistake."""
    for step in path:
        schema = schema[step]
    is_type = isinstance(schema, str) and "type" in path[-2:]
    return choice(schema, "types", _TYPES) if is_type else ""


def _place_of(error: Exception, text: SourceText) -> SourcePlace:
    found = _BYTE.search(str(error))
    before = text.text.encode("utf-8", "surrogateescape")[: int(found[1]) if found else 0]
    lines = before.decode("utf-8", "replace").split("\n")
    return SourcePlace(text.file, len(lines), len(lines[-1]) + 1)


def fields_of(schema: JSONObject) -> dict[str, list[Any]]:
    """The fields that it names, each with its schemas; empty: it says nothing about fields."""
    found: dict[str, list[Any]] = {}
    for part in _parts(schema, schema):
        properties = part.get("properties")
        for name, inner in properties.items() if isinstance(properties, Mapping) else ():
            found.setdefault(name, []).append(inner)
    return found


def is_closed(schema: JSONObject) -> bool:
    """Whether an artifact can only have the fields that are named."""
    keys = ("additionalProperties", "unevaluatedProperties")
    return "patternProperties" not in schema and any(schema.get(key) is False for key in keys)


def types_of(schema: Any, root: JSONObject) -> frozenset[str] | None:
    """The types that a value can have; None: the schema doesn't say."""
    named = [part["type"] for part in _parts(schema, root, alternatives=False) if "type" in part]
    sets = [frozenset([one] if isinstance(one, str) else one) for one in named]
    return frozenset.intersection(*sets) if sets else None


_ALTERNATIVES = ("anyOf", "oneOf", "if", "then", "else")


def _parts(schema: Any, root: JSONObject, *, alternatives: bool = True) -> Iterator[JSONObject]:
    """The schema, and those that are applied to the same value."""
    todo, seen = [schema], set[int]()
    while todo:
        part = todo.pop()
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        for key in ("allOf", *(_ALTERNATIVES if alternatives else ())):
            inner = part.get(key, ())
            todo += inner if isinstance(inner, list) else [inner]
        todo.append(referred(part.get("$ref"), root))
