"""The agent CLIs under test: what each needs in order to talk to the model server only."""

import json
import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

PROGRAMS = "AGENTFORGE_TEST_AGENTS"
"""The folder with the programs, where it isn't that of `make agents`."""

KEY = "test-key"
RETRIES = 2
"""How often a CLI itself repeats a request that failed."""


class Cli(Struct, frozen=True):
    name: str
    """Of the provider, and of the program."""
    model: str
    configure: Callable[[Path, str], dict[str, str]]
    """Writes its settings below this home, for the model at this address; returns its variables."""
    strays: frozenset[str] = frozenset()
    """Hosts outside that it can't be kept from asking for."""
    patience: float = 4.0
    """Seconds after which it has surely asked its model something, also on a machine that is busy."""
    gives_up: tuple[int, int] = (500, RETRIES + 1)
    """A refusal, and how often it has to meet it until it gives up."""


def claude(home: Path, url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_MAX_RETRIES": str(RETRIES),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
    }


def codex(home: Path, url: str) -> dict[str, str]:
    settings = f"""
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = {RETRIES}
stream_max_retries = {RETRIES}

[analytics]
enabled = false

[features]
plugins = false
apps = false
"""
    write(home / ".codex" / "config.toml", settings)
    return {"CODEX_HOME": str(home / ".codex"), "OPENAI_API_KEY": KEY}


def opencode(home: Path, url: str) -> dict[str, str]:
    model = {
        "name": "Scripted",
        "tool_call": True,
        "limit": {"context": 128_000, "output": 8_192},
        "cost": {"input": 3, "output": 15},
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
        "models": {"model": model},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "enabled_providers": ["scripted"],
        "small_model": "scripted/model",
        "provider": {"scripted": provider},
    }
    write(home / "opencode.json", json.dumps(settings))
    return {
        "OPENCODE_CONFIG": str(home / "opencode.json"),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_SHARE": "1",
    }


def gemini(home: Path, url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {
            "enableAutoUpdate": False,
            "enableAutoUpdateNotification": False,
            "maxAttempts": RETRIES + 1,
        },
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    write(home / ".gemini" / "settings.json", json.dumps(settings))
    return {
        "GEMINI_API_KEY": KEY,
        "GEMINI_TELEMETRY_ENABLED": "false",
        "GOOGLE_GEMINI_BASE_URL": url,
    }


CLIS = {
    cli.name: cli
    for cli in (
        Cli("claude", "claude-sonnet-4-5", claude),
        # It repeats the request, and the stream as a whole.
        Cli("codex", "gpt-5.5:low", codex, gives_up=(500, (RETRIES + 1) ** 2)),
        # How often it repeats what is worth repeating can't be set.
        Cli("opencode", "scripted/model", opencode, frozenset({"registry.npmjs.org:443"}), 15.0, (400, 1)),
        Cli("gemini", "gemini-2.5-pro", gemini, patience=15.0),
    )
}


def programs() -> Path:
    chosen = os.environ.get(PROGRAMS)
    return Path(chosen) if chosen else Path(__file__).parents[2] / ".agents" / "bin"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
