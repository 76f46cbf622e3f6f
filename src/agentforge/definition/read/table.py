"""A YAML mapping as a table of its keys. A row says everything about a plain key: the reader, the JSON
Schema, precedence, lowering and `dry-run` loop over the rows.

A mapping takes three forms on its way to the plan. `Entries`: its keys as they are written, while it is read.
`MappingSpec`: the values of its keys, with their places. Then, with the levels merged, fields of the plan.
"""

# Specs used to be classes that mirrored the plan, field by field, with functions that merged and copied each
# of them. A key cost five files, and one that was read but not copied had no effect, without a warning. Now
# every row without `field=None` is lowered, and a test compares the fields that rows name with the plan.
#
# A row stays data: what a key means together with others is code in `build_work`, `precedence` or `lower`,
# and the row says so with `field=None`. Values keep their places until they are lowered, as rules about
# merged levels must point at the line that brought the value.

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.read.values import Number, Required, Schema, ValueKind, as_mapping
from agentforge.definition.report import Report
from agentforge.definition.yaml_tree import (
    Entry,
    Keyed,
    Listed,
    Scalar,
    Tree,
    Written,
    is_null,
    kind_of,
    shown,
)
from agentforge.model.diagnostic import USER_PREFIX, SourcePlace, did_you_mean, is_misspelled

T = TypeVar("T")

Merge = Callable[[Sequence[Any]], Any]
"""Merges the values of a key at several levels, weakest first; None: as if no level had the key."""


def strongest(values: Sequence[Any]) -> Any:
    """The value of the strongest level: lists, texts and numbers aren't merged."""
    return values[-1]


def by_key(values: Sequence[Any]) -> Any:
    """Mappings are merged: each of their keys comes from the strongest level that has it."""
    if isinstance(last := values[-1], MappingSpec):
        return replace(last, values={name: value for one in values for name, value in one.values.items()})
    return {name: value for one in values for name, value in one.items()}


def plain(value: Any) -> Any:
    """A value as the plan has it, without its places."""
    match value:
        case Written():
            return value.value
        case tuple():
            return tuple(map(plain, value))
        case MappingSpec():
            return value.lowered()
        case _:
            return value


def unique(values: Any) -> tuple[Any, ...]:
    """The values of a list, each once."""
    return tuple(dict.fromkeys(plain(values)))


class Key(Struct, frozen=True):
    name: str
    kind: ValueKind
    about: str
    """Description shown by editors."""
    deprecated: bool = False
    field: str | None = ""
    """The field of the plan that it sets, if it has another name. None: code sets it."""
    merge: Merge = strongest
    lower: Callable[[Any], Any] = plain
    """Turns the merged value into that of the field."""
    shown: str = ""
    """`Title: text {}`, how `dry-run` shows the field if it is set; keys with one title share a line."""

    def merged(self, levels: Iterable[Mapping[str, Any]]) -> Any:
        """The value in force, or None; levels weakest first."""
        given = [level[self.name] for level in levels if self.name in level]
        return self.merge(given) if given else None


