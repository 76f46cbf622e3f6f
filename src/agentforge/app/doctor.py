"""Checks of the environment: machine, project disk, tools, agents and settings, each with its fix."""

import os
import platform
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from agentforge.adapters.cli_agents.description import AgentCli
from agentforge.adapters.cli_agents.program import find_program
from agentforge.adapters.host import probe as host_probe
from agentforge.adapters.host.probe import model_server
from agentforge.adapters.log.lease import why_not_local
from agentforge.adapters.providers.mock import is_mock_mode
from agentforge.app.hook_needs import hook_needs
from agentforge.app.probes import GROUPS, Probe, variable_probes
from agentforge.app.providers.described import BASES
from agentforge.app.providers.logins import agent_login
from agentforge.app.providers.offers import BUILTIN, Offer, find_offers
from agentforge.app.wiring import known_providers, sandboxes, sources_of
from agentforge.definition.compiler import compile_pipeline
from agentforge.definition.machine import Machine
from agentforge.definition.resolve import available_pipelines
from agentforge.model.errors import AgentForgeError
from agentforge.model.plan import SandboxChoice
from agentforge.model.secrets import is_secret_name
from agentforge.ports.provider import ExecuteRequest
from agentforge.ports.sandbox import Sandbox
from agentforge.runtime.tasks.call import is_program
from agentforge.system.mount_points import read_mounts
from agentforge.system.tools import ToolName, find_tool, resolve_tools, tool_environment, why_refused
from agentforge.tool_loop.task import KEYS, LOCAL, TOKEN

NO_AGENT = "no agent is usable here"
BUILT_IN = "built in"
MAX_MODELS = 4
MAX_VARIABLES = 12
_TRIED = {
    "bwrap": (SandboxChoice("bwrap", network=False), "can start a confined program"),
    "docker": (SandboxChoice("docker", image="any"), "client and engine respond"),
}
SLOW_SYNC_MS = 50.0

TOOLS: dict[ToolName, str] = {
    "git": "for the demo and for comparing workspaces",
    "tmux": "for runs in the background",
    "bd": "for queue stages",
}
VERSION_FLAGS = {"tmux": ("-V",)}


def doctor(project: str | os.PathLike[str] = ".", environ: Mapping[str, str] | None = None) -> list[Probe]:
    """Probe the machine, the project, tools, agents, sandboxes, providers and settings. Changes nothing."""
    project = os.path.abspath(project)
    environ = os.environ if environ is None else environ
    resolve_tools(environ, project)
    parts: list[Callable[[], list[Probe]]] = [
        _machine,
        partial(_project, project),
        *(partial(_tool, name, purpose, environ, project) for name, purpose in TOOLS.items()),
        # All parts at once, as some programs take seconds to print their version.
        *(partial(_program, cli, environ) for cli in BASES.values()),
        partial(_api, environ),
        *(partial(_server, name, server.base_url, server.start) for name, server in LOCAL.items()),
        partial(_passed_variables, environ),
        *(partial(_sandbox, sandbox) for sandbox in sandboxes(environ, project).values()),
        partial(provider_probes, project, environ),
        partial(hook_probes, project, environ),
        partial(variable_probes, project, environ, os.geteuid()),
    ]
    with ThreadPoolExecutor(len(parts)) as threads:
        found = [probe for part in [threads.submit(part) for part in parts] for probe in part.result()]
    found += _without_agent(found, environ)
    return sorted(found, key=lambda probe: GROUPS.index(probe.group))


def _machine() -> list[Probe]:
    # An interpreter that is too old fails before this.
    python = Probe("machine", "python", "ok", f"{platform.python_version()} ({sys.executable})")
    system = f"{platform.system()} {platform.release()}"
    # Only on Linux do detached processes of an agent become children of its supervisor.
    found = Probe("machine", "platform", "broken", system, "use Linux, macOS, or WSL on Windows")
    if sys.platform.startswith("linux"):
        found = Probe("machine", "platform", "ok", f"{system}: full guarantees")
    elif sys.platform == "darwin":
        weaker = f"{system}: weaker guarantees: processes that an agent detaches may outlive it"
        found = Probe("machine", "platform", "warning", weaker, "use Linux if that matters")
    return [python, found]


