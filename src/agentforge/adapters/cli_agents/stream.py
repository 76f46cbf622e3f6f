"""What the output of an agent says, whichever CLI printed it; and JSON lines whose fields are described."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from agentforge.adapters.cli_agents.description import OutputFields
from agentforge.model.failure import FailureKind
from agentforge.model.result import Usage
from agentforge.ports.provider import Exit

OutputLine = dict[str, Any]
"""One line of the output, as the CLI wrote it."""

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
WIDTH = 160
"""Of a line that people see."""


class Complaint(Struct, frozen=True):
    """Something that went wrong, as far as the CLI says it."""

    message: str
    status: int | None = None
    """Of the HTTP answer."""
    kind: FailureKind | None = None
    """Where the CLI's format leaves no doubt."""
    resets_at: datetime | None = None


class Reading(Struct, frozen=True):
    """What a whole output came to."""

    finished: bool = False
    """Whether the CLI said its last word; without it the output was cut short."""
    answer: str = ""
    texts: Sequence[str] = ()
    """All that the agent said, for when there is no answer."""
    complaint: Complaint | None = None
    usage: Usage | None = None

    @property
    def words(self) -> str:
        return self.answer or "\n\n".join(text for text in self.texts if text.strip())


class StreamReader(Protocol):
    def is_event(self, event: OutputLine) -> bool:
        """Whether the line is of this format, and not just some JSON that the agent printed."""
        ...

    def read(self, events: Sequence[OutputLine], exit: Exit) -> Reading: ...

    def progress(self, event: OutputLine) -> str:
        """The event in a person's words; nothing where it says nothing."""
        ...


def json_lines(text: str) -> Iterator[OutputLine]:
    """The lines that are JSON objects, in order; a cut last line is none."""
    for line in text.splitlines():
        event = json_line(line)
        if event is not None:
            yield event


def json_line(line: str) -> OutputLine | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        event = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return event if isinstance(event, dict) else None


# -- taking values out of what somebody else wrote, whatever it turns out to be


def text_at(event: Any, *path: str) -> str:
    found = _at(event, path)
    return found if isinstance(found, str) else ""


def number_at(event: Any, *path: str) -> int:
    """A count; anything else is none."""
    found = _at(event, path)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return 0
    return max(0, int(found))


def money_at(event: Any, *path: str) -> float | None:
    found = _at(event, path)
    if isinstance(found, bool) or not isinstance(found, int | float):
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


# -- how things are shown


def one_line(text: str) -> str:
    """The first line that says something, without colours and not endless."""
    lines = COLOUR.sub("", text).splitlines()
    line = next((line.strip() for line in lines if line.strip()), "")
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def tool_line(tool: str, given: dict[str, Any]) -> str:
    """`→ Bash: make test`; of the tool's arguments the one that says most."""
    for key in ("command", "cmd", "file_path", "filePath", "path", "pattern", "query", "url", "description"):
        value = given.get(key)
        if isinstance(value, str) and value.strip():
            return one_line(f"→ {tool}: {one_line(value)}")
    return f"→ {tool}"


def error_line(message: str) -> str:
    return one_line(f"✗ {one_line(message)}") if message.strip() else ""


def retry_line(reason: str) -> str:
    return one_line(f"… trying again: {one_line(reason)}")


class JsonLinesStream:
    def __init__(self, fields: OutputFields) -> None:
        self._fields = fields

    def is_event(self, event: OutputLine) -> bool:
        return bool(event)

    def read(self, events: Sequence[OutputLine], exit: Exit) -> Reading:
        fields = self._fields
        texts = _texts(events, fields)
        finished = not fields.done or any(_says(event, fields.done) for event in events)
        message = next((found for event in reversed(events) if (found := _error(event, fields.error))), "")
        return Reading(
            finished=finished,
            answer=texts[-1] if texts and finished and not message else "",
            texts=texts,
            complaint=Complaint(message) if message else None,
            usage=_usage(events, fields, exit),
        )

    def progress(self, event: OutputLine) -> str:
        return error_line(_error(event, self._fields.error)) or one_line(_text(event, self._fields.text))


def _texts(events: Sequence[OutputLine], fields: OutputFields) -> list[str]:
    texts: list[str] = []
    group = ""
    for event in events:
        text, now = _text(event, fields.text), _text(event, fields.group)
        if text and now and now == group:
            texts[-1] += text
        elif text:
            texts.append(text)
            group = now
    return texts


def values_at(event: Any, path: str) -> Iterator[Any]:
    """What is at a dotted path, through every element of the lists on its way."""
    if isinstance(event, list):
        for item in event:
            yield from values_at(item, path)
        return
    if not path:
        yield event
        return
    key, _, rest = path.partition(".")
    if isinstance(event, dict) and event.get(key) is not None:
        yield from values_at(event[key], rest)


def _says(event: OutputLine, path: str) -> bool:
    """Whether the line has that value there or, without one, anything but false."""
    where, equals, wanted = path.partition("=")
    found = values_at(event, where)
    return any(str(value) == wanted if equals else bool(value) for value in found)


def _text(event: OutputLine, path: str) -> str:
    if not path:
        return ""
    return "".join(value for value in values_at(event, path) if isinstance(value, str))


def _error(event: OutputLine, path: str) -> str:
    if not path or not _says(event, path):
        return ""
    if "=" not in path:
        return _text(event, path) or "the agent reported an error"
    # The line itself is the error; what it says stands where such lines usually have it.
    said = (_text(event, usual) for usual in ("message", "error.message", "error", "text"))
    return next(filter(None, said), "the agent reported an error")


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
    found = _last_number(events, path)
    return None if found is None else max(0, int(found))


def _last_number(events: Sequence[OutputLine], path: str) -> float | None:
    if not path:
        return None
    for event in reversed(events):
        for value in values_at(event, path):
            if isinstance(value, int | float) and not isinstance(value, bool):
                return value
    return None
