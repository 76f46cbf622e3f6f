"""First pass: YAML text to a tree with places.

Built from the parser's events rather than its composer, so that depth and the growth through aliases
are bounded while reading, and the values follow YAML 1.2 whichever loader is installed.
"""

import re
from hashlib import sha256
from typing import Any

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
from agentforge.definition.growth import Growth, Refused
from agentforge.definition.tree import Keyed, Tree
from agentforge.model.diagnostic import Place

MAX_TEXT_CHARS = 1_000_000

# The characters that YAML allows, apart from surrogates, which stand for bytes that aren't UTF-8.
_NOT_ALLOWED = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
FASTEST_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class SourceText(Struct, frozen=True):
    """A file's text; bytes that aren't UTF-8 arrive as surrogates and are reported."""

    file: str
    """The name that diagnostics show: relative to the project where it lies inside."""
    text: str

    @property
    def sha256(self) -> str:
        return sha256(self.text.encode("utf-8", "surrogateescape")).hexdigest()

    @property
    def start(self) -> Place:
        return Place(self.file, 1, 1)


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


def _place_of(source: SourceText, index: int) -> Place:
    lines = re.split("\r\n|[\n\r\x85\u2028\u2029]", source.text[:index])
    return Place(source.file, len(lines), len(lines[-1].removeprefix("\ufeff")) + 1)


def _parse(source: SourceText, report: Report, loader: Any) -> Tree | None:
    growth = Growth(source.file, report)
    try:
        for event in yaml.parse(source.text, Loader=loader):
            _feed(growth, event)
    except Refused:
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
    at = Place(source.file, mark.line + 1, mark.column + 1) if mark else source.start
    problem = error.problem or error.context or "not valid YAML"
    hint = ""
    if report.line(at)[at.col - 1 : at.col] == "\t":
        problem, hint = "a tab can't be used for indentation", "replace it by spaces"
    elif error.context and error.problem:
        hint = f"found {error.context}"
    report.error("syntax", at, f"not valid YAML: {problem}", hint)
