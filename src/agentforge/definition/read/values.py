"""The kinds of value that a key can have: each reads, validates and describes it as JSON Schema.

A value of the wrong type is reported and counts as absent; one that is out of range is reported and kept.
"""

from math import isfinite
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.diagnostics import Report
from agentforge.definition.specs import Written
from agentforge.definition.yaml.tree import Keyed, Listed, Scalar, Tree, kind_of, plain_value, shown
from agentforge.model.diagnostic import SourcePlace, choice

Schema = dict[str, Any]

MAX_RUNS = 1_000_000
MAX_SECONDS = 365 * 24 * 3600.0

_SWITCH = {"on": True, "off": False}
_WHOLE = r"^[-+]?[0-9]+$"
_NUMBER = r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$"


class ValueKind(Protocol):
    def read(self, tree: Tree, name: str, report: Report) -> Any:
        """The value, or None if the report says why not; `name` is the key as messages quote it."""

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """The kind as JSON Schema; mappings with a name of their own are added to `definitions`."""


class Required(Struct, frozen=True):
    """One of these keys has to be there, and what to say if none is."""

    names: tuple[str, ...]
    message: str = ""
    """Without one only the schema requires them: the compiler reports it later, in other words."""
    hint: str = ""
    code: str = "missing-key"

    def tell(self, at: SourcePlace, report: Report) -> None:
        report.error(self.code, at, self.message, self.hint)


class Text(Struct, frozen=True):
    options: tuple[str, ...] = ()
    """The only values that are allowed."""
    proposed: tuple[str, ...] = ()
    """For the schema alone: values that can only be validated once several files are merged."""

    def read(self, tree: Tree, name: str, report: Report) -> Written[str] | None:
        text = as_text(tree, name, report)
        if text and self.options and text.value not in self.options:
            hint = choice(text.value, "values", self.options)
            report.error("bad-value", text.at, f"{name} can't be {shown(text.value)}", hint)
        return text

    def schema(self, _: dict[str, Schema]) -> Schema:
        allowed = self.options or self.proposed
        return {"enum": list(allowed)} if allowed else {"type": ["string", "number", "boolean"]}


class Number(Struct, frozen=True):
    low: float
    high: float
    noun: str = "a number"
    whole: bool = False
    above_low: bool = False
    """Whether `low` itself is out of range; leaving the key out then means no limit."""

    def read(self, tree: Tree, name: str, report: Report) -> Written[Any] | None:
        value = _numeric(tree)
        if value is None or not isfinite(value) or (self.whole and not isinstance(value, int)):
            report.error("bad-type", tree.at, f"{name} must be {self.noun}, not {kind_of(tree)}")
            return None
        number = Written(value if self.whole else float(value), tree.at)
        self.validate(number, name, report)
        return number

    def validate(self, number: Written[Any], name: str, report: Report) -> None:
        if self.above_low and number.value == self.low:
            message = f"{name} must be more than {self.low:g}"
            report.error("bad-value", number.at, message, hint="leave the key out for no limit")
        elif not self.low <= number.value <= self.high:
            message = f"{name} must be from {self.low:g} to {self.high:,.0f}, not {number.value:g}"
            report.error("bad-value", number.at, message)

    def schema(self, _: dict[str, Schema]) -> Schema:
        """Numbers in quotes are understood, too."""
        return {
            "type": ["integer" if self.whole else "number", "string"],
            "exclusiveMinimum" if self.above_low else "minimum": self.low,
            "maximum": self.high,
            "pattern": _WHOLE if self.whole else _NUMBER,
            "patternErrorMessage": f"must be {self.noun}",
        }


