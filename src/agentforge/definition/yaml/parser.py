"""First pass: YAML text to a tree with places."""

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

from agentforge.definition.report import Report
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
from agentforge.ports.sources import MAX_SOURCE_BYTES

MAX_DEPTH = 64
MAX_NODES = 50_000

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
_SURROGATE = re.compile("[\ud800-\udfff]")
FASTEST_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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


class TreeBuilder:
    def __init__(self, file: str, report: Report) -> None:
        self.root: Tree | None = None
        self._file = file
        self._report = report
        self._open: list[_Open] = []
        self._anchors: dict[str, _Built] = {}
        self._documents = 0

    def begin_document(self, line: int, column: int) -> None:
        self._documents += 1
        if self._documents > 1:
            self._refuse(
                "syntax",
                self._place(line, column),
                "the file must contain one document; a second one starts here",
            )

    def scalar(
        self, line: int, column: int, text: str, tag: str | None, anchor: str | None, *, plain: bool
    ) -> None:
        at = self._place(line, column)
        if any("\ud800" <= char <= "\udfff" for char in text):
            self._refuse(
                "syntax", at, "the escape is half of a surrogate pair", hint="write the character itself"
            )
        self._report.refuse_reference(text, at)
        value = self._tagged(at, text, tag) if tag else plain_value(text) if plain else text
        self._add(_Built(Scalar(at, text, value), 1, 1), anchor)

    def alias(self, line: int, column: int, anchor: str) -> None:
        at = self._place(line, column)
        if any(opened.anchor == anchor for opened in self._open):
            self._refuse("syntax", at, f"the alias `*{anchor}` is inside the value it refers to")
        built = self._anchors.get(anchor)
        if built is None:
            self._refuse("syntax", at, f"the alias `*{anchor}` has no anchor `&{anchor}` before it")
        self._add(built, None)

    def open(self, line: int, column: int, tag: str | None, anchor: str | None, *, keyed: bool) -> None:
        at = self._place(line, column)
        if tag not in (None, "!", _TAG + ("map" if keyed else "seq")):
            self._report.error("bad-tag", at, f"unknown tag `{tag}`", hint="remove it")
        self._open.append(_Open(at, anchor, keyed))
        if len(self._open) > MAX_DEPTH:
            self._too_deep(at)

    def close(self) -> None:
        opened = self._open.pop()
        size = 1 + sum(child.size for child in opened.children)
        depth = 1 + max((child.depth for child in opened.children), default=0)
        if size > MAX_NODES:
            self._refuse("too-large", opened.at, f"more than {MAX_NODES} values after expanding aliases")
        if depth > MAX_DEPTH:
            self._too_deep(opened.at)
        values = [child.tree for child in opened.children]
        tree: Tree = self._keyed(opened.at, values) if opened.keyed else Listed(opened.at, tuple(values))
        self._add(_Built(tree, size, depth), opened.anchor)

    def _add(self, built: _Built, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = built
        if self._open:
            self._open[-1].children.append(built)
        else:
            self.root = built.tree

    def _keyed(self, at: SourcePlace, values: list[Tree]) -> Keyed:
        entries: dict[str, Entry] = {}
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, Scalar):
                self._report.error("bad-type", key.at, f"a key must be text, got {kind_of(key)}")
            elif key.text == "<<":
                self._report.error(
                    "unsupported",
                    key.at,
                    "merge keys (`<<`) are not part of YAML 1.2",
                    hint="repeat the keys",
                )
            elif key.text in entries:
                first = entries[key.text].key.at.line
                self._report.error(
                    "duplicate-key", key.at, f"duplicate key `{key.text}`, first used on line {first}"
                )
            else:
                entries[key.text] = Entry(key, value)
        return Keyed(at, tuple(entries.values()))

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

    def _too_deep(self, at: SourcePlace) -> NoReturn:
        self._refuse("too-large", at, f"values are nested more than {MAX_DEPTH} levels deep")

    def _refuse(self, code: str, at: SourcePlace, message: str, hint: str = "") -> NoReturn:
        self._report.error(code, at, message, hint)
        raise YamlRefused

    def _place(self, line: int, column: int) -> SourcePlace:
        return SourcePlace(self._file, line + 1, column + 1)


