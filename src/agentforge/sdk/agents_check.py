"""Agents on this machine: their programs, whether they can log in, and what of the environment they see."""

import os
import sys
from collections.abc import Callable, Mapping

from agentforge.adapters import host_probe
from agentforge.adapters.api.endpoint import LOCAL
from agentforge.adapters.host_probe import model_server
from agentforge.adapters.providers.agent_cli import AgentCli
from agentforge.adapters.providers.builtin import builtin_providers
from agentforge.adapters.providers.claude import CLAUDE
from agentforge.adapters.providers.codex import CODEX
from agentforge.adapters.providers.gemini import GEMINI
from agentforge.adapters.providers.opencode import OPENCODE
from agentforge.model.errors import AgentForgeError
from agentforge.model.secrecy import is_secret_name
from agentforge.ports.provider import ExecuteRequest
from agentforge.runtime.tasks.call import is_program
from agentforge.sdk.checks import Check

MOST_NAMED = 4
MOST_VARIABLES = 12


AGENTS = (CLAUDE, CODEX, OPENCODE, GEMINI)


def agent_checks(environ: Mapping[str, str]) -> list[Callable[[], list[Check]]]:
    """To be made at the same time: some programs take seconds to tell their version."""
    return [
        *(_later(_program, cli, environ) for cli in AGENTS),
        _later(_api, environ),
        *(_later(_server, name, server.base_url, server.start) for name, server in LOCAL.items()),
        _later(_seen, environ),
    ]


def _later(check: Callable[..., list[Check]], *about: object) -> Callable[[], list[Check]]:
    return lambda: check(*about)


def _program(cli: AgentCli, environ: Mapping[str, str]) -> list[Check]:
    found = host_probe.program(cli.name, environ)
    if found is None:
        return [Check("agents", cli.name, "note", "not found", cli.install)]
    if let_in := _let_in(cli, environ):
        return [Check("agents", cli.name, "ok", f"{found.words}, {let_in}")]
    unseen = ", or by a login in the keychain" if sys.platform == "darwin" else ""
    words = f"{found.words}, but neither a key nor a login was found"
    return [Check("agents", cli.name, "warning", words, f"{cli.log_in}, or set {cli.keys[0]}{unseen}")]


def _let_in(cli: AgentCli, environ: Mapping[str, str]) -> str:
    """By what it can authenticate, as far as can be seen; never the value itself."""
    for variable in cli.keys:
        if environ.get(variable):
            return f"{variable} is set"
    for login in cli.logins:
        if os.path.isfile(_expanded(login, environ)):
            return f"logged in ({login.rpartition(':')[2]})"
    return ""


def _expanded(login: str, environ: Mapping[str, str]) -> str:
    """`$CODEX_HOME:~/.codex/auth.json`: where the variable is set, the last part lies in its folder."""
    variable, _, default = login.rpartition(":")
    moved = environ.get(variable.removeprefix("$")) if variable else None
    if moved:
        below = 2 if variable.startswith("$XDG") else 1
        return os.path.join(moved, *default.split("/")[-below:])
    home = environ.get("HOME") or os.path.expanduser("~")
    return default.replace("~", home, 1)


def _api(environ: Mapping[str, str]) -> list[Check]:
    provider = builtin_providers(environ)["api"]
    try:
        provider.validate()
    except AgentForgeError as error:
        message, _, install = error.message.partition(". Install with: ")
        return [Check("agents", "api", "note", message, error.hint or install)]
    keys = [
        name for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY") if environ.get(name)
    ]
    said = f"{' and '.join(keys)} {'are' if len(keys) > 1 else 'is'} set" if keys else "no key is set"
    return [Check("agents", "api", "ok", f"its packages are installed, {said}")]


def _server(name: str, base_url: str, start: str) -> list[Check]:
    port = int(base_url.rpartition(":")[2].partition("/")[0])
    found = model_server(port)
    if found is None:
        return [Check("models", name, "note", f"nothing listens on port {port}", start)]
    if found.models is None:
        return [Check("models", name, "note", f"what listens on port {port} is no model server", start)]
    named = ", ".join(found.models[:MOST_NAMED])
    more = f" and {len(found.models) - MOST_NAMED} more" if len(found.models) > MOST_NAMED else ""
    return [Check("models", name, "ok", f"answers on port {port}: {named or 'no models yet'}{more}")]


def _seen(environ: Mapping[str, str]) -> list[Check]:
    """Which variables reach the agents that are there, by name."""
    found = []
    shown = {*(cli.name for cli in AGENTS), "command"}
    for name, provider in builtin_providers(environ).items():
        if name in shown and is_program(provider):
            config = {"run": "true"} if name == "command" else {}
            try:
                command = provider.command(ExecuteRequest("", "", config, "/", {}, "/", "/"))
            except AgentForgeError:
                continue
            words = _listed(set(command.env) & set(environ), environ)
            found.append(Check("environment", name, "ok", words))
    return found


def _listed(names: set[str], environ: Mapping[str, str]) -> str:
    """Secrets first, as those matter most."""
    ordered = sorted(names, key=lambda name: (not is_secret_name(name), name))
    shown = [f"{name} (secret)" if is_secret_name(name) else name for name in ordered[:MOST_VARIABLES]]
    more = f", and {len(ordered) - MOST_VARIABLES} more" if len(ordered) > MOST_VARIABLES else ""
    amount = "your whole environment" if len(names) == len(environ) else f"{len(names)} of your variables"
    return f"gets {amount}: {', '.join(shown)}{more}"
