"""Which endpoint a model's name means, and when a limit there ends."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentforge.model.errors import ProviderUnusable
from agentforge.tool_loop.task import Endpoint, endpoint_of

KEYS = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o", "MY_KEY": "m"}


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("anthropic:claude-x", {}, Endpoint("anthropic", "claude-x", "", "ANTHROPIC_API_KEY", priced=True)),
        ("claude-x", {}, Endpoint("anthropic", "claude-x", "", "ANTHROPIC_API_KEY", priced=True)),
        ("openai:gpt-x", {}, Endpoint("openai", "gpt-x", "", "OPENAI_API_KEY", priced=True)),
        ("gpt-x", {"api": "openai"}, Endpoint("openai", "gpt-x", "", "OPENAI_API_KEY", priced=True)),
        (
            "anthropic:claude-x",
            {"base_url": "http://127.0.0.1:1", "key_env": "MY_KEY"},
            Endpoint("anthropic", "claude-x", "http://127.0.0.1:1", "MY_KEY", priced=True),
        ),
        ("qwen3:30b", {"base_url": "http://h:1/v1"}, Endpoint("openai", "qwen3:30b", "http://h:1/v1")),
        (
            "m",
            {"base_url": "http://h:1", "api": "anthropic", "key_env": "MY_KEY"},
            Endpoint("anthropic", "m", "http://h:1", "MY_KEY"),
        ),
    ],
)
def test_name_and_settings_say_the_endpoint(name: str, settings: dict[str, Any], expected: Endpoint) -> None:
    assert endpoint_of(name, KEYS, **settings) == expected


@pytest.mark.parametrize(
    ("name", "model", "address", "start"),
    [
        ("ollama:qwen3-coder:30b", "qwen3-coder:30b", "http://127.0.0.1:11434/v1", "ollama serve"),
        ("lmstudio:qwen", "qwen", "http://127.0.0.1:1234/v1", "lms server start"),
        ("vllm:org/model", "org/model", "http://127.0.0.1:8000/v1", "vllm serve"),
    ],
)
def test_local_servers_need_neither_address_nor_key(name: str, model: str, address: str, start: str) -> None:
    found = endpoint_of(name, {})
    assert (found.api, found.model, found.base_url, found.key_env) == ("openai", model, address, "")
    assert start in found.start_hint
    assert not found.priced
    assert endpoint_of(name, {}, base_url="http://box:9/v1").base_url == "http://box:9/v1"


def test_environment_names_another_address_and_a_token() -> None:
    environ = {"ANTHROPIC_AUTH_TOKEN": "t", "ANTHROPIC_BASE_URL": "http://proxy"}
    found = endpoint_of("anthropic:claude-x", environ)
    assert (found.key_env, found.bearer, found.base_url) == ("ANTHROPIC_AUTH_TOKEN", True, "http://proxy")
    assert (
        endpoint_of("openai:x", {"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "http://p"}).base_url == "http://p"
    )
    assert not endpoint_of("claude-x", {**environ, **KEYS}).bearer


@pytest.mark.parametrize(
    ("name", "settings", "says", "hint"),
    [
        ("", {}, "`model` is missing", "ollama:"),
        ("ollama:", {}, "`model` is missing", "ollama:"),
        ("mystery", {}, "cannot infer which API serves model 'mystery'", "base_url"),
        ("claude-x", {}, "ANTHROPIC_API_KEY is not set", "environment variable ANTHROPIC_API_KEY"),
        ("openai:x", {}, "OPENAI_API_KEY is not set", "OPENAI_API_KEY"),
        ("ollama:x", {"key_env": "NONE"}, "NONE is not set", "NONE"),
        ("x", {"base_url": "127.0.0.1:11434"}, r"must be an http\(s\) URL", "http://127.0.0.1:11434/v1"),
    ],
)
def test_ambiguous_endpoints_are_rejected_with_a_hint(
    name: str, settings: dict[str, Any], says: str, hint: str
) -> None:
    with pytest.raises(ProviderUnusable, match=says) as refused:
        endpoint_of(name, {}, **settings)
    assert hint in (refused.value.hint or "")


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "retry_after", "seconds"),
    [
        ({}, None, None),
        ({}, 30.0, 30),
        ({"anthropic-ratelimit-requests-reset": "2026-01-01T12:01:00Z"}, None, 60),
        (
            {
                "anthropic-ratelimit-requests-remaining": "5",
                "anthropic-ratelimit-requests-reset": "2026-01-01T12:30:00Z",
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2026-01-01T12:02:00Z",
            },
            5.0,
            120,
        ),
        ({"anthropic-ratelimit-unified-reset": str(int(NOW.timestamp()) + 90)}, None, 90),
        ({"anthropic-ratelimit-requests-reset": "2026-01-01T11:00:00Z"}, None, None),
        ({"anthropic-ratelimit-requests-reset": "soon"}, None, None),
        ({"anthropic-ratelimit-requests-reset": "9" * 30}, 1.0, 1),
    ],
)
def test_end_of_a_limit_is_the_latest_of_those_used_up(
    headers: dict[str, str], retry_after: float | None, seconds: int | None
) -> None:
    expected = None if seconds is None else NOW + timedelta(seconds=seconds)
    # Its libraries take a second to import.
    from agentforge.tool_loop.models import resets_at

    assert resets_at(headers, retry_after, NOW) == expected