def _project(project: str) -> list[Probe]:
    where = os.path.realpath(project)
    disk = Probe("project", "disk", "ok", f"{where} is on a local file system")
    if reason := why_not_local(where, read_mounts()):
        disk = Probe("project", "disk", "broken", reason, "move the project to a local disk")
    speed = host_probe.sync_speed(where)
    if speed.error:
        fix = f"make it writable: see `ls -ld {where}`"
        return [disk, Probe("project", "writing", "broken", speed.error, fix)]
    fsync = f"fsync {speed.milliseconds:.2f} ms"
    sync = Probe("project", "writing", "ok", f"writable ({fsync})")
    if speed.milliseconds > SLOW_SYNC_MS:
        sync = Probe("project", "writing", "warning", f"writable, but slow ({fsync})", "use a faster disk")
    return [disk, sync]


def _tool(name: ToolName, purpose: str, environ: Mapping[str, str], project: str) -> list[Probe]:
    install = "brew install" if sys.platform == "darwin" else "sudo apt-get install"
    path = find_tool(name, environ, project)
    if path is None:
        fix = "npm install -g @beads/bd" if name == "bd" else f"{install} {name}"
        refused = why_refused(name, environ, project)
        return [Probe("tools", name, "note", f"not found; needed {purpose}{refused}", fix)]
    outside = tool_environment(environ, project)
    found = host_probe.program(path, outside, VERSION_FLAGS.get(name, ("--version",)))
    return [Probe("tools", name, "ok", found.summary)]


def _without_agent(found: list[Probe], environ: Mapping[str, str]) -> list[Probe]:
    """A probe that says so if no agent is usable."""
    working = {probe.group for probe in found if probe.level == "ok" and probe.name != BUILT_IN}
    if is_mock_mode(environ) or not working.isdisjoint(("agents", "models", "providers")):
        return []
    first = next(iter(BASES.values()))
    fix = f"install one and log in, such as {first.shown_name}: {first.install}, then {first.log_in}"
    return [Probe("agents", "all agents", "warning", NO_AGENT, fix)]


def _program(cli: AgentCli, environ: Mapping[str, str]) -> list[Probe]:
    path = find_program(cli.program_name, "/", environ)
    login = agent_login(cli, path, environ)
    if path is None:
        return [Probe("agents", cli.name, "note", login.found, login.fix)]
    found = host_probe.program(path, environ)
    if login.is_usable:
        return [Probe("agents", cli.name, "ok", f"{found.summary}, {login.found}")]
    text = f"{found.summary}, but no API key or login was found"
    return [Probe("agents", cli.name, "warning", text, login.fix)]


def _api(environ: Mapping[str, str]) -> list[Probe]:
    provider = BUILTIN["api"](environ)
    try:
        provider.validate()
    except AgentForgeError as error:
        message, _, install = error.message.partition(". Install with: ")
        return [Probe("agents", "api", "note", message, error.hint or install)]
    keys = [name for name in (KEYS["anthropic"], TOKEN, KEYS["openai"]) if environ.get(name)]
    if not keys:
        fix = f"set {KEYS['anthropic']} or {KEYS['openai']}, or use a model on this machine"
        return [Probe("agents", "api", "note", "packages are installed, no API key is set", fix)]
    which = f"{' and '.join(keys)} {'are' if len(keys) > 1 else 'is'} set"
    return [Probe("agents", "api", "ok", f"packages are installed, {which}")]


