"""Connects adapters to ports: the log, processes, sources and sandboxes of an engine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agentforge.adapters.log.jsonl_log import JsonlLog, buffer_settings

if TYPE_CHECKING:
    from agentforge.model.layout import RunLayout
    from agentforge.ports.host import Clock, Processes
    from agentforge.ports.sandbox import Sandbox
    from agentforge.ports.sources import Sources

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SUPERVISOR = os.path.join(PACKAGE, "runtime", "supervisor.py")
BUILTIN = os.path.join(PACKAGE, "builtin")


# Adapters are imported when they are used: `status` and `tail` need the log only.


def log_of(layout: RunLayout, environ: Mapping[str, str]) -> JsonlLog:
    return JsonlLog(layout.log, buffer_settings(environ))


def local_processes() -> Processes:
    from agentforge.adapters.host.processes import host_processes

    return host_processes(SUPERVISOR)


def sources_of(project: str, environ: Mapping[str, str], clock: Clock | None = None) -> Sources:
    from agentforge.adapters.host.project_files import FileSources

    return FileSources(project, builtin=BUILTIN, environment=environ, clock=clock)


def sandboxes(environ: Mapping[str, str], project: str) -> Mapping[str, Sandbox]:
    """By the name used in a stage, all except `none`, not validated. `environ` is used to find and run their
    programs, outside the project."""
    from agentforge.adapters.sandboxes.bwrap import BwrapSandbox
    from agentforge.adapters.sandboxes.docker import DockerSandbox

    available: tuple[Sandbox, ...] = (BwrapSandbox(environ, project), DockerSandbox(environ, project))
    return {sandbox.name: sandbox for sandbox in available}


def known_providers(project: str, environ: Mapping[str, str]) -> list[str] | None:
    """The provider names that a pipeline may use, or None in mock mode, where every name is accepted."""
    from agentforge.adapters.providers.mock import is_mock_mode
    from agentforge.app.providers.offers import find_offers

    return None if is_mock_mode(environ) else sorted(find_offers(project, environ))
