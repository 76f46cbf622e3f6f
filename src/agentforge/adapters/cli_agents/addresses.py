"""Where the requests of a CLI agent go: as its variables say, or its own settings.

Only the user's settings are read. What the project says, agents can write; docs/network.md names that."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from os.path import expanduser, join
from typing import Any

import msgspec

from agentforge.adapters.cli_agents.command_line import CliConfig, permissions_of, texts
from agentforge.adapters.cli_agents.description import AgentCli
from agentforge.adapters.environment import as_text, passed_variables
from agentforge.model.errors import NOT_JSON, ProviderUnusable, StorageFailed
from agentforge.model.secrets import names_address
from agentforge.ports.provider import Endpoints
from agentforge.system import files

MAX_BYTES = 1024 * 1024
OLLAMA = "http://localhost:11434/v1"
OPEN_SOURCE = {"oss": OLLAMA, "ollama": OLLAMA, "lmstudio": "http://localhost:1234/v1"}
"""The providers of codex that are on this machine unless its settings say otherwise."""
_CONFIG = re.compile(r"(?:--config=|-c=?)(.+)", re.DOTALL)
NOT_TOML = (tomllib.TOMLDecodeError, UnicodeError, RecursionError)


def endpoints_of(cli: AgentCli, model: str, config: CliConfig, inherited: Mapping[str, str]) -> Endpoints:
    """Raises ProviderUnusable if it calls a service elsewhere, or if that is unknown."""
    ours = {name: as_text(value) for name, value in cli.environment.items()}
    own = {name: as_text(value) for name, value in config.env.items()}
    environment = {**ours, **passed_variables(inherited, (*cli.passes, *config.pass_env)), **own}
    arguments = (*permissions_of(cli, config), *texts(config.arguments))
    for name in cli.remote_with:
        if (
            any(_has_option(one, name) for one in arguments)
            if name.startswith("-")
            else environment.get(name)
        ):
            hint = f"remove {name} from `arguments`" if name.startswith("-") else f"unset {name}"
            raise ProviderUnusable(f"{name} makes it call a service elsewhere", hint=hint)
    read = _SETTINGS.get(cli.output) if not cli.addresses else None
    in_settings = read(config, environment, arguments, model) if read else ""
    main = in_settings or next(filter(None, map(environment.get, cli.addresses)), "")
    if not main:
        hint = f"set {cli.addresses[0]} to" if cli.addresses else "name in its settings"
        raise ProviderUnusable(
            "it calls the service of its maker, or it is unknown which server it calls",
            hint=f"{hint} the address of a server on this machine, such as {OLLAMA}",
        )
    others = (value for name, value in environment.items() if names_address(name) and value)
    return Endpoints(tuple(dict.fromkeys((main, *others))), environment)


def _has_option(argument: str, option: str) -> bool:
    """Also with its value in the same argument."""
    if option.startswith("--"):
        return argument.partition("=")[0] == option
    return argument.startswith(option)


def _codex(config: CliConfig, environment: Mapping[str, str], arguments: Sequence[str], _model: str) -> str:
    home = environment.get("CODEX_HOME") or join(environment.get("HOME", ""), ".codex")
    settings = _read(join(home, "config.toml"), lambda text: tomllib.loads(text.decode()))
    given = dict(_overrides(arguments))
    if "profile" in {**settings, **given} or any(isinstance(one, dict) for one in given.values()):
        return ""  # A profile or a table may name another provider or its address.

    def value(*path: str) -> str:
        return str(given.get(".".join(path)) or _text(settings, *path))

    name = config.model_provider or value("model_provider")
    if name in ("", "openai"):
        return value("openai_base_url")
    own = environment.get("CODEX_OSS_BASE_URL", "") if name in OPEN_SOURCE else ""
    return value("model_providers", name, "base_url") or own or OPEN_SOURCE.get(name, "")


def _overrides(arguments: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """`-c key=value`, as codex reads it: the value is TOML, or else a text."""
    for option, following in pairwise((*arguments, "")):
        joined = _CONFIG.fullmatch(option)
        setting = joined[1] if joined else following if option in ("-c", "--config") else ""
        key, equals, value = setting.partition("=")
        if equals:
            try:
                yield key.strip(), tomllib.loads(f"x = {value}")["x"]
            except NOT_TOML:
                yield key.strip(), value.strip()


def _opencode(_: CliConfig, environment: Mapping[str, str], __: Sequence[str], model: str) -> str:
    folder = environment.get("XDG_CONFIG_HOME") or join(environment.get("HOME", ""), ".config")
    named = environment.get("OPENCODE_CONFIG", "")
    places = (join(folder, "opencode", "opencode.json"), *([named] if named else []))
    content = environment.get("OPENCODE_CONFIG_CONTENT", "").encode("utf-8", "replace")
    # The last one counts.
    levels = [*(_read(place, _json) for place in places), *([_json(content)] if content else [])][::-1]

    def value(*path: str) -> str:
        return next(filter(None, (_text(level, *path) for level in levels)), "")

    main = (model or value("model")).partition("/")[0]
    small = value("small_model").partition("/")[0] or main
    address, other = (value("provider", name, "options", "baseURL") for name in (main, small))
    return address if other == address else ""


def _read(path: str, decode: Callable[[bytes], Any]) -> dict[str, Any]:
    try:
        found = decode(files.read_named(expanduser(path), MAX_BYTES) or b"")
    except (StorageFailed, *NOT_TOML):
        found = None
    return found if isinstance(found, dict) else {}


def _json(text: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except NOT_JSON:
        return {}


def _text(settings: Any, *path: str) -> str:
    for key in path:
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings if isinstance(settings, str) else ""


_SETTINGS = {"codex": _codex, "opencode": _opencode}
"""Readers of settings, by the CLI that has them."""
