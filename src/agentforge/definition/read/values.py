"""The kinds of value that a key can have: each reads and validates it, and describes it as JSON Schema.

A value of the wrong type is reported and ignored; one that is out of range is reported and kept.
"""

import re
from math import isfinite
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.report import Report
from agentforge.definition.yaml_tree import Keyed, Listed, Scalar, Tree, Written, kind_of, plain_value, shown
from agentforge.model.diagnostic import SourcePlace, choice
from agentforge.model.names import control_character
from agentforge.model.plan_limits import (
    MAX_COMMAND,
    MAX_PORT,
    MAX_RUNS,
    MAX_SECONDS,
    MAX_URL,
    MAX_USD,
    NAME_PATTERN,
    VARIABLE_PATTERN,
    is_address,
    is_variable_name,
    wrong_port,
)
from agentforge.model.request import MAX_SPENT_TOKENS
from agentforge.model.secrets import can_be_secret

Schema = dict[str, Any]

NO_LIMIT = "omit the key for no limit"
_SWITCH = {"on": True, "off": False}
_WHOLE = r"^[-+]?[0-9]+$"
_NUMBER = r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$"


# A kind reads and describes: an editor that follows the schema and the compiler must agree on every value, or
# people stop trusting one of them. tests/definition/test_keys.py compares the two for every row.
class ValueKind(Protocol):
    def read(self, tree: Tree, name: str, report: Report) -> Any:
        """The value, or None with an error in the report; `name` is the key as quoted in messages."""

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """The kind as JSON Schema; named mappings are added to `definitions`."""


class Required(Struct, frozen=True):
    """One of these keys is required; `message` is reported if all are missing."""

    names: tuple[str, ...]
    message: str = ""
    """If empty, only the schema requires the keys: the compiler reports it later with its own message."""
    hint: str = ""
    code: str = "missing-key"

    def report_missing(self, at: SourcePlace, report: Report) -> None:
        report.error(self.code, at, self.message, self.hint)


class Text(Struct, frozen=True):
    options: tuple[str, ...] = ()
    """The allowed values; empty: any."""
    proposed: tuple[str, ...] = ()
    """For the schema only: values that are validated after several files are merged."""
    prose: bool = False
    """Whether it is a text instead of a name, a model or a path: then it may have lines."""
    inside: bool = False
    """Whether it is a path that must stay in the project."""
    longest: int | None = None
    """The maximum number of characters."""
    only_text: bool = False
    """Whether it must be written as text that isn't empty: a number or a boolean is a mistake."""

    def read(self, tree: Tree, name: str, report: Report) -> Written[str] | None:
        if self.only_text and not (isinstance(tree, Scalar) and isinstance(tree.value, str)):
            report.error("bad-type", tree.at, f"{name} must be text, got {kind_of(tree)}")
            return None
        text = as_text(tree, name, report)
        if text and self.only_text and not text.value.strip():
            report.error("bad-value", text.at, f"{name} is empty", hint="remove it to use the default")
        if text and text.value in self.options:
            # The option itself, not an equal text: msgspec omits a default only if it is the same object.
            text = Written(self.options[self.options.index(text.value)], text.at)
        if text and not self.prose:
            refuse_control_characters(text.value, name, text.at, report)
        if text and self.options and text.value not in self.options:
            hint = choice(text.value, "values", self.options)
            report.error("bad-value", text.at, f"invalid value {shown(text.value)} for {name}", hint)
        if text and self.inside and leaves_project(text.value):
            message = f"{name} leads outside the project: {shown(text.value)}"
            report.error("bad-value", text.at, message, hint="use a path relative to the project")
        if text and self.longest is not None and len(text.value) > self.longest:
            message = f"{name} has {len(text.value):,} characters; the maximum is {self.longest:,}"
            report.error("bad-value", text.at, message, hint="shorten it")
        return text

    def schema(self, _: dict[str, Schema]) -> Schema:
        if allowed := self.options or self.proposed:
            return {"enum": list(allowed)}
        limit = {"maxLength": self.longest} if self.longest is not None else {}
        return {"type": "string" if self.only_text else ["string", "number", "boolean"], **limit}


class Name(Struct, frozen=True):
    """A name that appears in commands and logs, or another text of one form, which is kept as it is written.
    Not a boolean: its writer takes the key for a switch."""

    pattern: str = NAME_PATTERN
    noun: str = "a name"
    hint: str = "use letters, digits, `.`, `_` and `-`"

    def read(self, tree: Tree, name: str, report: Report) -> Written[str] | None:
        text = tree.text if isinstance(tree, Scalar) and not isinstance(tree.value, bool) else None
        if text is not None and re.fullmatch(self.pattern, text):
            return Written(text, tree.at)
        code = "bad-type" if text is None else "bad-value"
        report.error(code, tree.at, f"{name} must be {self.noun}, got {kind_of(tree)}", self.hint)
        return None

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"type": ["string", "number"], "pattern": f"^{self.pattern}$"}


