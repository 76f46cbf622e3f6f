"""A YAML mapping as a table of its keys, which reads it, validates it and describes it as JSON Schema."""

from collections.abc import Callable, Collection
from typing import Any, Generic, TypeVar

from msgspec import Struct

from agentforge.definition.diagnostics import Report
from agentforge.definition.read.values import Required, Schema, ValueKind, as_mapping
from agentforge.definition.yaml.tree import Entry, Keyed, Listed, Scalar, Tree, is_null, kind_of, shown
from agentforge.model.diagnostic import SourcePlace, did_you_mean, is_misspelt

T = TypeVar("T")

OWN = "x-"
"""Keys that begin with it are the user's own, and left alone."""


class Key(Struct, frozen=True):
    name: str
    kind: ValueKind
    about: str
    """For editors, which show it beside the key."""
    deprecated: bool = False


class Entries(Struct, frozen=True):
    """What was found in one mapping."""

    keyed: Keyed
    report: Report
    written: dict[str, Entry]
    values: dict[str, Any]
    """By key, as its kind read them; without those that couldn't be read."""

    @property
    def at(self) -> SourcePlace:
        return self.keyed.at

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    def key(self, name: str) -> Scalar | None:
        """The key itself, as written."""
        return self.written[name].key if name in self.written else None

    def tree(self, name: str) -> Tree | None:
        """The value as written, or None if it is missing or null."""
        entry = self.written.get(name)
        return None if entry is None or is_null(entry.value) else entry.value

    def of(self, keys: Collection[Key]) -> "Entries":
        """The entries of these keys alone."""
        names = {key.name for key in keys}
        values = {name: value for name, value in self.values.items() if name in names}
        return Entries(self.keyed, self.report, self.written, values)


class Table(Struct, Generic[T], frozen=True):
    where: str
    """The word for such a mapping in messages."""
    keys: tuple[Key, ...]
    build: Callable[[Entries], T]
    """Makes the spec of what was read; validates what concerns several keys."""
    name: str = ""
    """In the definitions of the schema; one without a name is written out where it is used."""
    prefix: str = ""
    """Before the names of its keys in messages, such as `retry.`"""
    required: tuple[Required, ...] = ()
    later: frozenset[str] = frozenset()
    """Keys with a meaning that this version doesn't have yet. Ignoring one would silently drop a promise."""
    is_open: bool = False
    """Whether further keys are somebody else's to understand."""

    def read(self, keyed: Keyed, report: Report, skipped: Collection[str] = ()) -> T:
        """`skipped` are keys about which the report has something to say already."""
        entries = Entries(keyed, report, {entry.key.text: entry for entry in keyed.entries}, {})
        for key in self.keys:
            tree = entries.tree(key.name)
            value = None if tree is None else key.kind.read(tree, f"`{self.prefix}{key.name}`", report)
            if value is not None:
                entries.values[key.name] = value
        self._diagnose_unknown(entries, skipped)
        for required in self.required:
            if required.message and not any(entries.tree(name) for name in required.names):
                null = [entries.written[name].key.at for name in required.names if name in entries.written]
                required.tell((*null, keyed.at)[0], report)
        return self.build(entries)

    def read_short(self, name: str, value: Any, at: SourcePlace, report: Report) -> T:
        """As if the mapping had this one key."""
        return self.build(Entries(Keyed(at, ()), report, {}, {name: value}))

    def kind_of_key(self, name: str) -> ValueKind:
        return next(key.kind for key in self.keys if key.name == name)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        if not self.name:
            return self.written_out(definitions)
        if self.name not in definitions:
            definitions[self.name] = self.written_out(definitions)
        return {"$ref": f"#/definitions/{self.name}"}

    def written_out(self, definitions: dict[str, Schema]) -> Schema:
        schema: Schema = {"type": "object", "properties": {}}
        for key in self.keys:
            old = {"deprecated": True, "deprecationMessage": key.about} if key.deprecated else {}
            schema["properties"][key.name] = {**key.kind.schema(definitions), "description": key.about, **old}
        if not self.is_open:
            schema["patternProperties"] = {misspellings([key.name for key in self.keys]): False}
            schema["properties"] |= dict.fromkeys(sorted(self.later), False)
        schema["required"] = [one.names[0] for one in self.required if len(one.names) == 1]
        several = [one.names for one in self.required if len(one.names) > 1]
        schema["allOf"] = [{"anyOf": [{"required": [name]} for name in names]} for names in several]
        return {keyword: value for keyword, value in schema.items() if value}

    def _diagnose_unknown(self, entries: Entries, skipped: Collection[str]) -> None:
        known = {key.name for key in self.keys}
        for name, entry in entries.written.items():
            at, what = entry.key.at, f"unknown key {shown(name)} in {self.where}"
            if name in known or name in skipped or self.is_open or name.startswith(OWN):
                continue
            if name in self.later:
                hint = "remove the key; this version would not honour it"
                entries.report.error("unsupported", at, f"not supported yet: {self.prefix}{name}", hint)
            elif is_misspelt(name, known):
                # Ignored, it could leave an agent unconfined or without its limits.
                entries.report.error("unknown-key", at, what, did_you_mean(name, known))
            else:
                hint = did_you_mean(name, known) or f"known keys: {', '.join(sorted(known))}"
                entries.report.warning("unknown-key", at, f"{what} is ignored", hint)


class Nested(Struct, frozen=True):
    """The kind of a key whose value is a mapping with a table of its own."""

    table: Table[Any]
    short: str = ""
    """The key that a plain value stands for: `sandbox: bwrap` is `sandbox: {type: bwrap}`."""
    plain: ValueKind | None = None
    """What may stand instead of the mapping and means something else."""

    def read(self, tree: Tree, name: str, report: Report) -> Any:
        if isinstance(tree, Keyed):
            return self.table.read(tree, report)
        if self.plain:
            return self.plain.read(tree, name, report)
        if not self.short:
            as_mapping(tree, name, report)
            return None
        if isinstance(tree, Listed):
            report.error("bad-type", tree.at, f"{name} must be text or a mapping, not {kind_of(tree)}")
            return None
        value = self.table.kind_of_key(self.short).read(tree, name, report)
        return None if value is None else self.table.read_short(self.short, value, tree.at, report)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        mapping = self.table.schema(definitions)
        plain = self.table.kind_of_key(self.short) if self.short else self.plain
        return {"anyOf": [plain.schema(definitions), mapping]} if plain else mapping


def misspellings(names: Collection[str]) -> str:
    """A pattern for one typing mistake in one of the names: a letter too many, too few, another one, or two
    that are swapped. JSON Schema can't say how alike words are, so the compiler refuses some more."""
    slips: dict[str, None] = {}
    for name in sorted(names):
        if len(name) < 4:
            continue  # Nearly everything short is one mistake away from it.
        for i in range(len(name)):
            before, char, after = name[:i], name[i], name[i + 1 :]
            slips |= {f"{before}.?{after}": None, f"{before}.{char}{after}": None}
            slips |= {f"{before}{after[0]}{char}{after[1:]}": None} if after else {f"{name}.": None}
    return f"^(?!(?:{'|'.join(sorted(names))})$)(?:{'|'.join(slips)})$"
