"""The common model of an agent's output stream, and the reader of described JSON lines."""

import math
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from agentforge.adapters.cli_agents.description import OutputFields
from agentforge.model.errors import NOT_JSON
from agentforge.model.failure import FailureKind
from agentforge.model.result import JSONObject, Usage
from agentforge.ports.provider import Exit

OutputLine = dict[str, Any]
"""One line of the output, as the CLI wrote it."""

# Possessive, so that lines of many spaces take linear time.
_OBJECT_LINE = re.compile(r"^[ \t\r]*+\{.*", re.MULTILINE)
COLOUR = re.compile(r"\x1b\[[0-9;]*+m")
WIDTH = 160
"""The maximum length of a displayed line."""
MAX_COUNT = 2**63 - 1
"""Larger numbers can't be stored in an event."""
MESSAGE_CHARS = 4096
"""What is read of an error message, or of a text of which one line is displayed."""


class ReportedError(Struct, frozen=True):
    """An error that the CLI reported."""

    message: str
    """At most MESSAGE_CHARS: it is compared with many patterns, and stored in events."""
    status: int | None = None
    """The HTTP status."""
    kind: FailureKind | None = None
    """Set if the CLI's format is unambiguous."""
    resets_at: datetime | None = None

    def __post_init__(self) -> None:
        if len(self.message) > MESSAGE_CHARS:
            msgspec.structs.force_setattr(self, "message", f"{self.message[: MESSAGE_CHARS - 1]}…")


class Reading(Struct, frozen=True):
    """The result of reading a complete output."""

    finished: bool = False
    """Whether the final event was found; without it the output is incomplete."""
    answer: str = ""
    texts: Sequence[str] = ()
    """All texts of the agent, used if there is no answer."""
    error: ReportedError | None = None
    usage: Usage | None = None
    artifact: JSONObject | None = None

    @property
    def text(self) -> str:
        return self.answer or "\n\n".join(text for text in self.texts if text.strip())


class StreamReader(Protocol):
    def is_event(self, event: OutputLine) -> bool:
        """Whether the line is an event of this format, not other JSON that the agent printed."""
        ...

    def read(self, events: Sequence[OutputLine], exit: Exit) -> Reading: ...

    def progress(self, event: OutputLine) -> str:
        """The event as human-readable text, or "" if it is not worth showing."""
        ...


def json_lines(text: str) -> Iterator[OutputLine]:
    """The lines that are JSON objects, in order; an incomplete last line is skipped."""
    for line in _OBJECT_LINE.findall(text):
        event = json_line(line)
        if event is not None:
            yield event


def json_line(line: str) -> OutputLine | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        event = msgspec.json.decode(line)
    except NOT_JSON:
        return None
    return event if isinstance(event, dict) else None


# -- reading values from untrusted JSON


def text_at(event: Any, *path: str) -> str:
    found = _at(event, path)
    return found if isinstance(found, str) else ""


def number_at(event: Any, *path: str) -> int:
    """A count, or 0 if the value is not a number."""
    return _as_count(_at(event, path)) or 0


def _as_count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return min(max(0, int(value)), MAX_COUNT)


def money_at(event: Any, *path: str) -> float | None:
    found = _at(event, path)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return None
    return float(found)


