"""What is found out about this machine: agents and their logins, model servers, providers and sandboxes."""

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from msgspec import Struct

from agentforge.adapters.cli_agents.description import AgentCli
from agentforge.adapters.host import probe as host_probe
from agentforge.adapters.host.probe import model_server
from agentforge.adapters.providers.builtin import builtin_providers
from agentforge.app.providers.offers import BASES, Offer, find_offers
from agentforge.app.wiring import sandboxes
from agentforge.model.errors import AgentForgeError
from agentforge.model.plan import SandboxChoice
from agentforge.model.secrecy import is_secret_name
from agentforge.ports.provider import ExecuteRequest
from agentforge.ports.sandbox import Sandbox
from agentforge.runtime.tasks.call import is_program
from agentforge.tool_loop.endpoint import LOCAL

Level = Literal["ok", "note", "warning", "broken"]
Group = Literal[
    "machine", "project", "tools", "agents", "environment", "models", "sandboxes", "providers", "settings"
]
"""In the order in which they are shown."""
MOST_NAMED = 4
MOST_VARIABLES = 12
_TRIED = {
    "bwrap": (SandboxChoice("bwrap", network=False), "a confined program starts"),
    "docker": (SandboxChoice("docker", image="any"), "client and engine answer"),
}


class Probe(Struct, frozen=True):
    """One finding about this machine, project or environment, with the exact fix."""

    group: Group
    name: str
    level: Level
    found: str
    fix: str = ""


def agent_probes(environ: Mapping[str, str]) -> list[Callable[[], list[Probe]]]:
    """To be made at the same time: some programs take seconds to tell their version."""
    return [
        *(partial(_program, cli, environ) for cli in BASES.values()),
        partial(_api, environ),
        *(partial(_server, name, server.base_url, server.start) for name, server in LOCAL.items()),
        partial(_seen, environ),
    ]


def _program(cli: AgentCli, environ: Mapping[str, str]) -> list[Probe]:
    found = host_probe.program(cli.name, environ)
    if found is None:
        return [Probe("agents", cli.name, "note", "not found", cli.install)]
    if let_in := _let_in(cli, environ):
        return [Probe("agents", cli.name, "ok", f"{found.words}, {let_in}")]
    unseen = ", or by a login in the keychain" if sys.platform == "darwin" else ""
    words = f"{found.words}, but neither a key nor a login was found"
    return [Probe("agents", cli.name, "warning", words, f"{cli.log_in}, or set {cli.keys[0]}{unseen}")]


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


def _api(environ: Mapping[str, str]) -> list[Probe]:
    provider = builtin_providers(environ)["api"]
    try:
        provider.validate()
    except AgentForgeError as error:
        message, _, install = error.message.partition(". Install with: ")
        return [Probe("agents", "api", "note", message, error.hint or install)]
    keys = [
        name for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY") if environ.get(name)
    ]
    said = f"{' and '.join(keys)} {'are' if len(keys) > 1 else 'is'} set" if keys else "no key is set"
    return [Probe("agents", "api", "ok", f"its packages are installed, {said}")]


def _server(name: str, base_url: str, start: str) -> list[Probe]:
    port = int(base_url.rpartition(":")[2].partition("/")[0])
    found = model_server(port)
    if found is None:
        return [Probe("models", name, "note", f"nothing listens on port {port}", start)]
    if found.models is None:
        return [Probe("models", name, "note", f"what listens on port {port} is no model server", start)]
    named = ", ".join(found.models[:MOST_NAMED])
    more = f" and {len(found.models) - MOST_NAMED} more" if len(found.models) > MOST_NAMED else ""
    return [Probe("models", name, "ok", f"answers on port {port}: {named or 'no models yet'}{more}")]


def _seen(environ: Mapping[str, str]) -> list[Probe]:
    """Which variables reach the agents that are there, by name."""
    found = []
    shown = {*BASES, "command"}
    for name, provider in builtin_providers(environ).items():
        if name in shown and is_program(provider):
            config = {"run": "true"} if name == "command" else {}
            try:
                command = provider.command(ExecuteRequest("", "", config, "/", {}, "/", "/"))
            except AgentForgeError:
                continue
            words = _listed(set(command.env) & set(environ), environ)
            found.append(Probe("environment", name, "ok", words))
    return found


def _listed(names: set[str], environ: Mapping[str, str]) -> str:
    """Secrets first, as those matter most."""
    ordered = sorted(names, key=lambda name: (not is_secret_name(name), name))
    shown = [f"{name} (secret)" if is_secret_name(name) else name for name in ordered[:MOST_VARIABLES]]
    more = f", and {len(ordered) - MOST_VARIABLES} more" if len(ordered) > MOST_VARIABLES else ""
    amount = "your whole environment" if len(names) == len(environ) else f"{len(names)} of your variables"
    return f"gets {amount}: {', '.join(shown)}{more}"


def provider_probes(project: str, environ: Mapping[str, str]) -> list[Probe]:
    """None of them is set up here: that might call somebody. `agentforge providers` does."""
    offers = find_offers(project, environ)
    built_in = [name for name, offer in offers.items() if offer.origin == "built in"]
    others = [offer for offer in offers.values() if offer.origin != "built in"]
    return [
        Probe("providers", "built in", "ok", ", ".join(sorted(built_in))),
        *(_offer(offer) for offer in sorted(others, key=lambda offer: offer.name)),
    ]


def _offer(offer: Offer) -> Probe:
    where = f"{offer.origin}: {offer.place}"
    try:
        offer.make()
    except AgentForgeError as error:
        said = error.message if error.message.startswith(offer.place) else f"{where}: {error.message}"
        return Probe("providers", offer.name, "warning", said, error.hint)
    if offer.shadows:
        return Probe("providers", offer.name, "note", f"{where}; stands in for the built-in one")
    return Probe("providers", offer.name, "ok", where)


def sandbox_probes(environ: Mapping[str, str]) -> list[Callable[[], list[Probe]]]:
    return [partial(_sandbox, sandbox) for sandbox in sandboxes(environ).values()]


def _sandbox(sandbox: Sandbox) -> list[Probe]:
    choice, works = _TRIED[sandbox.name]
    try:
        sandbox.probe(choice)
    except AgentForgeError as error:
        said = error.message.removeprefix(f"sandbox {sandbox.name}").lstrip(": ")
        return [Probe("sandboxes", sandbox.name, "note", said, error.hint)]
    return [Probe("sandboxes", sandbox.name, "ok", works)]
