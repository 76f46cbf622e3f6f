"""What is usable here: the machine, the project's disk, tools, agents and settings, each with its fix."""

import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import get_args

from agentforge.adapters.host import probe as host_probe
from agentforge.adapters.host.file_systems import read_mounts, why_not_local
from agentforge.adapters.log.log import BUFFER_VARIABLE, FLUSH_VARIABLE, buffer_settings
from agentforge.adapters.providers.mock import is_mock_mode, mock_delay
from agentforge.app.doctor.probes import Group, Probe, agent_probes, provider_probes, sandbox_probes
from agentforge.app.wiring import sources_of
from agentforge.definition.diagnostics import Report
from agentforge.definition.provider_settings import VARIABLE as PROVIDER_CONFIG
from agentforge.definition.provider_settings import settings_in
from agentforge.model.errors import InvalidRequest

SLOW_SYNC_MS = 50.0
GROUPS = get_args(Group)

TOOLS = {
    "git": "for the demo and for everything that compares trees",
    "tmux": "for runs in the background",
    "bd": "for queue stages",
}
VERSION_FLAGS = {"tmux": ("-V",)}
FOLDERS = ("PROJECT_ROOT", "STAGES_DIR", "PIPELINES_DIR", "AGENT_PIPELINES_ROOT", "MOCK_FIXTURES_DIR")
LOG_LEVELS = ("debug", "info", "warn", "warning", "error", "fatal")
FREE = (
    "CLAUDE_PIPELINE_PROVIDER",
    "CLAUDE_PIPELINE_MODEL",
    "CLAUDE_PIPELINE_CONTEXT",
    "EVENTS_TAIL_LINES",
    "COMPILE_TIMESTAMP",
    "SESSION_CREATED_AT",
    "NO_COLOR",
    "AGENTFORGE_DEBUG",
)


def examine(project: str, environ: Mapping[str, str]) -> list[Probe]:
    """All probes, made at the same time; none of them changes anything that stays."""
    parts: list[Callable[[], list[Probe]]] = [
        _machine,
        partial(_project, project),
        *(partial(_tool, name, purpose, environ) for name, purpose in TOOLS.items()),
        *agent_probes(environ),
        *sandbox_probes(environ),
        partial(provider_probes, project, environ),
        partial(settings_probes, project, environ),
    ]
    with ThreadPoolExecutor(len(parts)) as threads:
        found = [probe for part in [threads.submit(part) for part in parts] for probe in part.result()]
    return sorted(found, key=lambda probe: GROUPS.index(probe.group))


def is_usable(probes: Sequence[Probe]) -> bool:
    return not any(probe.level == "broken" for probe in probes)


def _machine() -> list[Probe]:
    # An interpreter that is too old doesn't get as far as this.
    python = Probe("machine", "python", "ok", f"{platform.python_version()} ({sys.executable})")
    return [python, _platform(sys.platform, f"{platform.system()} {platform.release()}")]


def _platform(name: str, system: str) -> Probe:
    if name.startswith("linux"):
        return Probe("machine", "platform", "ok", f"{system}: full guarantees")
    if name == "darwin":
        weaker = f"{system}: weaker guarantees: what an agent starts and detaches may outlive it"
        return Probe("machine", "platform", "warning", weaker, "use Linux where that matters")
    return Probe("machine", "platform", "broken", system, "use Linux, macOS, or WSL on Windows")


def _project(project: str) -> list[Probe]:
    where = os.path.realpath(project)
    disk = Probe("project", "disk", "ok", f"{where} is on a local file system")
    if reason := why_not_local(where, read_mounts()):
        disk = Probe("project", "disk", "broken", reason, "move the project to a local disk")
    speed = host_probe.sync_speed(where)
    if speed.error:
        fix = f"make it writable for you: see `ls -ld {where}`"
        return [disk, Probe("project", "writing", "broken", speed.error, fix)]
    taken = f"{speed.milliseconds:.2f} ms for a durable write"
    sync = Probe("project", "writing", "ok", f"permitted, {taken}")
    if speed.milliseconds > SLOW_SYNC_MS:
        sync = Probe("project", "writing", "warning", f"permitted, but slow: {taken}", "use a faster disk")
    return [disk, sync]


def _tool(name: str, purpose: str, environ: Mapping[str, str]) -> list[Probe]:
    install = "brew install" if sys.platform == "darwin" else "sudo apt-get install"
    found = host_probe.program(name, environ, VERSION_FLAGS.get(name, ("--version",)))
    if found is None:
        fix = "npm install -g @beads/bd" if name == "bd" else f"{install} {name}"
        return [Probe("tools", name, "note", f"not found; wanted {purpose}", fix)]
    return [Probe("tools", name, "ok", found.words)]


def _provider_config(environ: Mapping[str, str]) -> None:
    report = Report()
    settings_in(environ, report)
    for found in report.diagnostics:
        raise InvalidRequest(found.message, hint=found.hint or "write a mapping in YAML or JSON")


REFUSING: dict[str, Callable[[Mapping[str, str]], object]] = {
    BUFFER_VARIABLE: buffer_settings,
    FLUSH_VARIABLE: buffer_settings,
    "MOCK_DELAY": mock_delay,
    PROVIDER_CONFIG: _provider_config,
}
"""Variables whose own reader says what is wrong with them."""


def settings_probes(project: str, environ: Mapping[str, str]) -> list[Probe]:
    found = [*_values(environ), *_folders(project, environ), *_modes(environ)]
    return found or [Probe("settings", "environment", "ok", "nothing is set: defaults hold")]


def _values(environ: Mapping[str, str]) -> Iterator[Probe]:
    for name, read in REFUSING.items():
        if value := environ.get(name):
            try:
                read({name: value})
            except InvalidRequest as error:
                yield Probe("settings", name, "broken", error.message, error.hint)
            else:
                yield Probe("settings", name, "ok", value)
    if level := environ.get("AGENT_PIPELINES_LOG_LEVEL"):
        known = level.strip().lower() in LOG_LEVELS
        fix = "" if known else f"use one of {', '.join(LOG_LEVELS)}"
        yield Probe("settings", "AGENT_PIPELINES_LOG_LEVEL", "ok" if known else "broken", level, fix)
    for name in FREE:
        if value := environ.get(name):
            yield Probe("settings", name, "ok", value if len(value) <= 80 else f"{value[:79]}…")


def _folders(project: str, environ: Mapping[str, str]) -> Iterator[Probe]:
    sources = sources_of(project, environ)
    for name in FOLDERS:
        if value := environ.get(name):
            if sources.is_dir(value if value.startswith("/") else f"{project}/{value}"):
                yield Probe("settings", name, "ok", value)
            else:
                fix = f"create the folder, or unset {name}"
                yield Probe("settings", name, "warning", f"{value} is no folder", fix)


def _modes(environ: Mapping[str, str]) -> Iterator[Probe]:
    if is_mock_mode(environ):
        found = "true: every agent is played by the mock"
        yield Probe("settings", "MOCK_MODE", "note", found, "unset MOCK_MODE to run real agents")
    if environ.get("AGENT_PIPELINES_LEGACY"):
        found = "set, but without effect: there is always a log"
        yield Probe("settings", "AGENT_PIPELINES_LEGACY", "warning", found, "unset AGENT_PIPELINES_LEGACY")
