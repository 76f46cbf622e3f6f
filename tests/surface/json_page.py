"""docs/json-output.md as data, and the comparison of what a command prints with it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

PAGE = Path(__file__).resolve().parents[2] / "docs/json-output.md"
LINK = re.compile(r"\[([^]]+)\]\(#[^)]+\)")
CODE = re.compile(r"`([^`]+)`")
REMARK = re.compile(r"\([^)]*\)")


class Key(Struct):
    """What is documented about the value of a key."""

    optional: bool = False
    in_list: bool = False
    """Whether the value is a list, and the rest is about its elements."""
    free: bool = False
    """Whether the value is any JSON."""
    object: str = ""
    """The name of the object that the value is."""
    keys: "dict[str, Key]" = field(default_factory=dict)


class Page(Struct):
    """The objects that commands print, by the name of the command, and the keys of each object."""

    commands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    lists: set[str] = field(default_factory=set)
    """The commands that print a list of objects."""
    objects: dict[str, Key] = field(default_factory=dict)

    @property
    def paths(self) -> dict[str, set[str]]:
        """All paths of each object; those of objects within it are their own."""
        return {name: {path for path, _ in _flat(key.keys)} for name, key in self.objects.items()}


def read_page(text: str) -> Page:
    page, heading = Page(), ""
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("| `"):
            names, value = (cell.strip() for cell in line.strip("|").split(" | ", 1))
            if heading == "Commands":
                _read_command(page, CODE.findall(names), value)
            else:
                _read_keys(page.objects.setdefault(heading, Key()), names, value)
    return page


def _read_command(page: Page, names: list[str], value: str) -> None:
    objects = tuple(LINK.findall(value))
    if not objects:
        keys = CODE.findall(REMARK.sub("", value))
        objects = (names[0],)
        whole = page.objects.setdefault(names[0], Key(free=not keys))
        for key in keys:
            _read_keys(whole, f"`{key.removeprefix('[].')}`", "")
    page.commands.update(dict.fromkeys(names, objects))
    if value.startswith("`[]"):
        page.lists.update(names)


def _read_keys(whole: Key, names: str, value: str) -> None:
    for path in CODE.findall(names):
        key = whole
        for name in path.split("."):
            key = key.keys.setdefault(name.removesuffix("[]"), Key())
            key.in_list |= name.endswith("[]")
        key.optional |= names.endswith("(optional)")
        key.free |= value.startswith("any JSON")
        if found := LINK.match(value):
            key.object = found[1]


def _flat(keys: dict[str, Key], prefix: str = "") -> Iterator[tuple[str, Key]]:
    for name, key in keys.items():
        path = f"{prefix}{name}{'[]' if key.in_list else ''}"
        if key.keys:
            yield from _flat(key.keys, f"{path}.")
        if key.object or not key.keys:
            yield path, key


class Spot(Struct, frozen=True):
    """Where a value was found."""

    command: str
    object: str
    """The object that it is in."""
    path: str = ""
    """Within this object."""

    def inner(self, name: str, key: Key) -> "Spot":
        dot = "." if self.path else ""
        return Spot(self.command, self.object, f"{self.path}{dot}{name}{'[]' if key.in_list else ''}")


class Comparison:
    """Compares printed values with the page, and collects the paths that had a value."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.problems: set[str] = set()
        self.seen: dict[str, set[str]] = {name: set() for name in page.objects}

    def unseen(self, object: str) -> set[str]:
        return {f"{object}: {path}" for path in self._page.paths[object] - self.seen[object]}

    def compare(self, value: Any, object: str, command: str) -> None:
        if command in self._page.lists:
            self.compare_all(value, object, command)
        else:
            self._value(value, self._whole(object), Spot(command, object))

    def compare_all(self, values: list[Any], object: str, command: str) -> None:
        for value in values:
            self._value(value, self._whole(object), Spot(command, object))
        if not values:
            self._report(Spot(command, object), "not printed")

    def _whole(self, object: str) -> Key:
        return Key(free=self._page.objects[object].free, object=object)

    def _value(self, value: Any, key: Key, spot: Spot) -> None:
        if key.free or not (key.keys or key.object):
            self.seen[spot.object].add(spot.path)
            if not key.free and _has_keys(value):
                self._report(spot, "its keys are not documented")
            return
        for one in value or () if key.in_list else [value]:
            if isinstance(one, dict):
                self.seen[spot.object].add(spot.path)
                self._object(one, key, spot)
            elif one is not None:
                self._report(spot, f"expected an object, found {one!r}")

    def _object(self, value: dict[str, Any], key: Key, spot: Spot) -> None:
        documented = [(key.keys, spot)]
        if key.object:
            keys = self._page.objects[key.object].keys
            documented.append((keys, Spot(spot.command, key.object)))
        for keys, here in documented:
            for name, inner in keys.items():
                if name in value:
                    self._value(value[name], inner, here.inner(name, inner))
                elif not inner.optional:
                    self._report(here.inner(name, inner), "missing")
        for name in set(value).difference(*(keys for keys, _ in documented)):
            self._report(spot, f"{name!r} is not documented")

    def _report(self, spot: Spot, what: str) -> None:
        self.problems.add(f"{spot.command}: {spot.object}: {spot.path}: {what}")


def _has_keys(value: Any) -> bool:
    return any(isinstance(one, dict) for one in (value if isinstance(value, list) else [value]))