def absolute(root: str, path: str) -> str:
    return normpath(path if isabs(path) else join(root, path))


def relative(root: str, path: str) -> str:
    """Relative to the root if the path is inside it, else absolute; used in plans and messages."""
    root, path = normpath(root), normpath(path)
    return path.removeprefix(root.rstrip("/") + "/")


class SourceText(Struct, frozen=True):
    """A file's text; bytes that aren't UTF-8 are surrogates and are reported."""

    file: str
    """The file name in diagnostics: relative to the project if inside it."""
    text: str

    @property
    def sha256(self) -> str:
        return sha256(self.text.encode("utf-8", "surrogateescape")).hexdigest()

    @property
    def start(self) -> SourcePlace:
        return SourcePlace(self.file, 1, 1)


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
    return _parse(source, report, loader) if _is_readable(source, report) else None


def _is_readable(source: SourceText, report: Report) -> bool:
    if len(source.text.encode("utf-8", "replace")) > MAX_SOURCE_BYTES:
        report.error("too-large", source.start, f"the file is larger than {MAX_SOURCE_BYTES} bytes")
        return False
    bad = _NOT_ALLOWED.search(source.text.removeprefix("\ufeff"))
    if bad is None:
        return True
    at = _place_of(source, bad.start() + source.text.startswith("\ufeff"))
    if _SURROGATE.match(bad.group()):
        report.error("bad-encoding", at, "the file is not valid UTF-8", hint="save it as UTF-8")
    else:
        report.error("syntax", at, f"the character U+{ord(bad.group()):04X} is not allowed in YAML")
    return False


def _place_of(source: SourceText, index: int) -> SourcePlace:
    lines = re.split("\r\n|[\n\r\x85\u2028\u2029]", source.text[:index])
    return SourcePlace(source.file, len(lines), len(lines[-1].removeprefix("\ufeff")) + 1)


def _parse(source: SourceText, report: Report, loader: Any) -> Tree | None:
    builder = TreeBuilder(source.file, report)
    try:
        for event in yaml.parse(source.text, Loader=loader):
            _feed(builder, event)
    except YamlRefused:
        return None
    except yaml.MarkedYAMLError as error:
        _syntax_error(source, report, error)
        return None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        report.error("syntax", source.start, f"not valid YAML: {error}")
        return None
    if builder.root is None:
        report.error("empty", source.start, "the file is empty", hint="start with `name: …`")
    return builder.root


def _feed(builder: TreeBuilder, event: yaml.Event) -> None:
    line, column = (event.start_mark.line, event.start_mark.column) if event.start_mark else (0, 0)
    match event:
        case DocumentStartEvent():
            builder.begin_document(line, column)
        case ScalarEvent():
            builder.scalar(line, column, event.value, event.tag, event.anchor, plain=not event.style)
        case AliasEvent():
            builder.alias(line, column, str(event.anchor))
        case SequenceStartEvent() | MappingStartEvent():
            keyed = isinstance(event, MappingStartEvent)
            builder.open(line, column, event.tag, event.anchor, keyed=keyed)
        case SequenceEndEvent() | MappingEndEvent():
            builder.close()


def _syntax_error(source: SourceText, report: Report, error: yaml.MarkedYAMLError) -> None:
    mark = error.problem_mark or error.context_mark
    at = SourcePlace(source.file, mark.line + 1, mark.column + 1) if mark else source.start
    problem = error.problem or error.context or "not valid YAML"
    hint = ""
    if report.line(at)[at.col - 1 : at.col] == "\t":
        problem, hint = "tabs are not allowed for indentation", "replace the tab with spaces"
    elif "mapping values are not allowed" in problem or "cannot start any token" in problem:
        hint = "put quotes around a value that contains `: ` or starts with a special character"
    elif error.context_mark and (construct := _CONSTRUCT.match(error.context or "")):
        hint = f"check the {construct[1]} that starts on line {error.context_mark.line + 1}"
    report.error("syntax", at, f"not valid YAML: {problem}", hint)
