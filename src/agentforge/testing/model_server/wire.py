"""Types shared by all wire formats: the conversation in a request, and the response."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, field

from agentforge.testing.model_server.script import Fault, Tokens

JSON = dict[str, Any]

PIECE = 16
"""Characters of text in one event of a stream."""


class Tool(Struct, frozen=True):
    name: str
    properties: JSON = field(default_factory=dict)
    """The JSON Schema of its arguments, by name."""
    is_freeform: bool = False
    """Takes plain text instead of arguments."""


class Reply(Struct, frozen=True):
    """An earlier response of the model in the conversation."""

    text: str = ""
    calls: tuple[str, ...] = ()
    """The names of the tools that it called."""


class ModelConversation(Struct, frozen=True):
    tools: dict[str, Tool]
    prompts: tuple[str, ...]
    """The user's messages, without tool results."""
    replies: tuple[Reply, ...]
    results: tuple[str, ...]
    """Tool results."""


class RequestedCall(Struct, frozen=True):
    id: str
    name: str
    arguments: JSON | str
    """Text for a tool without arguments."""


class ModelAnswer(Struct, frozen=True):
    id: str
    model: str
    text: str
    calls: tuple[RequestedCall, ...]
    usage: Tokens


class WireFormat(Struct, frozen=True):
    name: str
    path: str
    """A regular expression for the end of the path."""
    read: Callable[[JSON], ModelConversation]
    whole: Callable[[ModelAnswer], JSON]
    stream: Callable[[ModelAnswer, JSON], Iterator[bytes]]
    """The events of the response."""
    refusal: Callable[[Fault], JSON]

    def encode_whole(self, answer: ModelAnswer) -> bytes:
        return json.dumps(self.whole(answer)).encode()


def texts(node: object) -> str:
    """All text in a message, regardless of its structure."""
    match node:
        case str():
            return node
        case list():
            return "\n".join(filter(None, map(texts, node)))
        case dict():
            return texts([node[key] for key in ("text", "content", "parts", "output") if key in node])
    return ""


def pieces(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


def event(data: JSON, name: str = "") -> bytes:
    """A server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def properties(schema: object) -> JSON:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def text_of_fault(fault: Fault) -> str:
    return fault.message or f"the script answers this request with status {fault.status}"


TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_exceeded",
}


def refusal(fault: Fault) -> JSON:
    kind = fault.type or TYPES.get(fault.status, "server_error")
    error = {"message": text_of_fault(fault), "type": kind, "param": None, "code": kind, **fault.details}
    return {"error": error}
