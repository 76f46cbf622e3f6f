"""From an endpoint to the model that pydantic-ai talks to. Only the format that is needed is imported."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from pydantic_ai.models import Model, create_async_httpx2_client
from pydantic_ai.settings import ModelSettings

from agentforge.adapters.api.task import Endpoint, Task

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
