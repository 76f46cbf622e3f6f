"""Reads the lines of linters, compilers and type checkers that name a file and a line.

    path:12:5: E501 line too long            ruff, flake8, shellcheck -f gcc
    path:12: error: wrong type  [arg-type]   mypy
    path:12:5: error: unused [-Wunused]      gcc, clang, go vet
    path(12,5): error TS2322: wrong type     tsc, MSBuild
    path:12:5 - error TS2322: wrong type     tsc --pretty
    error[E0425]: not found                  rustc, ruff: the place is on a line of its own
      --> path:12:5

Notes are not failures, and warnings only if there is no error.
"""

import re

from agentforge.engine.checks.parser import CheckReading, FailureList, Hide, output_lines
from agentforge.model.check import CheckCounts

_FILE = r"(?=[^:]*[A-Za-z_])(?P<file>(?:[A-Za-z]:[\\/])?[^\s:][^:]{0,400}?)"
_COLONS = re.compile(rf"{_FILE}:(?P<line>\d{{1,9}})(?::\d{{1,9}})?(?::| -) (?P<text>\S.*)")
_BRACKETS = re.compile(rf"{_FILE}\((?P<line>\d{{1,9}})(?:,\d{{1,9}}){{0,3}}\) ?: (?P<text>\S.*)")
_ARROW = re.compile(r"\s*--> (?P<file>[^\s:][^:]{0,400}):(?P<line>\d{1,9})(?::\d{1,9})?")
_SEVERITY = re.compile(
    r"(?P<severity>(?:fatal )?error|warning|note|info(?:rmation)?|hint|help|remark|style)\b", re.IGNORECASE
)
_RULE_FIRST = re.compile(r"\[?(?P<rule>[A-Z][A-Z0-9]{0,9}-?\d{1,6})\]?(?: \[\*\])?:? (?P<text>.*)")
_RULE_LAST = re.compile(r"(?P<text>.*\S)\s+\[(?P<rule>[A-Za-z@-][\w@/.,=-]{0,60})\]")
_NOTES = frozenset({"note", "info", "information", "hint", "help", "remark", "style"})


def read_lines(output: bytes, hide: Hide = str) -> CheckReading:
    """The counts have no passes: linters don't name what is right."""
    errors, warnings = FailureList(hide), FailureList(hide)
    before = ""
    for line in output_lines(output):
        if found := _COLONS.match(line) or _BRACKETS.match(line):
            _add(found["text"], found["file"], found["line"], errors, warnings)
        elif before and (found := _ARROW.fullmatch(line)):
            _add(before, found["file"], found["line"], errors, warnings)
        before = line
    failures = errors if errors.count else warnings
    return failures.reading(CheckCounts(failed=failures.count))


def _add(text: str, file: str, line: str, errors: FailureList, warnings: FailureList) -> None:
    severity, text = _severity(text)
    if severity in _NOTES:
        return
    rule, message = _rule(text)
    target = warnings if severity == "warning" else errors
    target.add(message, file=file, line=int(line), rule=rule)


def _severity(text: str) -> tuple[str, str]:
    found = _SEVERITY.match(text)
    if found is None:
        return "", text
    rest = text[found.end() :]
    # A word of the message is followed by another one.
    if rest[:1] not in (":", "[") and not _RULE_FIRST.match(rest.lstrip()):
        return "", text
    return found["severity"].lower(), rest.removeprefix(":").lstrip()


def _rule(text: str) -> tuple[str, str]:
    if found := _RULE_FIRST.match(text):
        return found["rule"], found["text"]
    if found := _RULE_LAST.fullmatch(text):
        return found["rule"], found["text"]
    return "", text
