"""Reads a JUnit XML report: the tests, counted one by one; what the report states as totals is not used.

A document type is refused, and with it every entity. Depth and size are limited, and so are the size of a tag
and the number of different names: the parser needs many times the memory that these have in the file.
"""

from typing import Final
from xml.parsers import expat

from agentforge.engine.checks.output import CheckReading, FailureList, Hide
from agentforge.engine.checks.signature import MAX_MESSAGE_CHARS
from agentforge.model.check import CheckCounts

# What writes the report was written by an agent, so the parser is fed in pieces, and looked at between
# them. A tree of the document would take many times its size before anything could be refused. expat
# keeps a tag until it is complete and has no limit of its own for that: `read` compares how much it was
# given with how much it has parsed.

MAX_REPORT_BYTES: Final = 16 * 1024 * 1024
TOO_LARGE: Final = f"it is larger than {MAX_REPORT_BYTES // (1024 * 1024)} MB"
MAX_DEPTH: Final = 64
MAX_TAG_BYTES: Final = 1024 * 1024
MAX_NAMES: Final = 1000
"""Of elements and attributes."""
_CHUNK: Final = 64 * 1024
_MAX_TEXT: Final = 8 * MAX_MESSAGE_CHARS
_RESULTS: Final = frozenset({"failure", "error", "skipped"})
_EXPECTED_FAILURE: Final = "pytest.xfail"
"""The type of `skipped` for a test that was executed and failed as it is expected to."""
_ROOTS: Final = frozenset({"testsuites", "testsuite"})


class _Refused(Exception):
    """The report isn't one that is read, with the reason."""


def read_junit(report: bytes, hide: Hide = str) -> CheckReading:
    if len(report) > MAX_REPORT_BYTES:
        return unreadable_report(TOO_LARGE)
    document = _Document(hide)
    try:
        document.read(report)
    except _Refused as refused:
        return unreadable_report(str(refused))
    except expat.ExpatError as error:
        return unreadable_report(f"it is not well-formed XML ({error})")
    except (ValueError, LookupError):
        return unreadable_report("its encoding is not known")
    return document.reading()


def unreadable_report(why: str) -> CheckReading:
    return CheckReading(problem="unreadable", reason=f"the JUnit report can't be read: {why}")


class _Document:
    def __init__(self, hide: Hide) -> None:
        self._depth = 0
        self._names: set[str] = set()
        self._suite = ""
        self._test: dict[str, str] | None = None
        self._results: dict[str, tuple[str, str]] = {}
        """By the name of the element: its type and its message."""
        self._open = ""
        """The element of a result that is being read."""
        self._text: list[str] = []
        self._text_chars = 0
        self._counted = {"passed": 0, "failure": 0, "error": 0, "skipped": 0}
        self._failures = FailureList(hide)

    def read(self, report: bytes) -> None:
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = _refuse_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        for start in range(0, len(report), _CHUNK):
            parser.Parse(report[start : start + _CHUNK], False)
            if start + _CHUNK - parser.CurrentByteIndex > MAX_TAG_BYTES + _CHUNK:
                raise _Refused(f"a tag is larger than {MAX_TAG_BYTES // (1024 * 1024)} MB")
        parser.Parse(b"", True)

    def reading(self) -> CheckReading:
        counted = self._counted
        return self._failures.reading(
            CheckCounts(counted["passed"], counted["failure"], counted["error"], counted["skipped"])
        )

    def _start(self, element: str, attributes: dict[str, str]) -> None:
        name = element.rpartition(":")[2]
        if self._depth == 0 and name not in _ROOTS:
            raise _Refused(f"its first element is <{name[:40]}>, not <testsuites> or <testsuite>")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _Refused(f"its elements are nested more than {MAX_DEPTH} deep")
        self._names.update((element, *attributes))
        if len(self._names) > MAX_NAMES:
            raise _Refused(f"its elements and attributes have more than {MAX_NAMES} different names")
        if name == "testsuite":
            self._suite = attributes.get("name", "")
        elif name == "testcase":
            self._test, self._results, self._open = attributes, {}, ""
        elif name in _RESULTS and not self._open:
            self._open, self._text, self._text_chars = name, [], 0
            self._results.setdefault(name, (attributes.get("type", ""), attributes.get("message", "")))

    def _characters(self, text: str) -> None:
        if self._open and self._text_chars < _MAX_TEXT:
            kept = text[: _MAX_TEXT - self._text_chars]
            self._text.append(kept)
            self._text_chars += len(kept)

    def _end(self, element: str) -> None:
        name = element.rpartition(":")[2]
        self._depth -= 1
        if name == self._open:
            kind, message = self._results[name]
            self._results[name] = (kind, message if message.strip() else "".join(self._text))
            self._open = ""
            if self._test is None:  # A suite that failed as a whole, such as in its set-up.
                self._count({"name": self._suite})
        elif name == "testcase" and self._test is not None:
            self._count(self._test)
            self._test = None

    def _count(self, test: dict[str, str]) -> None:
        result = next((name for name in ("error", "failure", "skipped") if name in self._results), "passed")
        if result == "skipped" and self._results[result][0] == _EXPECTED_FAILURE:
            result = "passed"
        self._counted[result] += 1
        if result in ("error", "failure"):
            kind, message = self._results[result]
            owner, name, line = test.get("classname", ""), test.get("name", ""), test.get("line", "")
            self._failures.add(
                message,
                id=f"{owner}::{name}" if owner and name else owner or name,
                file=test.get("file", ""),
                line=int(line) if line.isascii() and line.isdigit() and len(line) < 10 else 0,
                rule=kind,
            )
        self._results = {}


def _refuse_doctype(*_: object) -> None:
    raise _Refused("it has a document type, which is not accepted")
