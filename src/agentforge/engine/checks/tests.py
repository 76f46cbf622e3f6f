"""The tests of a report, by ids that are the same in each run: how they are told apart and kept.

A report may have a test several times, as pytest has one that fails and whose tear-down has an error. The
worst of its statuses counts.
"""

from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

import msgspec

from agentforge.engine.checks.signature import one_line
from agentforge.model.check import CheckCounts, RanTest, TestStatus
from agentforge.model.errors import NOT_JSON

MAX_TESTS: Final = 50_000
MAX_TESTS_BYTES: Final = 16 * 1024 * 1024
"""Of the file that keeps them."""
MAX_ID_CHARS: Final = 400
MAX_TOLD_CHARS: Final = 200
_WORST_FIRST: Final = ("error", "failed", "skipped", "passed")


def bounded_id(text: str) -> str:
    """An id in one line. The end of a long one, such as of its parameters, is replaced by a hash."""
    id = one_line(text)
    if len(id) <= MAX_ID_CHARS:
        return id
    return f"{id[: MAX_ID_CHARS - 16]}...{sha256(id.encode('utf-8', 'replace')).hexdigest()[:12]}"


class SuiteReading:
    """Tests as they are found."""

    def __init__(self) -> None:
        self._found: dict[str, RanTest] = {}
        self._is_too_much = False

    def add(self, id: str, status: TestStatus, message: str, file: str) -> None:
        known = self._found.get(id)
        if known is None and len(self._found) == MAX_TESTS:
            self._is_too_much = True
        elif known is None or _WORST_FIRST.index(status) < _WORST_FIRST.index(known.status):
            self._found[id] = RanTest(id, status, one_line(message)[:MAX_TOLD_CHARS], file)

    @property
    def tests(self) -> tuple[RanTest, ...] | None:
        """None if there are too many: what is missing would look like tests that weren't run."""
        return None if self._is_too_much else tuple(self._found.values())


def counts_of(tests: Iterable[RanTest]) -> CheckCounts:
    number = Counter(test.status for test in tests)
    return CheckCounts(number["passed"], number["failed"], number["error"], number["skipped"])


def is_in_file(test: RanTest, path: str) -> bool:
    """Whether a test is in a file of the project. pytest names the module in place of the file, relative to
    the folder that it runs in: `a.test_b.TestC` for tests in `a/test_b.py`."""
    if test.file:
        return test.file == path
    # The last part of an id that has one is the test, with whatever its parameters are.
    module = test.id.partition("::")[0]
    stem = path.removesuffix(".py").replace("/", ".")
    parts = module.split(".")
    heads = (".".join(parts[:number]) for number in range(1, len(parts) + 1))
    return any(stem == head or stem.endswith(f".{head}") for head in heads)


def encoded_tests(tests: Iterable[RanTest]) -> bytes | None:
    """The content of their file, in the order of their ids; None if it is too large."""
    content = msgspec.json.encode(sorted(tests, key=lambda test: test.id))
    return content if len(content) <= MAX_TESTS_BYTES else None


def decoded_tests(content: bytes) -> tuple[RanTest, ...] | str:
    """The tests of such a file, or why it isn't one."""
    try:
        return msgspec.json.decode(content, type=tuple[RanTest, ...])
    except NOT_JSON as error:
        return str(error)