def leaves_project(path: str) -> bool:
    """Whether a path is absolute, or leads above the folder that it is relative to."""
    depth = 0
    for step in path.split("/"):
        depth += -1 if step == ".." else step not in ("", ".")
        if depth < 0:
            return True
    return path.startswith("/")


class Number(Struct, frozen=True):
    low: float
    high: float
    noun: str = "a number"
    whole: bool = False
    above_low: bool = False
    """Whether `low` itself is out of range; omitting the key then means no limit."""
    is_cap: bool = False
    """Whether it bounds what is spent: then a key without a value is a mistake, not the same as no key."""

    def read(self, tree: Tree, name: str, report: Report) -> Written[Any] | None:
        value = tree.value if isinstance(tree, Scalar) else None
        value = plain_value(value) if isinstance(value, str) else value
        is_number = isinstance(value, int) if self.whole else isinstance(value, int | float)
        if not is_number or isinstance(value, bool | str | None) or not isfinite(value):
            message = f"{name} must be {self.noun}, got {kind_of(tree)}"
            report.error("bad-type", tree.at, message, NO_LIMIT if self.is_cap else "")
            return None
        number = Written(value if self.whole else float(value), tree.at)
        self.validate(number, name, report)
        return number

    def validate(self, number: Written[Any], name: str, report: Report) -> None:
        is_lowest = self.above_low and number.value == self.low
        if self.low <= number.value <= self.high and not is_lowest:
            return
        least = f"greater than {self.low:g} and at most" if self.above_low else f"from {self.low:g} to"
        message = f"{name} must be {least} {self.high:,.0f}, got {number.value:.15g}"
        report.error("bad-value", number.at, message, NO_LIMIT if is_lowest or self.is_cap else "")

    def schema(self, _: dict[str, Schema]) -> Schema:
        """Numbers in quotes are accepted, too."""
        return {
            "type": ["integer" if self.whole else "number", "string"],
            "exclusiveMinimum" if self.above_low else "minimum": self.low,
            "maximum": self.high,
            "pattern": _WHOLE if self.whole else _NUMBER,
            "patternErrorMessage": f"must be {self.noun}",
        }


class Flag(Struct, frozen=True):
    switch: bool = False
    """Whether `on` and `off`, which are strings in YAML 1.2, are accepted as well."""
    mapping: str = ""
    """For the message: the keys of the mapping that is accepted instead."""

    def read(self, tree: Tree, name: str, report: Report) -> Written[bool] | None:
        if isinstance(tree, Scalar) and isinstance(tree.value, bool):
            return Written(tree.value, tree.at)
        if self.switch and isinstance(tree, Scalar) and tree.text in _SWITCH:
            return Written(_SWITCH[tree.text], tree.at)
        words = "on or off" if self.switch else "true or false"
        if self.mapping:
            words = f"true, false or a mapping with {self.mapping}"
        report.error("bad-type", tree.at, f"{name} must be {words}, got {kind_of(tree)}")
        return None

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"enum": [*_SWITCH, True, False]} if self.switch else {"type": "boolean"}


class Texts(Struct, frozen=True):
    """A mapping from names to strings."""

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
    """Whether a single item is accepted instead of a list."""
    required: Required | None = None
    """Set for lists that must not be empty."""
    longest: int | None = None

    def read(self, tree: Tree, name: str, report: Report) -> tuple[Any, ...] | None:
        if not isinstance(tree, Listed) and not self.or_one:
            report.error("bad-type", tree.at, f"{name} must be a list, got {kind_of(tree)}")
            return None
        items = tree.items if isinstance(tree, Listed) else (tree,)
        if self.required and not items:
            self.required.report_missing(tree.at, report)
        if self.longest is not None and len(items) > self.longest:
            message = f"{name} has {len(items):,} items; the maximum is {self.longest:,}"
            report.error("too-large", tree.at, message)
        found = (self.item.read(item, name, report) for item in items)
        return tuple(item for item in found if item is not None)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        item = self.item.schema(definitions)
        several: Schema = {"type": "array", "items": item, **({"minItems": 1} if self.required else {})}
        if self.longest is not None:
            several["maxItems"] = self.longest
        return {"anyOf": [item, several]} if self.or_one else several


class Anything(Struct, frozen=True):
    """The kind of a key that is accepted but not interpreted."""

    def read(self, tree: Tree, name: str, report: Report) -> None:  # noqa: ARG002 - a kind's signature
        return None

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {}


class Given(Struct, frozen=True):
    """The kind of a key whose only value is `true`, because it is always so."""

    reason: str
    hint: str = ""

    def read(self, tree: Tree, name: str, report: Report) -> None:
        if not isinstance(tree, Scalar) or tree.value is not True:
            report.error("bad-type", tree.at, f"{name} can only be true: {self.reason}", self.hint)

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"const": True}


