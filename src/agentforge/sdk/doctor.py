"""What is usable here: the machine, the project's disk, tools, agents and settings, each with its fix."""

import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import get_args

from agentforge.adapters import host_probe
from agentforge.adapters.host_probe import read_mounts, why_not_local
from agentforge.sdk.agents_check import agent_checks
from agentforge.sdk.checks import Check, Group
from agentforge.sdk.providers_check import provider_checks, sandbox_checks
from agentforge.sdk.settings_check import check_settings

SLOW_SYNC_MS = 50.0
GROUPS = get_args(Group)

TOOLS = {
    "git": "for the demo and for everything that compares trees",
    "tmux": "for runs in the background",
    "bd": "for queue stages",
}
VERSION_FLAGS = {"tmux": ("-V",)}


def examine(project: str, environ: Mapping[str, str]) -> list[Check]:
    """All checks, made at the same time; none of them changes anything that stays."""
    parts: list[Callable[[], list[Check]]] = [
        _machine,
        lambda: _project(project),
        *(partial(_tool, name, purpose, environ) for name, purpose in TOOLS.items()),
        *agent_checks(environ),
        *sandbox_checks(environ),
        lambda: provider_checks(project, environ),
        lambda: check_settings(project, environ),
    ]
    with ThreadPoolExecutor(len(parts)) as threads:
        found = [check for part in [threads.submit(part) for part in parts] for check in part.result()]
    return sorted(found, key=lambda check: GROUPS.index(check.group))


def is_usable(checks: Sequence[Check]) -> bool:
    return not any(check.level == "broken" for check in checks)


def _machine() -> list[Check]:
    # An interpreter that is too old doesn't get as far as this.
    python = Check("machine", "python", "ok", f"{platform.python_version()} ({sys.executable})")
    return [python, _platform(sys.platform, f"{platform.system()} {platform.release()}")]


def _platform(name: str, system: str) -> Check:
    if name.startswith("linux"):
        return Check("machine", "platform", "ok", f"{system}: full guarantees")
    if name == "darwin":
        weaker = f"{system}: weaker guarantees: what an agent starts and detaches may outlive it"
        return Check("machine", "platform", "warning", weaker, "use Linux where that matters")
    return Check("machine", "platform", "broken", system, "use Linux, macOS, or WSL on Windows")


def _project(project: str) -> list[Check]:
    where = os.path.realpath(project)
    disk = Check("project", "disk", "ok", f"{where} is on a local file system")
    if reason := why_not_local(where, read_mounts()):
        disk = Check("project", "disk", "broken", reason, "move the project to a local disk")
    speed = host_probe.sync_speed(where)
    if speed.error:
        fix = f"make it writable for you: see `ls -ld {where}`"
        return [disk, Check("project", "writing", "broken", speed.error, fix)]
    taken = f"{speed.milliseconds:.2f} ms for a durable write"
    sync = Check("project", "writing", "ok", f"permitted, {taken}")
    if speed.milliseconds > SLOW_SYNC_MS:
        sync = Check("project", "writing", "warning", f"permitted, but slow: {taken}", "use a faster disk")
    return [disk, sync]


def _tool(name: str, purpose: str, environ: Mapping[str, str]) -> list[Check]:
    install = "brew install" if sys.platform == "darwin" else "sudo apt-get install"
    found = host_probe.program(name, environ, VERSION_FLAGS.get(name, ("--version",)))
    if found is None:
        fix = "npm install -g @beads/bd" if name == "bd" else f"{install} {name}"
        return [Check("tools", name, "note", f"not found; wanted {purpose}", fix)]
    return [Check("tools", name, "ok", found.words)]