class Flag(Struct, frozen=True):
    switch: bool = False
    """Whether `on` and `off`, which are plain words in YAML 1.2, are understood as well."""

    def read(self, tree: Tree, name: str, report: Report) -> Written[bool] | None:
        if isinstance(tree, Scalar) and isinstance(tree.value, bool):
            return Written(tree.value, tree.at)
        if self.switch and isinstance(tree, Scalar) and tree.text in _SWITCH:
            return Written(_SWITCH[tree.text], tree.at)
        words = "on or off" if self.switch else "true or false"
        report.error("bad-type", tree.at, f"{name} must be {words}, not {kind_of(tree)}")
        return None

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"enum": [*_SWITCH, True, False]} if self.switch else {"type": "boolean"}


class Texts(Struct, frozen=True):
    """A mapping from names to texts."""

    def read(self, tree: Tree, name: str, report: Report) -> dict[str, str] | None:
        keyed = as_mapping(tree, name, report)
        found = {
            entry.key.text: as_text(entry.value, f"`{name.strip('`')}.{entry.key.text}`", report)
            for entry in (keyed.entries if keyed else ())
        }
        return {key: text.value for key, text in found.items() if text}

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"type": "object", "additionalProperties": Text().schema(definitions)}


class ListOf(Struct, frozen=True):
    item: ValueKind
    or_one: bool = False
    """Whether a single item needs no list."""
    required: Required | None = None
    """For lists that make no sense without items."""

    def read(self, tree: Tree, name: str, report: Report) -> tuple[Any, ...] | None:
        if not isinstance(tree, Listed) and not self.or_one:
            report.error("bad-type", tree.at, f"{name} must be a list, not {kind_of(tree)}")
            return None
        items = tree.items if isinstance(tree, Listed) else (tree,)
        if self.required and not items:
            self.required.tell(tree.at, report)
        found = (self.item.read(item, name, report) for item in items)
        return tuple(item for item in found if item is not None)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        item = self.item.schema(definitions)
        several: Schema = {"type": "array", "items": item, **({"minItems": 1} if self.required else {})}
        return {"anyOf": [item, several]} if self.or_one else several


class Anything(Struct, frozen=True):
    """Of a key that is known and not interpreted."""

    def read(self, tree: Tree, name: str, report: Report) -> None:  # noqa: ARG002 - a kind's signature
        return None

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {}


TEXT = Text()
SOME_TEXTS = ListOf(TEXT, or_one=True)
FLAG = Flag()
COUNT = Number(1, MAX_RUNS, "a whole number", whole=True)
SECONDS = Number(0, MAX_SECONDS, "a number of seconds")
TIME_LIMIT = replace(SECONDS, above_low=True)


def as_text(tree: Tree, what: str, report: Report) -> Written[str] | None:
    """Any scalar serves as text, as it was written: `7`, `yes` and `2026-01-01` lose nothing."""
    if isinstance(tree, Scalar) and tree.value is not None:
        return Written(tree.text, tree.at)
    report.error("bad-type", tree.at, f"{what} must be text, not {kind_of(tree)}")
    return None


def as_mapping(tree: Tree, what: str, report: Report) -> Keyed | None:
    if isinstance(tree, Keyed):
        return tree
    report.error("bad-type", tree.at, f"{what} must be a mapping, not {kind_of(tree)}")
    return None


def as_data(tree: Tree, what: str, report: Report) -> Any:
    """The user's own data, as JSON knows it."""
    match tree:
        case Keyed():
            return {entry.key.text: as_data(entry.value, what, report) for entry in tree.entries}
        case Listed():
            return [as_data(item, what, report) for item in tree.items]
        case Scalar(value=float()) if isinstance(tree.value, float) and not isfinite(tree.value):
            report.error("bad-value", tree.at, f"{what} holds `{tree.text}`, which JSON can't carry")
            return None
        case Scalar():  # exhaustive
            return tree.value


def _numeric(tree: Tree) -> int | float | None:
    """The number, also where it was written in quotes."""
    if not isinstance(tree, Scalar):
        return None
    value = plain_value(tree.value) if isinstance(tree.value, str) else tree.value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
