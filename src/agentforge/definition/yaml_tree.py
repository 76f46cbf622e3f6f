"""First pass: YAML text to a tree of values with places."""

# PyYAML parses; what it gives is a stream of events with their marks. Its composer and constructor are not
# used:
#
# - They recurse, so that a file of brackets ends in a RecursionError. They share what aliases refer to: ten
#   lines of `&b [*a, *a, …]` are small in memory, but every pass that walks them as a tree takes for ever.
#   The builder below counts the size and depth that a value has with its aliases expanded, and refuses before
#   anything walks it, so that every later pass may recurse.
# - They follow YAML 1.1, where `on`, `no` and `1:30` are not text. A pipeline with `on:` would lose its
#   routes, as the key would be True. `plain_value` follows the core schema of 1.2.
# - They drop places of values, keep the last of two equal keys, and merge `<<`, each of which hides a
#   mistake.
#
# The loader written in C is much faster; the other one is for installations without it. Both give the same
# events, apart from some invalid escapes, which the Python loader passes to chr().

import re
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

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

from agentforge.definition.report import LINE_BREAK, Report, SourceText
from agentforge.model.diagnostic import SourcePlace
from agentforge.ports.sources import MAX_SOURCE_BYTES

T = TypeVar("T")
ScalarValue = None | bool | int | float | str
MAX_DEPTH = 64
MAX_NODES = 50_000
FASTEST_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS: dict[str, tuple[type, ...]] = {
    _TAG + "int": (int,),
    _TAG + "float": (float, int),
    _TAG + "bool": (bool,),
    _TAG + "null": (type(None),),
}
# Characters that YAML doesn't allow, including surrogates, which represent bytes that aren't UTF-8.
_NOT_ALLOWED = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONSTRUCT = re.compile("while (?:parsing|scanning) an? (.+)")
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
    """The value of an unquoted scalar, by the core schema of YAML 1.2."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    for pattern, base in ((_DECIMAL, 10), (_OCTAL, 8), (_HEX, 16)):
        if pattern.fullmatch(text):
            is_small = len(text) <= _MAX_INTEGER_CHARS and int(text, base) in _INTEGERS
            return int(text, base) if is_small else text
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INFINITE.fullmatch(text):
        return float("-inf") if text.startswith("-") else float("inf")
    return float("nan") if text in _NAN else text


def parse_mapping(source: SourceText, report: Report, loader: Any = FASTEST_LOADER) -> Keyed | None:
    """The document as a mapping, or None with an error in the report."""
    tree = parse_value(source, report, loader)
    if tree is None:
        return None
    if not isinstance(tree, Keyed):
        report.error("not-a-mapping", tree.at, "the file must contain a mapping", hint="start with `name: …`")
        return None
    return tree


def parse_value(source: SourceText, report: Report, loader: Any = FASTEST_LOADER) -> Tree | None:
    """The document, or None with an error in the report."""
    report.add_text(source.file, source.text)
    if not _is_readable(source, report):
        return None
    builder = _TreeBuilder(source, report)
    try:
        for event in yaml.parse(source.text, Loader=loader):
            builder.feed(event)
    except YamlRefused:
        return None
    except yaml.MarkedYAMLError as error:
        _report_syntax(source, report, error)
        return None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        report.error("syntax", source.start, f"not valid YAML: {error}")
        return None
    if builder.root is None:
        report.error("empty", source.start, "the file is empty", hint="start with `name: …`")
    return builder.root


def _is_readable(source: SourceText, report: Report) -> bool:
    if len(source.text.encode("utf-8", "replace")) > MAX_SOURCE_BYTES:
        report.error("too-large", source.start, f"the file is larger than {MAX_SOURCE_BYTES} bytes")
        return False
    text = source.text.removeprefix("\ufeff")
    bad = _NOT_ALLOWED.search(text)
    if bad is None:
        return True
    lines = LINE_BREAK.split(text[: bad.start()])
    at, char = SourcePlace(source.file, len(lines), len(lines[-1]) + 1), bad.group()
    if "\ud800" <= char <= "\udfff":
        report.error("bad-encoding", at, "the file is not valid UTF-8", hint="save it as UTF-8")
    else:
        report.error("syntax", at, f"the character U+{ord(char):04X} is not allowed in YAML")
    return False


def _report_syntax(source: SourceText, report: Report, error: yaml.MarkedYAMLError) -> None:
    at = _place(source, error.problem_mark or error.context_mark)
    problem = error.problem or error.context or "not valid YAML"
    hint = ""
    if report.line(at)[at.col - 1 : at.col] == "\t":
        problem, hint = "tabs are not allowed for indentation", "replace the tab with spaces"
    elif "mapping values are not allowed" in problem or "cannot start any token" in problem:
        hint = "put quotes around a value that contains `: ` or starts with a special character"
    elif error.context_mark and (construct := _CONSTRUCT.match(error.context or "")):
        hint = f"check the {construct[1]} that starts on line {error.context_mark.line + 1}"
    report.error("syntax", at, f"not valid YAML: {problem}", hint)


def _place(source: SourceText, mark: Any) -> SourcePlace:
    return SourcePlace(source.file, mark.line + 1, mark.column + 1) if mark else source.start


class YamlRefused(Exception):
    """Parsing was aborted; the report has the reason."""


class _Built(NamedTuple):
    """A finished value, with its size and depth after alias expansion."""

    tree: Tree
    size: int
    depth: int


class _Open(Struct):
    """A list or mapping that isn't closed yet."""

    at: SourcePlace
    anchor: str | None
    keyed: bool
    children: list[_Built] = []


