"""The lines of a program's output, one at a time: an output of short lines is not held twice."""

from collections.abc import Iterator
from io import BytesIO

from agentforge.engine.normalise import without_escapes

MAX_LINE_BYTES = 4096
"""The rest of a line is ignored."""
MAX_OUTPUT_BYTES = 16 * 1024 * 1024
"""Of a longer output, only the end is read: there are the results."""


def output_lines(output: bytes) -> Iterator[str]:
    """Without escape codes, line ends and empty lines. Of an overwritten line, such as a progress bar, the
    last text."""
    for line in BytesIO(output[-MAX_OUTPUT_BYTES:]):
        last = line.rstrip()
        if last:
            last = last.rpartition(b"\r")[2][:MAX_LINE_BYTES]
            yield without_escapes(last).decode("utf-8", "replace")


def last_line(output: bytes) -> str:
    """The last line that isn't empty."""
    tail = output[-2 * MAX_LINE_BYTES :]
    return next((line for line in reversed(list(output_lines(tail))) if line.strip()), "")
