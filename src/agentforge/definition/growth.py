"""How a tree grows from parser events, within bounds: depth, size with aliases written out, unique keys."""

from typing import NoReturn

from agentforge.definition.core_schema import plain_value
from agentforge.definition.diagnostics import Report
from agentforge.definition.tree import Entry, Keyed, Listed, Scalar, ScalarValue, Tree, kind_of
from agentforge.model.diagnostic import Place

MAX_DEPTH = 64
MAX_NODES = 50_000

_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS: dict[str, tuple[type, ...]] = {
    _TAG + "int": (int,),
    _TAG + "float": (float, int),
    _TAG + "bool": (bool,),
    _TAG + "null": (type(None),),
}


class Refused(Exception):
    """Reading ended early; the report says why."""


class _Grown:
    """A finished value, with its size and depth as if all aliases were written out."""

    __slots__ = ("depth", "size", "tree")

    def __init__(self, tree: Tree, size: int, depth: int) -> None:
        self.tree = tree
        self.size = size
        self.depth = depth


class _Open:
    """A list or mapping whose end hasn't come yet."""

    __slots__ = ("anchor", "at", "children", "keyed")

    def __init__(self, at: Place, anchor: str | None, *, keyed: bool) -> None:
        self.at = at
        self.anchor = anchor
        self.keyed = keyed
        self.children: list[_Grown] = []


class Growth:
    def __init__(self, file: str, report: Report) -> None:
        self.root: Tree | None = None
        self._file = file
        self._report = report
        self._open: list[_Open] = []
        self._anchors: dict[str, _Grown] = {}
        self._documents = 0

    def begin_document(self, line: int, column: int) -> None:
        self._documents += 1
        if self._documents > 1:
            self._refuse(
                "syntax", self._place(line, column), "a file holds one document; this begins another"
            )

    def scalar(
        self, line: int, column: int, text: str, tag: str | None, anchor: str | None, *, plain: bool
    ) -> None:
        at = self._place(line, column)
        if any("\ud800" <= char <= "\udfff" for char in text):
            self._refuse("syntax", at, "an escape stands for half a character", hint="write the character")
        value = self._tagged(at, text, tag) if tag else plain_value(text) if plain else text
        self._add(_Grown(Scalar(at, text, value), 1, 1), anchor)

    def alias(self, line: int, column: int, anchor: str) -> None:
        at = self._place(line, column)
        if any(opened.anchor == anchor for opened in self._open):
            self._refuse("syntax", at, f"the alias `*{anchor}` stands inside what it refers to")
        grown = self._anchors.get(anchor)
        if grown is None:
            self._refuse("syntax", at, f"the alias `*{anchor}` has no anchor `&{anchor}` before it")
        self._add(grown, None)

    def open(self, line: int, column: int, tag: str | None, anchor: str | None, *, keyed: bool) -> None:
        at = self._place(line, column)
        if tag not in (None, "!", _TAG + ("map" if keyed else "seq")):
            self._report.error("bad-tag", at, f"the tag `{tag}` isn't known here", hint="remove it")
        self._open.append(_Open(at, anchor, keyed=keyed))
        if len(self._open) > MAX_DEPTH:
            self._too_deep(at)

    def close(self) -> None:
        opened = self._open.pop()
        size = 1 + sum(child.size for child in opened.children)
        depth = 1 + max((child.depth for child in opened.children), default=0)
        if size > MAX_NODES:
            self._refuse(
                "too-large", opened.at, f"with its aliases written out this has over {MAX_NODES} values"
            )
        if depth > MAX_DEPTH:
            self._too_deep(opened.at)
        values = [child.tree for child in opened.children]
        tree: Tree = self._keyed(opened.at, values) if opened.keyed else Listed(opened.at, tuple(values))
        self._add(_Grown(tree, size, depth), opened.anchor)

    def _add(self, grown: _Grown, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = grown
        if self._open:
            self._open[-1].children.append(grown)
        else:
            self.root = grown.tree

    def _keyed(self, at: Place, values: list[Tree]) -> Keyed:
        entries: dict[str, Entry] = {}
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, Scalar):
                self._report.error("bad-type", key.at, f"a key must be text, not {kind_of(key)}")
            elif key.text == "<<":
                self._report.error(
                    "unsupported", key.at, "merge keys (`<<`) aren't part of YAML 1.2", hint="repeat the keys"
                )
            elif key.text in entries:
                first = entries[key.text].key.at.line
                self._report.error(
                    "duplicate-key", key.at, f"the key `{key.text}` is there already, on line {first}"
                )
            else:
                entries[key.text] = Entry(key, value)
        return Keyed(at, tuple(entries.values()))

    def _tagged(self, at: Place, text: str, tag: str) -> ScalarValue:
        if tag in ("!", _TAG + "str"):
            return text
        kinds = _SCALAR_TAGS.get(tag)
        if kinds is None:
            self._report.error("bad-tag", at, f"the tag `{tag}` isn't known here", hint="remove it")
            return text
        value = plain_value(text)
        if type(value) not in kinds:
            short = tag.removeprefix(_TAG)
            self._report.error("bad-tag", at, f"`{text}` isn't what the tag `!!{short}` says")
        return value

    def _too_deep(self, at: Place) -> NoReturn:
        self._refuse("too-large", at, f"values are nested more than {MAX_DEPTH} deep")

    def _refuse(self, code: str, at: Place, message: str, hint: str = "") -> NoReturn:
        self._report.error(code, at, message, hint)
        raise Refused

    def _place(self, line: int, column: int) -> Place:
        return Place(self._file, line + 1, column + 1)
