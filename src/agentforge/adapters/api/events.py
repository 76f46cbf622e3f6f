"""What the program says while it works: one JSON object a line."""

from typing import Any

import msgspec
from msgspec import Struct

from agentforge.model.failure import Failure
from agentforge.model.result import Usage


class SessionBegun(Struct, frozen=True, tag="session"):
    session: str
    model: str
    resumed: bool = False


class TextSaid(Struct, frozen=True, tag="text"):
    text: str


class Thinking(Struct, frozen=True, tag="thinking"):
    """A sign of life while the model thinks."""


class ToolCalled(Struct, frozen=True, tag="tool"):
    name: str
    input: dict[str, Any]


class ToolAnswered(Struct, frozen=True, tag="tool_result"):
    name: str
    text: str


class Retrying(Struct, frozen=True, tag="retry"):
    number: int
    wait: float
    reason: str


class Warned(Struct, frozen=True, tag="warning"):
    message: str


class Ended(Struct, frozen=True, tag="result"):
    outcome: str
    text: str = ""
    steps: int = 0
    usage: Usage | None = None
    failure: Failure | None = None


Event = SessionBegun | TextSaid | Thinking | ToolCalled | ToolAnswered | Retrying | Warned | Ended

_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def encode(event: Event) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def decode(line: str) -> Event | None:
    """The event of a line; nothing if it is something else, such as a library's warning."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def in_words(event: Event | None) -> str:
    match event:
        case TextSaid(text=text):
            return text
        case ToolCalled(name=name, input=given):
            return f"→ {name} {_gist(given)}".rstrip()
        case Retrying(wait=wait, reason=reason):
            return f"{reason}; again in {wait:g} s"
        case Warned(message=message):
            return message
        case Ended(failure=Failure(message=message)):
            return message
        case _:
            return ""


def _gist(given: dict[str, Any]) -> str:
    """The argument that tells most."""
    for key in ("path", "command", "pattern", "summary"):
        if key in given:
            value = given[key]
            text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            return text.splitlines()[0][:120] if text else ""
    return ""