def fields(keys: Iterable[Key], levels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of the plan that these keys set; what no level has keeps the default of the plan."""
    found: dict[str, Any] = {}
    for key in keys:
        if key.field is not None and (value := key.merged(levels)) is not None:
            found[key.field or key.name] = key.lower(value)
    return {name: value for name, value in found.items() if value is not None}


class MappingSpec(Struct, frozen=True):
    """A mapping that was read."""

    table: "Table[Any]"
    at: SourcePlace
    values: dict[str, Any] = {}
    """By key; without those that are missing or invalid."""

    def get(self, name: str) -> Any:
        return self.values.get(name)

    def fields(self) -> dict[str, Any]:
        return fields(self.table.keys, [self.values])

    def lowered(self) -> Any:
        """The table's part of the plan; None if no key sets a field of it."""
        found = self.fields()
        return self.table.plan(**found) if self.table.plan and found else None


class Entries(Struct, frozen=True):
    """The entries of one mapping, while it is read."""

    table: "Table[Any]"
    keyed: Keyed
    report: Report
    written: dict[str, Entry]
    values: dict[str, Any]
    """Parsed values by key; invalid ones are omitted."""

    @property
    def at(self) -> SourcePlace:
        return self.keyed.at

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    def key(self, name: str) -> Scalar | None:
        """The key as written, or None."""
        return self.written[name].key if name in self.written else None

    def tree(self, name: str) -> Tree | None:
        """The value as written, or None if it is missing or null."""
        entry = self.written.get(name)
        return None if entry is None or is_null(entry.value) else entry.value

    def of(self, keys: Collection[Key]) -> "Entries":
        """The entries of these keys only."""
        names = {key.name for key in keys}
        return replace(self, values={name: value for name, value in self.values.items() if name in names})

    def spec(self) -> MappingSpec:
        return MappingSpec(self.table, self.at, self.values)


class Table(Struct, Generic[T], frozen=True):
    where: str
    """The name of such a mapping in messages."""
    keys: tuple[Key, ...]
    build: Callable[[Entries], T] = Entries.spec  # type: ignore[assignment]  # T is then MappingSpec
    """Builds the spec and validates combinations of keys."""
    plan: Callable[..., Any] | None = None
    """The part of the plan whose fields the keys set."""
    name: str = ""
    """Name in the schema's definitions; without a name the schema is inlined."""
    prefix: str = ""
    """Prefix of key names in messages, such as `retry.`"""
    required: tuple[Required, ...] = ()
    unsupported: frozenset[str] = frozenset()
    """Keys that this version doesn't support yet. Ignoring one would silently drop a setting."""
    misplaced: dict[str, str] = {}
    """Keys that belong elsewhere, each with the hint where. Ignoring one would silently drop a setting."""
    foreign: dict[str, str] = {}
    """Keys of other tools, each with the hint what to write instead. Unlike the ones above, they mean nothing
    here: a key that resembles one isn't a misspelling of it."""
    is_open: bool = False
    """Whether unknown keys are allowed because another component reads them."""
    is_closed: bool = False
    """Whether all unknown keys are errors: ignoring one would drop a limit."""

    def read(self, keyed: Keyed, report: Report, skipped: Collection[str] = ()) -> T:
        """`skipped` are keys that were already reported."""
        entries = Entries(self, keyed, report, {entry.key.text: entry for entry in keyed.entries}, {})
        for key in self.keys:
            tree = entries.tree(key.name)
            if key.name in entries.written and isinstance(key.kind, Number) and key.kind.is_cap:
                tree = entries.written[key.name].value
            value = None if tree is None else key.kind.read(tree, f"`{self.prefix}{key.name}`", report)
            if value is not None:
                entries.values[key.name] = value
        self._diagnose_unknown(entries, skipped)
        for required in self.required:
            if required.message and not any(entries.tree(name) for name in required.names):
                null = [entries.written[name].key.at for name in required.names if name in entries.written]
                required.report_missing((*null, keyed.at)[0], report)
        return self.build(entries)

    def read_short(self, name: str, value: Any, at: SourcePlace, report: Report) -> T:
        """Read a value as if it were a mapping with this one key."""
        return self.build(Entries(self, Keyed(at, ()), report, {}, {name: value}))

    def kind_of_key(self, name: str) -> ValueKind:
        return next(key.kind for key in self.keys if key.name == name)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        if not self.name:
            return self.inline_schema(definitions)
        if self.name not in definitions:
            definitions[self.name] = self.inline_schema(definitions)
        return {"$ref": f"#/definitions/{self.name}"}

    def inline_schema(self, definitions: dict[str, Schema]) -> Schema:
        schema: Schema = {"type": "object", "properties": {}}
        for key in self.keys:
            old = {"deprecated": True, "deprecationMessage": key.about} if key.deprecated else {}
            schema["properties"][key.name] = {**key.kind.schema(definitions), "description": key.about, **old}
        if not self.is_open:
            schema["patternProperties"] = {misspellings(self._names): False}
        if self.is_closed:
            schema["patternProperties"][f"^{USER_PREFIX}"] = {}
        schema["properties"] |= dict.fromkeys(sorted(self._refused | self.foreign.keys()), False)
        schema["required"] = [one.names[0] for one in self.required if len(one.names) == 1]
        several = [one.names for one in self.required if len(one.names) > 1]
        schema["allOf"] = [{"anyOf": [{"required": [name]} for name in names]} for names in several]
        closed = {"additionalProperties": False} if self.is_closed else {}
        return {keyword: value for keyword, value in schema.items() if value} | closed

    @property
    def _refused(self) -> frozenset[str]:
        return self.unsupported | self.misplaced.keys()

    @property
    def _names(self) -> frozenset[str]:
        """All keys that mean something, also those that are refused here."""
        return self._refused.union(key.name for key in self.keys)

    # A key that looks like a known one is an error, any other unknown key a warning. Refusing all would break
    # the files of the shell engine, which ignored what it didn't know; ignoring `sandbx: bwrap` would run an
    # agent unconfined.
    def _diagnose_unknown(self, entries: Entries, skipped: Collection[str]) -> None:
        known = {key.name for key in self.keys}
        for name, entry in entries.written.items():
            at, what = entry.key.at, f"unknown key {shown(name)} in {self.where}"
            if name in known or name in skipped or name.startswith(USER_PREFIX):
                continue
            if hint := self.misplaced.get(name) or self.foreign.get(name):
                message = f"misplaced key {shown(name)} in {self.where}"
                entries.report.error("misplaced-key", at, message, hint)
            elif self.is_open:
                continue
            elif name in self.unsupported:
                hint = "remove the key; this version does not support it"
                entries.report.error("unsupported", at, f"`{self.prefix}{name}` is not supported yet", hint)
            elif is_misspelled(name, self._names):
                entries.report.error("unknown-key", at, what, did_you_mean(name, self._names))
            else:
                hint = did_you_mean(name, known) or f"known keys: {', '.join(sorted(known))}"
                if self.is_closed:
                    entries.report.error("unknown-key", at, what, hint)
                else:
                    entries.report.warning("unknown-key", at, f"{what} is ignored", hint)


def mapping_of(table: Table[Any], **values: Written[Any] | None) -> MappingSpec | None:
    """A mapping with the values that are given, at the place of the first; None if there are none."""
    given = {name: value for name, value in values.items() if value is not None}
    return MappingSpec(table, next(iter(given.values())).at, given) if given else None


class Nested(Struct, frozen=True):
    """The kind of a key whose value is a mapping with its own table."""

    table: Table[Any]
    short: str = ""
    """The key that a plain value is short for: `sandbox: bwrap` is `sandbox: {type: bwrap}`."""
    plain: ValueKind | None = None
    """An alternative kind of value with its own meaning."""
    shape: str = ""
    """The hint for another kind of value."""

    def read(self, tree: Tree, name: str, report: Report) -> Any:
        if isinstance(tree, Keyed):
            return self.table.read(tree, report)
        if self.plain:
            return self.plain.read(tree, name, report)
        if not self.short:
            as_mapping(tree, name, report, self.shape)
            return None
        if isinstance(tree, Listed):
            report.error("bad-type", tree.at, f"{name} must be text or a mapping, got {kind_of(tree)}")
            return None
        value = self.table.kind_of_key(self.short).read(tree, name, report)
        return None if value is None else self.table.read_short(self.short, value, tree.at, report)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        mapping = self.table.schema(definitions)
        plain = self.table.kind_of_key(self.short) if self.short else self.plain
        return {"anyOf": [plain.schema(definitions), mapping]} if plain else mapping


def misspellings(names: Collection[str]) -> str:
    """A pattern for one typo in one of the names: an extra, missing, wrong or swapped letter. JSON Schema
    can't compute similarity, so the compiler rejects some more."""
    slips: dict[str, None] = {}
    for name in sorted(names):
        if len(name) < 4:
            continue  # Too many short words are one typo away.
        for i in range(len(name)):
            before, char, after = name[:i], name[i], name[i + 1 :]
            slips |= {f"{before}.?{after}": None, f"{before}.{char}{after}": None}
            slips |= {f"{before}{after[0]}{char}{after[1:]}": None} if after else {f"{name}.": None}
    return f"^(?!(?:{'|'.join(sorted(names))})$)(?:{'|'.join(slips)})$"
