"""What a model says, as it says it: pieces large enough to read, and signs of life between them."""

from time import monotonic
from typing import Any

from pydantic_ai.messages import (
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
)

from agentforge.adapters.api.events import TextSaid, Thinking
from agentforge.adapters.api.toolbox import Report

PIECE = 400
LIFE_SECONDS = 1.0


class Narrator:
    def __init__(self, report: Report) -> None:
        self._report = report
        self._text = ""
        self._last_sign = 0.0

    def hear(self, event: Any) -> None:
        match event:
            case (
                PartStartEvent(part=TextPart(content=text))
                | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
            ):
                self._add(text)
            case PartStartEvent(part=ThinkingPart()) | PartDeltaEvent(delta=ThinkingPartDelta()):
                self._sign()
            case PartStartEvent():
                self.flush()
            case PartDeltaEvent():
                # The input of a tool: it is shown when the tool is called.
                self._sign()

    def flush(self) -> None:
        if self._text.strip():
            self._report(TextSaid(self._text))
        self._text = ""

    def _add(self, text: str) -> None:
        self._text += text
        if len(self._text) >= PIECE or "\n" in text:
            self.flush()

    def _sign(self) -> None:
        if monotonic() - self._last_sign >= LIFE_SECONDS:
            self._last_sign = monotonic()
            self._report(Thinking())
