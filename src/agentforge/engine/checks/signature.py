"""Signatures: short texts that are equal for the same failure in two runs of a check.

A signature is the place of the failure (the test id, or the file and the rule), a colon, and the first line
of the message. What changes from run to run is replaced:

    <uuid>  <address>  <time>  dates, times of day, durations
    <tmp>   temporary paths    <hex>  hashes    <n>  other numbers

Numbers that are part of a name (`test_2`, `E501`) stay, and so do those of the place, where parameters of
tests are. The numbers of lines are never part of a place.
"""

import re

MAX_SIGNATURE_CHARS = 240
MAX_MESSAGE_CHARS = 500
_MAX_PLACE_CHARS = 160
_CUT = "..."

_HEX = "[0-9a-fA-F]"
_CHANGING = (
    (re.compile(rf"\b{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}\b"), "<uuid>"),
    (re.compile(rf"\b0[xX]{_HEX}+\b"), "<address>"),
    (
        re.compile(r"(?:/private)?(?:/tmp|/var/tmp|/var/folders|/dev/shm)(?:/[^\s'\"`:,;()<>\[\]]*)?"),
        "<tmp>",
    ),
)
_CHANGING_IN_MESSAGES = (
    (
        re.compile(
            r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?\b"
            r"|\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?\b"
        ),
        "<time>",
    ),
    (
        re.compile(
            r"(?<![\w.])\d+(?:[.,]\d+)?\s?"
            r"(?:ns|us|µs|ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?|milliseconds?)\b"
        ),
        "<time>",
    ),
    (re.compile(rf"\b(?=[a-fA-F]*\d)(?=\d*[a-fA-F]){_HEX}{{7,}}\b"), "<hex>"),
    (re.compile(r"(?<![\w<])\d+(?:[.,_:]\d+)*(?:[eE][+-]?\d+)?\b"), "<n>"),
)


def signature(place: str, message: str) -> str:
    """`place`: the test id, or the file and the rule."""
    where = _masked(one_line(place)[:MAX_MESSAGE_CHARS], _CHANGING)[:_MAX_PLACE_CHARS]
    # A tool that cuts its messages does so in the middle of words, elsewhere in each run.
    first = first_line(message)
    if first.endswith(_CUT):
        first = first.removesuffix(_CUT).rpartition(" ")[0]
    what = _masked(first, (*_CHANGING, *_CHANGING_IN_MESSAGES))
    joined = f"{where}: {what}" if where and what else where or what
    return joined[:MAX_SIGNATURE_CHARS].rstrip()


def first_line(text: str) -> str:
    """The first line of a text that has one, shortened."""
    head = text[: 8 * MAX_MESSAGE_CHARS].lstrip()
    return one_line(head.split("\n", 1)[0])[:MAX_MESSAGE_CHARS]


def one_line(text: str) -> str:
    """The text with single blanks for white space and control characters, in valid UTF-8."""
    clean = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(clean.split())


def _masked(text: str, changing: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    for pattern, mask in changing:
        text = pattern.sub(mask, text)
    return text
