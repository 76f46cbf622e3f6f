"""A YAML document as a tree of values with places, interpreted by the core schema of YAML 1.2.

PyYAML's own resolver follows 1.1, where `on`, `no`, `2026-01-01` and `1:30` change their meaning.
"""

import re
from typing import Generic, TypeVar

from msgspec import Struct

from agentforge.model.diagnostic import SourcePlace

T = TypeVar("T")
ScalarValue = None | bool | int | float | str
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE"))
_FALSE = frozenset(("false", "False", "FALSE"))
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NAN = frozenset((".nan", ".NaN", ".NAN"))
# Beyond 64 bits no JSON reader agrees on a number, so such digits stay text.
_MAX_INTEGER_CHARS = 24
_INTEGERS = range(-(2**63), 2**63)


class Scalar(Struct, frozen=True):
    at: SourcePlace
    text: str
    """As written, without quotes."""
    value: ScalarValue
    """The value according to the core schema."""


class Listed(Struct, frozen=True):
    at: SourcePlace
    items: "tuple[Tree, ...]"


class Entry(Struct, frozen=True):
    key: Scalar
    value: "Tree"


class Keyed(Struct, frozen=True):
    at: SourcePlace
    entries: tuple[Entry, ...]


Tree = Scalar | Listed | Keyed


class Written(Struct, Generic[T], frozen=True):
    """A value that was read, and its place in the source."""

    value: T
    at: SourcePlace


def is_null(tree: Tree) -> bool:
    return isinstance(tree, Scalar) and tree.value is None


def kind_of(tree: Tree) -> str:
    """The description of a value in messages."""
    match tree:
        case Listed():
            return "a list"
        case Keyed():
            return "a mapping"
        case Scalar(value=bool()):
            return f"the boolean `{tree.text}`"
        case Scalar(value=int() | float()):
            return f"the number `{tree.text}`"
        case Scalar(value=None):
            return "null"
        case Scalar():  # exhaustive
            return f"the text {shown(tree.text)}"


def shown(text: str, limit: int = 40) -> str:
    """A value quoted for a message, on one line and truncated."""
    line = " ".join(text.split())
    return f"`{line if len(line) <= limit else line[: limit - 1] + '…'}`"


def plain_value(text: str) -> ScalarValue:
    """The value of an unquoted scalar."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    return _number(text)


def _number(text: str) -> int | float | str:
    for pattern, base in ((_DECIMAL, 10), (_OCTAL, 8), (_HEX, 16)):
        if pattern.fullmatch(text):
            return _integer(text, base)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INFINITE.fullmatch(text):
        return float("-inf") if text.startswith("-") else float("inf")
    return float("nan") if text in _NAN else text


def _integer(text: str, base: int) -> int | str:
    if len(text) > _MAX_INTEGER_CHARS:
        return text
    number = int(text, base)
    return number if number in _INTEGERS else text
