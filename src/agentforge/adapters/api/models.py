"""From an endpoint to the model that pydantic-ai talks to, and what it says, as it says it. Only the format
that is needed is imported."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import httpx2
from pydantic_ai.messages import (
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
)
from pydantic_ai.models import Model, create_async_httpx2_client
from pydantic_ai.settings import ModelSettings

from agentforge.adapters.api.task import Endpoint, Task, TextSaid, Thinking
from agentforge.adapters.api.toolbox import Report

NO_KEY = "none"
"""Clients insist on a key; a server without one ignores it."""


@asynccontextmanager
async def model_of(endpoint: Endpoint, key: str) -> AsyncIterator[Model]:
    """The model, for as long as its connections are open."""
    async with create_async_httpx2_client() as http:
        yield _anthropic(endpoint, key, http) if endpoint.api == "anthropic" else _openai(endpoint, key, http)


def settings_of(task: Task) -> ModelSettings:
    # Asking again is the loop's: it says so, and it also notices an answer that was cut short.
    settings = ModelSettings(max_retries=0, timeout=task.request_timeout)
    if task.max_tokens is not None:
        settings["max_tokens"] = task.max_tokens
    if task.temperature is not None:
        settings["temperature"] = task.temperature
    return settings


def _anthropic(endpoint: Endpoint, key: str, http: httpx2.AsyncClient) -> Model:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    address = endpoint.base_url or None
    if endpoint.bearer:
        client = AsyncAnthropic(auth_token=key, base_url=address, http_client=http)
        return AnthropicModel(endpoint.model, provider=AnthropicProvider(anthropic_client=client))
    provider = AnthropicProvider(api_key=key or NO_KEY, base_url=address, http_client=http)
    return AnthropicModel(endpoint.model, provider=provider)


def _openai(endpoint: Endpoint, key: str, http: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(api_key=key or NO_KEY, base_url=endpoint.base_url or None, http_client=http)
    return OpenAIChatModel(endpoint.model, provider=provider)


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
