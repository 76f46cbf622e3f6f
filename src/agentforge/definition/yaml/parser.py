"""First pass: YAML text to a tree with places.

Built from the parser's events rather than its composer, so that depth and the growth through aliases are
bounded while reading, and the values follow YAML 1.2 whichever loader is installed.
"""

import re
from hashlib import sha256
from posixpath import isabs, join, normpath
from typing import Any, NamedTuple, NoReturn

import yaml
from msgspec import Struct
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from agentforge.definition.diagnostics import Report
from agentforge.definition.yaml.tree import (
    Entry,
    Keyed,
    Listed,
    Scalar,
    ScalarValue,
    Tree,
    kind_of,
    plain_value,
)
from agentforge.model.diagnostic import SourcePlace

MAX_DEPTH = 64
MAX_NODES = 50_000

_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS: dict[str, tuple[type, ...]] = {
    _TAG + "int": (int,),
    _TAG + "float": (float, int),
    _TAG + "bool": (bool,),
    _TAG + "null": (type(None),),
}
MAX_TEXT_CHARS = 1_000_000
# The characters that YAML allows, apart from surrogates, which stand for bytes that aren't UTF-8.
_NOT_ALLOWED = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
FASTEST_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlRefused(Exception):
    """Reading ended early; the report says why."""


class _Grown(NamedTuple):
    """A finished value, with its size and depth as if all aliases were written out."""

    tree: Tree
    size: int
    depth: int


class _Open(Struct):
    """A list or mapping whose end hasn't come yet."""

    at: SourcePlace
    anchor: str | None
    keyed: bool
    children: list[_Grown] = []


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
        self._open.append(_Open(at, anchor, keyed))
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

    def _keyed(self, at: SourcePlace, values: list[Tree]) -> Keyed:
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

    def _tagged(self, at: SourcePlace, text: str, tag: str) -> ScalarValue:
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

    def _too_deep(self, at: SourcePlace) -> NoReturn:
        self._refuse("too-large", at, f"values are nested more than {MAX_DEPTH} deep")

    def _refuse(self, code: str, at: SourcePlace, message: str, hint: str = "") -> NoReturn:
        self._report.error(code, at, message, hint)
        raise YamlRefused

    def _place(self, line: int, column: int) -> SourcePlace:
        return SourcePlace(self._file, line + 1, column + 1)


def absolute(root: str, path: str) -> str:
    return normpath(path if isabs(path) else join(root, path))


def relative(root: str, path: str) -> str:
    """Relative to the root where the path lies inside it, else absolute; plans and messages name files so."""
    root, path = normpath(root), normpath(path)
    return path.removeprefix(root.rstrip("/") + "/")


class SourceText(Struct, frozen=True):
    """A file's text; bytes that aren't UTF-8 arrive as surrogates and are reported."""

    file: str
    """The name that diagnostics show: relative to the project where it lies inside."""
    text: str

    @property
    def sha256(self) -> str:
        return sha256(self.text.encode("utf-8", "surrogateescape")).hexdigest()

    @property
    def start(self) -> SourcePlace:
        return SourcePlace(self.file, 1, 1)


def parse_mapping(source: SourceText, report: Report, loader: Any = FASTEST_LOADER) -> Keyed | None:
    """The document as a mapping, or None if the report says why not."""
    tree = parse_value(source, report, loader)
    if tree is None:
        return None
    if not isinstance(tree, Keyed):
        report.error("not-a-mapping", tree.at, "the file must hold a mapping", hint="begin with `name: …`")
        return None
    return tree


def parse_value(source: SourceText, report: Report, loader: Any = FASTEST_LOADER) -> Tree | None:
    """The document, whatever it is, or None if the report says why not."""
    report.add_text(source.file, source.text)
    return _parse(source, report, loader) if _is_readable(source, report) else None


def _is_readable(source: SourceText, report: Report) -> bool:
    if len(source.text) > MAX_TEXT_CHARS:
        report.error("too-large", source.start, f"the file is longer than {MAX_TEXT_CHARS} characters")
        return False
    bad = _NOT_ALLOWED.search(source.text.removeprefix("\ufeff"))
    if bad is None:
        return True
    at = _place_of(source, bad.start() + source.text.startswith("\ufeff"))
    if _SURROGATE.match(bad.group()):
        report.error("bad-encoding", at, "the file isn't UTF-8 text", hint="save it as UTF-8")
    else:
        report.error("syntax", at, f"the character U+{ord(bad.group()):04X} isn't allowed in YAML")
    return False


def _place_of(source: SourceText, index: int) -> SourcePlace:
    lines = re.split("\r\n|[\n\r\x85\u2028\u2029]", source.text[:index])
    return SourcePlace(source.file, len(lines), len(lines[-1].removeprefix("\ufeff")) + 1)


def _parse(source: SourceText, report: Report, loader: Any) -> Tree | None:
    growth = Growth(source.file, report)
    try:
        for event in yaml.parse(source.text, Loader=loader):
            _feed(growth, event)
    except YamlRefused:
        return None
    except yaml.MarkedYAMLError as error:
        _syntax_error(source, report, error)
        return None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # The pure loader lets some impossible escapes through to chr().
        report.error("syntax", source.start, f"not valid YAML: {error}")
        return None
    if growth.root is None:
        report.error("empty", source.start, "the file is empty", hint="begin with `name: …`")
    return growth.root


def _feed(growth: Growth, event: yaml.Event) -> None:
    line, column = (event.start_mark.line, event.start_mark.column) if event.start_mark else (0, 0)
    match event:
        case DocumentStartEvent():
            growth.begin_document(line, column)
        case ScalarEvent():
            growth.scalar(line, column, event.value, event.tag, event.anchor, plain=not event.style)
        case AliasEvent():
            growth.alias(line, column, str(event.anchor))
        case SequenceStartEvent() | MappingStartEvent():
            keyed = isinstance(event, MappingStartEvent)
            growth.open(line, column, event.tag, event.anchor, keyed=keyed)
        case SequenceEndEvent() | MappingEndEvent():
            growth.close()


def _syntax_error(source: SourceText, report: Report, error: yaml.MarkedYAMLError) -> None:
    mark = error.problem_mark or error.context_mark
    at = SourcePlace(source.file, mark.line + 1, mark.column + 1) if mark else source.start
    problem = error.problem or error.context or "not valid YAML"
    hint = ""
    if report.line(at)[at.col - 1 : at.col] == "\t":
        problem, hint = "a tab can't be used for indentation", "replace it by spaces"
    elif error.context and error.problem:
        hint = f"found {error.context}"
    report.error("syntax", at, f"not valid YAML: {problem}", hint)
