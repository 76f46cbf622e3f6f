"""The keys of one mapping, taken one by one by the kind of value they must have."""

from math import isfinite
from typing import Any

from agentforge.definition.core_schema import plain_value
from agentforge.definition.diagnostics import Report
from agentforge.definition.spec import Leftover, Written
from agentforge.definition.tree import Keyed, Listed, Scalar, Tree, is_null, kind_of


class Fields:
    """Whatever has the wrong kind is reported and counts as absent; what nobody asks for is left over."""

    def __init__(self, keyed: Keyed, where: str, report: Report, left: list[Leftover] | None = None) -> None:
        self.at = keyed.at
        self.report = report
        self.left: list[Leftover] = [] if left is None else left
        """Gathered over the whole file, as each of its mappings is done with."""
        self._where = where
        self._entries = {entry.key.text: entry for entry in keyed.entries}
        self._asked: dict[str, None] = {}

    def inside(self, keyed: Keyed, where: str) -> "Fields":
        """The keys of a mapping within this one, or beside it in the same file."""
        return Fields(keyed, where, self.report, self.left)

    def key(self, name: str) -> Scalar | None:
        """The key itself, as written."""
        entry = self._entries.get(name)
        return entry.key if entry else None

    def tree(self, name: str) -> Tree | None:
        self._asked[name] = None
        entry = self._entries.get(name)
        return None if entry is None or is_null(entry.value) else entry.value

    def text(self, name: str) -> Written[str] | None:
        tree = self.tree(name)
        return None if tree is None else as_text(tree, f"`{name}`", self.report)

    def number(self, name: str) -> Written[float] | None:
        tree = self.tree(name)
        return None if tree is None else as_number(tree, f"`{name}`", self.report)

    def count(self, name: str) -> Written[int] | None:
        tree = self.tree(name)
        return None if tree is None else as_count(tree, f"`{name}`", self.report)

    def flag(self, name: str) -> Written[bool] | None:
        tree = self.tree(name)
        if tree is None:
            return None
        if isinstance(tree, Scalar) and isinstance(tree.value, bool):
            return Written(tree.value, tree.at)
        self._bad(tree, f"`{name}` must be true or false, not {kind_of(tree)}")
        return None

    def keyed(self, name: str) -> Keyed | None:
        tree = self.tree(name)
        if tree is None or isinstance(tree, Keyed):
            return tree
        self._bad(tree, f"`{name}` must be a mapping, not {kind_of(tree)}")
        return None

    def listed(self, name: str) -> Listed | None:
        tree = self.tree(name)
        if tree is None or isinstance(tree, Listed):
            return tree
        self._bad(tree, f"`{name}` must be a list, not {kind_of(tree)}")
        return None

    def some_texts(self, name: str) -> tuple[Written[str], ...] | None:
        """A list of texts; a single one needs no list."""
        tree = self.tree(name)
        if tree is None:
            return None
        items = tree.items if isinstance(tree, Listed) else (tree,)
        found = (as_text(item, f"`{name}`", self.report) for item in items)
        return tuple(text for text in found if text)

    def texts(self, name: str) -> dict[str, str]:
        """A mapping from names to texts."""
        keyed = self.keyed(name)
        found: dict[str, str] = {}
        for entry in keyed.entries if keyed else ():
            value = as_text(entry.value, f"`{name}.{entry.key.text}`", self.report)
            if value is not None:
                found[entry.key.text] = value.value
        return found

    def skip(self, *names: str) -> None:
        """Keys that are known and change nothing here."""
        for name in names:
            self._asked[name] = None

    def end(self) -> None:
        """To be called when everything was taken: the keys that nobody asked for are left over."""
        known = tuple(self._asked)
        self.left += [
            Leftover(entry.key, self._where, known)
            for name, entry in self._entries.items()
            if name not in self._asked
        ]

    def _bad(self, tree: Tree, message: str) -> None:
        self.report.error("bad-type", tree.at, message)


def as_text(tree: Tree, what: str, report: Report) -> Written[str] | None:
    """Any scalar serves as text, as it was written: `7`, `yes` and `2026-01-01` lose nothing."""
    if isinstance(tree, Scalar) and tree.value is not None:
        return Written(tree.text, tree.at)
    report.error("bad-type", tree.at, f"{what} must be text, not {kind_of(tree)}")
    return None


def as_number(tree: Tree, what: str, report: Report) -> Written[float] | None:
    value = _numeric(tree)
    if isinstance(value, int | float) and isfinite(value):
        return Written(float(value), tree.at)
    report.error("bad-type", tree.at, f"{what} must be a number, not {kind_of(tree)}")
    return None


def as_count(tree: Tree, what: str, report: Report) -> Written[int] | None:
    value = _numeric(tree)
    if isinstance(value, int):
        return Written(value, tree.at)
    report.error("bad-type", tree.at, f"{what} must be a whole number, not {kind_of(tree)}")
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
        case Scalar():
            return tree.value


def _numeric(tree: Tree) -> int | float | None:
    """The number, also where it was written in quotes."""
    if not isinstance(tree, Scalar):
        return None
    value = plain_value(tree.value) if isinstance(tree.value, str) else tree.value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
