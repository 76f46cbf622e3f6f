"""Reads a JUnit XML report: its tests, one by one. What it states as totals is not used.

A document type is refused, and with it every entity. Depth and size are limited, and so are the size of a tag
and the number of different names: the parser needs many times the memory that these have in the file.
"""

import re
from typing import Final
from xml.parsers import expat

from msgspec.structs import replace

from agentforge.engine.checks.output import CheckReading, FailureList, Hide
from agentforge.engine.checks.signature import MAX_MESSAGE_CHARS
from agentforge.engine.checks.tests import SuiteReading, bounded_id
from agentforge.model.check import CheckCounts, TestStatus

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
_STATUSES: Final[dict[str, TestStatus]] = {
    "passed": "passed",
    "failure": "failed",
    "error": "error",
    "skipped": "skipped",
}
_NODE: Final = "test"
"""The `classname` that node gives to every test."""
_UNTOLD: Final = re.compile(r"collection failure$|failed on \w+ with \"file ")
"""A message of pytest that doesn't say what happened; a line of the text does."""
_NOT_DEFINED: Final = re.compile(r"(?:^|\")NameError: ")
_PLACE: Final = re.compile(r"^(?P<place>[^\s:][^:\n]*\.py:\d+): (?:in |NameError)", re.MULTILINE)
_SAID: Final = re.compile(r"^E +(\S.*)$", re.MULTILINE)
_ROOTS: Final = frozenset({"testsuites", "testsuite"})


class _Refused(Exception):
    """The report isn't one that is read, with the reason."""


def read_junit(report: bytes, hide: Hide = str, project: str = "") -> CheckReading:
    """`project`: its folder, which is left out of paths."""
    if len(report) > MAX_REPORT_BYTES:
        return unreadable_report(TOO_LARGE)
    document = _Document(hide, project)
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
    def __init__(self, hide: Hide, project: str) -> None:
        self._hide = hide
        self._root = f"{project}/" if project else ""
        self._depth = 0
        self._names: set[str] = set()
        self._suites: list[str] = []
        """The names of those around what is read."""
        self._test: dict[str, str] | None = None
        self._results: dict[str, tuple[str, str]] = {}
        """By the name of the element: its type, and its message or text."""
        self._place = ""
        """Where a name is not defined."""
        self._open = ""
        """The element of a result that is being read."""
        self._text: list[str] = []
        """Its beginning."""
        self._text_chars = 0
        self._end_of_text: list[str] = []
        self._end_chars = 0
        self._counted = {"passed": 0, "failure": 0, "error": 0, "skipped": 0}
        self._failures = FailureList(hide)
        self._tests = SuiteReading()

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
        counts = CheckCounts(counted["passed"], counted["failure"], counted["error"], counted["skipped"])
        return replace(self._failures.reading(counts), tests=self._tests.tests)

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
            self._suites.append(attributes.get("name", ""))
        elif name == "testcase":
            self._test, self._results, self._open = attributes, {}, ""
        elif name in _RESULTS and not self._open:
            self._open, self._text, self._text_chars = name, [], 0
            self._end_of_text, self._end_chars = [], 0
            self._results.setdefault(name, (attributes.get("type", ""), attributes.get("message", "")))

    def _characters(self, text: str) -> None:
        if not self._open:
            return
        if self._text_chars < _MAX_TEXT:
            kept = text[: _MAX_TEXT - self._text_chars]
            self._text.append(kept)
            self._text_chars += len(kept)
            text = text[len(kept) :]
        if text:
            self._end_of_text.append(text)
            self._end_chars += len(text)
            if self._end_chars > 2 * _MAX_TEXT:
                self._end_of_text = ["".join(self._end_of_text)[-_MAX_TEXT:]]
                self._end_chars = _MAX_TEXT

    def _end(self, element: str) -> None:
        name = element.rpartition(":")[2]
        self._depth -= 1
        if name == self._open:
            kind, message = self._results[name]
            text = "".join((*self._text, *self._end_of_text))
            self._results[name] = (kind, told := _told(message, text))
            if _NOT_DEFINED.search(told):
                self._place = (_PLACE.findall(text) or [""])[-1].removeprefix(self._root)
            self._open = ""
            if self._test is None:  # A suite that failed as a whole, such as in its set-up.
                self._count({"name": self._suites[-1] if self._suites else ""})
        elif name == "testsuite" and self._suites:
            self._suites.pop()
        elif name == "testcase" and self._test is not None:
            self._count(self._test)
            self._test = None

    def _count(self, test: dict[str, str]) -> None:
        result = next((name for name in ("error", "failure", "skipped") if name in self._results), "passed")
        if result == "skipped" and self._results[result][0] == _EXPECTED_FAILURE:
            result = "passed"
        self._counted[result] += 1
        kind, message = self._results.get(result, ("", ""))
        id, file = self._identified(test)
        place = f" ({self._place})" if self._place and _NOT_DEFINED.search(message) else ""
        self._tests.add(id, _STATUSES[result], self._hide(f"{message}{place}"), file)
        if result in ("error", "failure"):
            line = test.get("line", "")
            self._failures.add(
                message,
                id=id,
                file=file,
                line=int(line) if line.isascii() and line.isdigit() and len(line) < 10 else 0,
                rule=kind,
                is_error=result == "error",
            )
        self._results, self._place = {}, ""

    def _identified(self, test: dict[str, str]) -> tuple[str, str]:
        """Its id, and the file that the report names."""
        owner, name = test.get("classname", ""), test.get("name", "")
        file = test.get("file", "").removeprefix(self._root)
        if owner == _NODE:
            # Node names a file that can't be run as a test of its path.
            short = name.removeprefix(self._root)
            file, name = (file or short) if short != name else file, short
            owner = "::".join(filter(None, (file if file != name else "", *self._suites)))
        id = f"{owner}::{name}" if owner and name else owner or name
        return bounded_id(self._hide(id)), bounded_id(self._hide(file))


def _told(message: str, text: str) -> str:
    """What a result says, in its text if its message doesn't."""
    if not message.strip():
        return text
    said = _SAID.findall(text) if _UNTOLD.match(message) else ()
    return said[-1] if said else message


def _refuse_doctype(*_: object) -> None:
    raise _Refused("it has a document type, which is not accepted")