def objects_at(event: Any, *path: str) -> list[OutputLine]:
    found = _at(event, path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def mapping_at(event: Any, *path: str) -> dict[str, Any]:
    found = _at(event, path)
    return found if isinstance(found, dict) else {}


def _at(event: Any, path: Sequence[str]) -> Any:
    for key in path:
        if not isinstance(event, dict):
            return None
        event = event.get(key)
    return event


# -- display


def one_line(text: str) -> str:
    """The first line that is not empty, without colours, shortened to WIDTH."""
    lines = COLOUR.sub("", text[:MESSAGE_CHARS]).splitlines()
    line = next((line.strip() for line in lines if line.strip()), "")
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def tool_line(tool: str, given: dict[str, Any]) -> str:
    """`→ Bash: make test`; shows the most informative argument."""
    for key in ("command", "cmd", "file_path", "filePath", "path", "pattern", "query", "url", "description"):
        value = given.get(key)
        if isinstance(value, str) and value.strip():
            return one_line(f"→ {tool}: {one_line(value)}")
    return f"→ {tool}"


def error_line(message: str) -> str:
    return one_line(f"✗ {one_line(message)}") if message.strip() else ""


def retry_line(reason: str) -> str:
    return one_line(f"… retrying: {one_line(reason)}")


class JsonLinesStream:
    def __init__(self, fields: OutputFields) -> None:
        self._fields = fields

    def is_event(self, event: OutputLine) -> bool:
        return bool(event)

    def read(self, events: Sequence[OutputLine], exit: Exit) -> Reading:
        fields = self._fields
        texts = _texts(events, fields)
        finished = not fields.done or any(_matches(event, fields.done) for event in events)
        message = next((found for event in reversed(events) if (found := _error(event, fields.error))), "")
        return Reading(
            finished=finished,
            answer=texts[-1] if texts and finished and not message else "",
            texts=texts,
            error=ReportedError(message) if message else None,
            usage=_usage(events, fields, exit),
        )

    def progress(self, event: OutputLine) -> str:
        return error_line(_error(event, self._fields.error)) or one_line(_text(event, self._fields.text))


def _texts(events: Sequence[OutputLine], fields: OutputFields) -> list[str]:
    texts: list[list[str]] = []
    group = ""
    for event in events:
        text, now = _text(event, fields.text), _text(event, fields.group)
        if text and now and now == group:
            texts[-1].append(text)
        elif text:
            texts.append([text])
            group = now
    return ["".join(pieces) for pieces in texts]


def values_at(event: Any, path: str) -> Iterator[Any]:
    """The values at a dotted path, descending into every element of lists."""
    keys = path.split(".") if path else []
    # A stack instead of recursion: lists may be nested deeply.
    pending = [(event, 0)]
    while pending:
        value, depth = pending.pop()
        if isinstance(value, list):
            pending.extend((item, depth) for item in reversed(value))
        elif depth == len(keys):
            yield value
        elif isinstance(value, dict) and value.get(keys[depth]) is not None:
            pending.append((value[keys[depth]], depth + 1))


def _matches(event: OutputLine, path: str) -> bool:
    """Whether the line has the value at the path; without a value, whether it has any truthy value."""
    where, equals, expected = path.partition("=")
    found = values_at(event, where)
    return any(str(value) == expected if equals else bool(value) for value in found)


def _text(event: OutputLine, path: str) -> str:
    if not path:
        return ""
    return "".join(value for value in values_at(event, path) if isinstance(value, str))


def _error(event: OutputLine, path: str) -> str:
    if not path or not _matches(event, path):
        return ""
    if "=" not in path:
        return _text(event, path) or "the agent reported an error"
    # The line itself is the error; look for its message in the usual fields.
    messages = (_text(event, usual) for usual in ("message", "error.message", "error", "text"))
    return next(filter(None, messages), "the agent reported an error")


def _usage(events: Sequence[OutputLine], fields: OutputFields, exit: Exit) -> Usage | None:
    session = _last_text(events, fields.session)
    usage = Usage(
        input_tokens=_count(events, fields.input_tokens),
        output_tokens=_count(events, fields.output_tokens),
        cached_tokens=_count(events, fields.cached_tokens),
        cost_usd=_last_number(events, fields.cost),
        model=_last_text(events, fields.model) or exit.model or None,
        agent_session=session or None,
    )
    return None if usage == Usage(model=usage.model) else usage


def _last_text(events: Sequence[OutputLine], path: str) -> str:
    return next((found for event in reversed(events) if (found := _text(event, path))), "")


def _count(events: Sequence[OutputLine], path: str) -> int | None:
    return _as_count(_last_number(events, path))


def _last_number(events: Sequence[OutputLine], path: str) -> float | None:
    if not path:
        return None
    for event in reversed(events):
        for value in values_at(event, path):
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                return value
    return None