def _server(name: str, base_url: str, start: str) -> list[Probe]:
    port = int(base_url.rpartition(":")[2].partition("/")[0])
    found = model_server(port)
    if found is None:
        return [Probe("models", name, "note", f"no server on port {port}", start)]
    if found.models is None:
        return [Probe("models", name, "note", f"the server on port {port} is not a model server", start)]
    named = ", ".join(found.models[:MAX_MODELS])
    more = f" and {len(found.models) - MAX_MODELS} more" if len(found.models) > MAX_MODELS else ""
    return [Probe("models", name, "ok", f"listening on port {port}: {named or 'no models yet'}{more}")]


def _passed_variables(environ: Mapping[str, str]) -> list[Probe]:
    """The environment variables that each available agent gets, by name."""
    found = []
    shown = {*BASES, "command"}
    for name in [name for name in BUILTIN if name in shown]:
        if is_program(provider := BUILTIN[name](environ)):
            config = {"run": "true"} if name == "command" else {}
            try:
                command = provider.command(ExecuteRequest("", "", config, "/", {}, "/", "/"))
            except AgentForgeError:
                continue
            # Secrets come first because they matter most.
            passed = command.env.keys() & environ.keys()
            ordered = sorted(passed, key=lambda each: (not is_secret_name(each), each))
            named = [f"{each} (secret)" if is_secret_name(each) else each for each in ordered[:MAX_VARIABLES]]
            more = f", and {len(passed) - MAX_VARIABLES} more" if len(passed) > MAX_VARIABLES else ""
            amount = f"{len(passed)} of your variables"
            if len(passed) == len(environ):
                amount = "your whole environment"
            text = f"gets {amount}: {', '.join(named)}{more}"
            found.append(Probe("environment", name, "ok", text))
    return found


def provider_probes(project: str, environ: Mapping[str, str]) -> list[Probe]:
    """Doesn't initialize providers, because that might call a service; `agentforge providers` does."""
    offers = find_offers(project, environ)
    built_in = [name for name, offer in offers.items() if offer.origin == "built in"]
    others = [offer for offer in offers.values() if offer.origin != "built in"]
    return [
        Probe("providers", BUILT_IN, "ok", ", ".join(sorted(built_in))),
        *(_offer(offer) for offer in sorted(others, key=lambda offer: offer.name)),
    ]


def _offer(offer: Offer) -> Probe:
    where = f"{offer.origin}: {offer.place}"
    try:
        offer.make()
    except AgentForgeError as error:
        problem = error.message if error.message.startswith(offer.place) else f"{where}: {error.message}"
        return Probe("providers", offer.name, "warning", problem, error.hint)
    if offer.shadows:
        return Probe("providers", offer.name, "note", f"{where}; overrides the built-in one")
    return Probe("providers", offer.name, "ok", where)


def hook_probes(project: str, environ: Mapping[str, str]) -> list[Probe]:
    """For the hooks and notifications of each pipeline in the project folder that compiles."""
    sources, machine = (
        sources_of(project, environ),
        Machine(known_providers=known_providers(project, environ)),
    )
    found = []
    for pipeline in available_pipelines(sources):
        if pipeline.path.startswith(("/", "../")):
            continue
        try:
            plan = compile_pipeline(sources, pipeline.name, "doctor", machine=machine).plan
        except AgentForgeError:
            continue  # `lint` reports why.
        for need in hook_needs(plan, environ, project):
            text = f"{need.owner}: {need.found}"
            found.append(Probe("hooks", pipeline.name, "warning" if need.fix else "ok", text, need.fix))
    return found


def _sandbox(sandbox: Sandbox) -> list[Probe]:
    choice, works = _TRIED[sandbox.name]
    try:
        sandbox.probe(choice)
    except AgentForgeError as error:
        problem = error.message.removeprefix(f"sandbox {sandbox.name}").lstrip(": ")
        return [Probe("sandboxes", sandbox.name, "note", problem, error.hint)]
    return [Probe("sandboxes", sandbox.name, "ok", works)]
