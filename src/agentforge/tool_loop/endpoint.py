"""Which endpoint a model's name and the settings mean."""

from collections.abc import Mapping
from typing import cast

from msgspec import Struct

from agentforge.model.errors import ProviderUnusable
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

# The makers' own variables: for the key, and for another address.
KEYS: dict[Api, str] = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
TOKEN = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105 - the variable's name.
ADDRESSES: dict[Api, str] = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}


def endpoint_of(
    name: str, environ: Mapping[str, str], *, api: Api | None = None, base_url: str = "", key_env: str = ""
) -> Endpoint:
    """The endpoint; raises ProviderUnusable where it can't be told, or where the key isn't there."""
    maker, model = _apart(name)
    if not model:
        raise ProviderUnusable("provider api: no model given", hint=f"set `model`, such as {EXAMPLES}")
    if base_url and not base_url.startswith(("http://", "https://")):
        raise ProviderUnusable(
            f"provider api: base_url is no address: {base_url!r}",
            hint="give one such as http://127.0.0.1:11434/v1",
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


def _apart(name: str) -> tuple[str, str]:
    """`maker:model`; a colon after anything else belongs to the model's name (`qwen3-coder:30b`)."""
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
        f"provider api: it isn't said where model {model!r} is served",
        hint=f"name the server in the model, such as {EXAMPLES}, or set `base_url`",
    )


def _makers_own(format: Api, model: str, base_url: str, key_env: str, environ: Mapping[str, str]) -> Endpoint:
    address = base_url or environ.get(ADDRESSES[format], "")
    if format == "anthropic" and not key_env and not environ.get(KEYS[format]) and environ.get(TOKEN):
        return Endpoint(format, model, address, TOKEN, bearer=True, priced=True)
    return Endpoint(format, model, address, _named_key(key_env or KEYS[format], environ), priced=True)


def _named_key(variable: str, environ: Mapping[str, str]) -> str:
    if not environ.get(variable):
        raise ProviderUnusable(
            f"provider api: {variable} isn't set",
            hint=f"put the key into the environment variable {variable}",
        )
    return variable
