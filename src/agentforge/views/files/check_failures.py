"""The file with all failures of a check, one JSON object a line: an outcome keeps only the first ones."""

from collections.abc import Iterable
from io import BytesIO

import msgspec

from agentforge.model.check import CheckFailure
from agentforge.model.json_text import NOT_JSON


def failures_content(failures: Iterable[CheckFailure]) -> bytes:
    return b"".join(msgspec.json.encode(failure) + b"\n" for failure in failures)


def read_failures(content: bytes) -> list[CheckFailure]:
    """The failures, up to the first line that isn't one."""
    found: list[CheckFailure] = []
    for line in BytesIO(content):
        try:
            found.append(msgspec.json.decode(line, type=CheckFailure))
        except NOT_JSON:
            break
    return found
