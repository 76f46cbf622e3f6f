"""Determines the endpoint from a model's name and the settings."""

from collections.abc import Mapping
from typing import cast

from msgspec import Struct

from agentforge.model.errors import MissingKey, ProviderUnusable
from agentforge.tool_loop.task import Api, Endpoint


class LocalServer(Struct, frozen=True):
    base_url: str
    start: str


LOCAL = {
    "ollama": LocalServer("http://127.0.0.1:11434/v1", "ollama serve"),
    "lmstudio": LocalServer("http://127.0.0.1:1234/v1", "lms server start"),
    "vllm": LocalServer("http://127.0.0.1:8000/v1", "vllm serve MODEL"),
}

EXAMPLES = "anthropic:claude-sonnet-5-5, openai:gpt-5.5 or ollama:qwen3-coder:30b"

# The makers' variables for the API key and for the base URL.
KEYS: dict[Api, str] = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
TOKEN = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105 - the variable's name.
ADDRESSES: dict[Api, str] = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}


def endpoint_of(
    name: str, environ: Mapping[str, str], *, api: Api | None = None, base_url: str = "", key_env: str = ""
) -> Endpoint:
    """Raises ProviderUnusable if the endpoint can't be inferred, MissingKey if the API key is missing."""
    maker, model = _split_name(name)
    if not model:
        raise ProviderUnusable("provider api: `model` is missing", hint=f"set `model`, such as {EXAMPLES}")
    if base_url and not base_url.startswith(("http://", "https://")):
        raise ProviderUnusable(
            f"provider api: `base_url` must be an http(s) URL, got {base_url!r}",
            hint="for example http://127.0.0.1:11434/v1",
        )
    if maker in LOCAL:
        server = LOCAL[maker]
        key = _named_key(key_env, environ) if key_env else ""
        return Endpoint(
            api or "openai",
            model,
            base_url or server.base_url,
            key,
            start_hint=f"start it with `{server.start}`",
        )
    format = api or cast(Api, maker) or _guess(model, base_url)
    if maker or not base_url:
        return _makers_own(format, model, base_url, key_env, environ)
    key = _named_key(key_env, environ) if key_env else ""
    return Endpoint(format, model, base_url, key)


def _split_name(name: str) -> tuple[str, str]:
    """Split `maker:model`; a colon after anything else belongs to the model's name (`qwen3-coder:30b`)."""
    maker, colon, model = name.strip().partition(":")
    if colon and (maker in LOCAL or maker in KEYS):
        return maker, model.strip()
    return "", name.strip()


def _guess(model: str, base_url: str) -> Api:
    if base_url:
        return "openai"
    if model.startswith("claude"):
        return "anthropic"
    raise ProviderUnusable(
        f"provider api: cannot infer which API serves model {model!r}",
        hint=f"add the server to the model's name, such as {EXAMPLES}, or set `base_url`",
    )


def _makers_own(format: Api, model: str, base_url: str, key_env: str, environ: Mapping[str, str]) -> Endpoint:
    address = base_url or environ.get(ADDRESSES[format], "")
    if format == "anthropic" and not key_env and not environ.get(KEYS[format]) and environ.get(TOKEN):
        return Endpoint(format, model, address, TOKEN, bearer=True, priced=True)
    return Endpoint(format, model, address, _named_key(key_env or KEYS[format], environ), priced=True)


def _named_key(variable: str, environ: Mapping[str, str]) -> str:
    if not environ.get(variable):
        raise MissingKey(
            f"provider api: {variable} is not set",
            hint=f"set the environment variable {variable} to the API key",
        )
    return variable