class _TreeBuilder:
    def __init__(self, source: SourceText, report: Report) -> None:
        self.root: Tree | None = None
        self._source = source
        self._report = report
        self._open: list[_Open] = []
        self._anchors: dict[str, _Built] = {}
        self._documents = 0

    def feed(self, event: yaml.Event) -> None:
        at = _place(self._source, event.start_mark)
        match event:
            case DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    message = "the file must contain one document; a second one starts here"
                    self._refuse("syntax", at, message)
            case ScalarEvent():
                self._scalar(at, event)
            case AliasEvent():
                self._alias(at, str(event.anchor))
            case SequenceStartEvent() | MappingStartEvent():
                keyed = isinstance(event, MappingStartEvent)
                if event.tag not in (None, "!", _TAG + ("map" if keyed else "seq")):
                    self._report.error("bad-tag", at, f"unknown tag `{event.tag}`", hint="remove it")
                self._open.append(_Open(at, event.anchor, keyed))
                self._limit_depth(len(self._open), at)
            case SequenceEndEvent() | MappingEndEvent():
                self._close()

    def _scalar(self, at: SourcePlace, event: ScalarEvent) -> None:
        text: str = event.value
        if any("\ud800" <= char <= "\udfff" for char in text):
            hint = "write the character itself"
            self._refuse("syntax", at, "the escape is half of a surrogate pair", hint)
        self._report.refuse_reference(text, at)
        value = self._tagged(at, text, event.tag) if event.tag else text if event.style else plain_value(text)
        self._add(_Built(Scalar(at, text, value), 1, 1), event.anchor)

    def _tagged(self, at: SourcePlace, text: str, tag: str) -> ScalarValue:
        if tag in ("!", _TAG + "str"):
            return text
        kinds = _SCALAR_TAGS.get(tag)
        if kinds is None:
            self._report.error("bad-tag", at, f"unknown tag `{tag}`", hint="remove it")
            return text
        value = plain_value(text)
        if type(value) not in kinds:
            short = tag.removeprefix(_TAG)
            self._report.error("bad-tag", at, f"`{text}` doesn't match the tag `!!{short}`")
        return value

    def _alias(self, at: SourcePlace, anchor: str) -> None:
        if any(opened.anchor == anchor for opened in self._open):
            self._refuse("syntax", at, f"the alias `*{anchor}` is inside the value it refers to")
        built = self._anchors.get(anchor)
        if built is None:
            self._refuse("syntax", at, f"the alias `*{anchor}` has no anchor `&{anchor}` before it")
        self._add(built, None)

    def _close(self) -> None:
        opened = self._open.pop()
        size = 1 + sum(child.size for child in opened.children)
        depth = 1 + max((child.depth for child in opened.children), default=0)
        if size > MAX_NODES:
            self._refuse("too-large", opened.at, f"more than {MAX_NODES} values after expanding aliases")
        self._limit_depth(depth, opened.at)
        values = [child.tree for child in opened.children]
        tree: Tree = self._keyed(opened.at, values) if opened.keyed else Listed(opened.at, tuple(values))
        self._add(_Built(tree, size, depth), opened.anchor)

    def _keyed(self, at: SourcePlace, values: list[Tree]) -> Keyed:
        entries: dict[str, Entry] = {}
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, Scalar):
                self._report.error("bad-type", key.at, f"a key must be text, got {kind_of(key)}")
            elif key.text == "<<":
                message = "merge keys (`<<`) are not part of YAML 1.2"
                self._report.error("unsupported", key.at, message, hint="repeat the keys")
            elif first := entries.get(key.text):
                message = f"duplicate key `{key.text}`, first used on line {first.key.at.line}"
                self._report.error("duplicate-key", key.at, message)
            else:
                entries[key.text] = Entry(key, value)
        return Keyed(at, tuple(entries.values()))

    def _add(self, built: _Built, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = built
        if self._open:
            self._open[-1].children.append(built)
        else:
            self.root = built.tree

    def _limit_depth(self, depth: int, at: SourcePlace) -> None:
        if depth > MAX_DEPTH:
            self._refuse("too-large", at, f"values are nested more than {MAX_DEPTH} levels deep")

    def _refuse(self, code: str, at: SourcePlace, message: str, hint: str = "") -> NoReturn:
        self._report.error(code, at, message, hint)
        raise YamlRefused
