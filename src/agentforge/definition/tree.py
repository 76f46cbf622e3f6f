"""A YAML document as it was written: values with their places, nothing interpreted beyond the core schema."""

from msgspec import Struct

from agentforge.model.diagnostic import Place

ScalarValue = None | bool | int | float | str


class Scalar(Struct, frozen=True):
    at: Place
    text: str
    """As written, without quotes."""
    value: ScalarValue
    """What the core schema makes of it."""


class Listed(Struct, frozen=True):
    at: Place
    items: "tuple[Tree, ...]"


class Entry(Struct, frozen=True):
    key: Scalar
    value: "Tree"


class Keyed(Struct, frozen=True):
    at: Place
    entries: tuple[Entry, ...]


Tree = Scalar | Listed | Keyed


def is_null(tree: Tree) -> bool:
    return isinstance(tree, Scalar) and tree.value is None


def kind_of(tree: Tree) -> str:
    """The word for a value's kind in messages."""
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
        case Scalar():
            return f"the text {shown(tree.text)}"


def shown(text: str, limit: int = 40) -> str:
    """A value quoted in a message, on one line and not endless."""
    line = " ".join(text.split())
    return f"`{line if len(line) <= limit else line[: limit - 1] + '…'}`"
