"""What the output of an agent says, whichever CLI printed it."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from agentforge.model.failure import FailureKind
from agentforge.model.result import Usage
from agentforge.ports.provider import Exit

Event = dict[str, Any]
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
    def is_event(self, event: Event) -> bool:
        """Whether the line is of this format, and not just some JSON that the agent printed."""
        ...

    def read(self, events: Sequence[Event], exit: Exit) -> Reading: ...

    def progress(self, event: Event) -> str:
        """The event in a person's words; nothing where it says nothing."""
        ...


def json_lines(text: str) -> Iterator[Event]:
    """The lines that are JSON objects, in order; a cut last line is none."""
    for line in text.splitlines():
        event = json_line(line)
        if event is not None:
            yield event


def json_line(line: str) -> Event | None:
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


def objects_at(event: Any, *path: str) -> list[Event]:
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
