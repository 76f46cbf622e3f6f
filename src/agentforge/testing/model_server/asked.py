"""Parsing of requests to the model."""

import re

from msgspec import Struct

from agentforge.testing.model_server.anthropic_messages import ANTHROPIC_MESSAGES
from agentforge.testing.model_server.gemini import GEMINI
from agentforge.testing.model_server.openai_chat import OPENAI_CHAT
from agentforge.testing.model_server.openai_responses import OPENAI_RESPONSES
from agentforge.testing.model_server.wire import JSON, ModelAnswer, ModelConversation, WireFormat

FORMATS = (ANTHROPIC_MESSAGES, OPENAI_RESPONSES, OPENAI_CHAT, GEMINI)
MODEL_IN_PATH = re.compile(r"/models/([^/:]+)")


class ModelRequest(Struct, frozen=True):
    format: WireFormat
    body: JSON
    talk: ModelConversation
    model: str
    streams: bool


class Unreadable(ValueError):
    """The request doesn't have the wire format of its path."""


def format_of(path: str) -> WireFormat | None:
    return next((format for format in FORMATS if re.search(format.path, path)), None)


def understand(format: WireFormat, path: str, body: JSON) -> ModelRequest:
    try:
        talk = format.read(body)
    except (KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"not a request in the format {format.name}: {error!r}") from error
    in_path = MODEL_IN_PATH.search(path)
    model = body.get("model") or (in_path[1] if in_path else "")
    return ModelRequest(format, body, talk, model, bool(body.get("stream")) or ":stream" in path)


def events(asked: ModelRequest, answer: ModelAnswer) -> list[bytes]:
    """The parts of the response: at least two, so that it can be cut in the middle."""
    if asked.streams:
        found = list(asked.format.stream(answer, asked.body))
    else:
        found = [asked.format.encode_whole(answer)]
    if len(found) == 1:
        half = len(found[0]) // 2
        return [found[0][:half], found[0][half:]]
    return found