class Address(Struct, frozen=True):
    """The address of a web service."""

    def read(self, tree: Tree, name: str, report: Report) -> str | None:
        text = Text(longest=MAX_URL).read(tree, name, report)
        if text is None:
            return None
        if "@" in text.value.partition("//")[2].partition("/")[0]:
            report.hide(text.value)
            hint = "sign the messages with `secret`; a definition contains no passwords"
            report.error("secret-in-file", text.at, f"{name} contains a user or a password", hint)
        elif port := wrong_port(text.value):
            message = f"the port of {name} must be from 1 to {MAX_PORT}, got {shown(port)}"
            report.error("bad-value", text.at, message)
        elif not is_address(text.value):
            hint = "for example `https://reviews.example.com/hook`"
            message = f"{name} must be an http or https address, got {shown(text.value)}"
            report.error("bad-value", text.at, message, hint)
        return text.value

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://[^/@]+(/.*)?$", "maxLength": MAX_URL}


class CommandKind(Struct, frozen=True):
    """A command line of the shell."""

    def read(self, tree: Tree, name: str, report: Report) -> str | None:
        text = Text(prose=True, longest=MAX_COMMAND).read(tree, name, report)
        if text and not text.value.strip():
            report.error("bad-value", text.at, f"{name} is empty", hint="write a command")
        if text and "\0" in text.value:
            report.error("control-character", text.at, f"{name} contains a null character", hint="remove it")
        return text.value if text else None

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"type": ["string", "number", "boolean"], "pattern": r"\S", "maxLength": MAX_COMMAND}


class NamedVariable(Struct, frozen=True):
    """The name of an environment variable."""

    is_secret: bool = False
    """Whether the variable holds a secret. Then what isn't a name may be the secret itself."""

    def read(self, tree: Tree, name: str, report: Report) -> str | None:
        text = as_text(tree, name, report)
        if text is None or is_variable_name(text.value):
            return text.value if text else None
        message = f"{name} must be the name of an environment variable"
        if self.is_secret:
            if can_be_secret(text.value):
                report.hide(text.value)
            hint = (
                "set a variable, such as REVIEW_SECRET, and write its name; a definition contains no secrets"
            )
            report.error("bad-value", text.at, message, hint)
        else:
            report.error(
                "bad-value", text.at, f"{message}, got {shown(text.value)}", "for example `CI_TOKEN`"
            )
        return None

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"type": "string", "pattern": f"^{VARIABLE_PATTERN}$"}


TEXT = Text()
MODEL = Text(only_text=True)
PROSE = Text(prose=True)
SOME_TEXTS = ListOf(TEXT, or_one=True)
FLAG = Flag()
COUNT = Number(1, MAX_RUNS, "a whole number", whole=True)
SECONDS = Number(0, MAX_SECONDS, "a number of seconds")
MONEY = Number(0, MAX_USD, "a number of US dollars", above_low=True, is_cap=True)
TOKENS = Number(1, MAX_SPENT_TOKENS, "a whole number", whole=True, is_cap=True)
TIME_LIMIT = replace(SECONDS, above_low=True)
ADDRESS = Address()
COMMAND = CommandKind()
SECRET = NamedVariable(is_secret=True)


def as_text(tree: Tree, what: str, report: Report) -> Written[str] | None:
    """Any scalar is accepted as text and kept as written: `7`, `yes`, `2026-01-01`."""
    if isinstance(tree, Scalar) and tree.value is not None:
        return Written(tree.text, tree.at)
    report.error("bad-type", tree.at, f"{what} must be text, got {kind_of(tree)}")
    return None


def refuse_control_characters(value: str, what: str, at: SourcePlace, report: Report) -> None:
    """A terminal would obey them, or show another name than the one that is used."""
    if found := control_character(value):
        message = f"{what} contains the control character {found}"
        report.error("control-character", at, message, hint="remove it; names and paths have one line")


def as_mapping(tree: Tree, what: str, report: Report, hint: str = "") -> Keyed | None:
    if isinstance(tree, Keyed):
        return tree
    report.error("bad-type", tree.at, f"{what} must be a mapping, got {kind_of(tree)}", hint)
    return None


def as_data(tree: Tree, what: str, report: Report) -> Any:
    """The user's data as JSON values."""
    match tree:
        case Keyed():
            return {entry.key.text: as_data(entry.value, what, report) for entry in tree.entries}
        case Listed():
            return [as_data(item, what, report) for item in tree.items]
        case Scalar(value=float()) if isinstance(tree.value, float) and not isfinite(tree.value):
            report.error("bad-value", tree.at, f"{what} contains `{tree.text}`, which is not valid JSON")
            return None
        case Scalar():  # exhaustive
            return tree.value
