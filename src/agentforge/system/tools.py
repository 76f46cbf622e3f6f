"""Finds the programs that the engine itself calls.

They are looked up together, when a run starts: what an agent adds to a folder on the PATH has no effect.
Never inside the project, where an agent could replace them, and never by a relative entry of PATH.
"""

import os
import shutil
from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct

ToolName = Literal[
    "bd", "bwrap", "docker", "env", "gh", "git", "notify-send", "osascript", "runlevel", "systemctl", "tmux"
]
TOOLS: tuple[ToolName, ...] = get_args(ToolName)


class _Tools(Struct, frozen=True):
    path: str
    """The folders of PATH that exist, without those inside the project."""
    found: dict[ToolName, str]


_known: dict[tuple[str, str], _Tools] = {}
"""By PATH and project."""


def resolve_tools(environ: Mapping[str, str], project: str) -> None:
    """Look all tools up, at the start of a run. Without it, they are looked up at first use."""
    entries = _path(environ).split(os.pathsep)
    outside = (entry for entry in entries if os.path.isabs(entry) and not _is_inside(entry, project))
    path = os.pathsep.join(filter(os.path.isdir, outside))
    # A folder outside of the project can hold a link into it, so the places are checked again.
    places = ((name, shutil.which(name, path=path)) for name in TOOLS)
    found = {
        name: os.path.abspath(place) for name, place in places if place and not _is_inside(place, project)
    }
    _known[_path(environ), project] = _Tools(path, found)


def find_tool(name: ToolName, environ: Mapping[str, str], project: str) -> str | None:
    """The absolute path of the program, or None."""
    return _tools(environ, project).found.get(name)


def why_refused(name: ToolName, environ: Mapping[str, str], project: str) -> str:
    """What to say about a program that `find_tool` doesn't find, or ""."""
    path = shutil.which(name, path=_path(environ))
    if path is None:
        return ""
    if _is_inside(path, project):
        return f"; {path} is not used, because it is in the project, where agents could change it"
    return f"; {path} is not used, because it was not on the PATH when the run started"


def tool_environment(environ: Mapping[str, str], project: str) -> dict[str, str]:
    """For a program that calls others: a PATH of the folders outside the project that existed when the tools
    were looked up."""
    return {**environ, "PATH": _tools(environ, project).path}


def _tools(environ: Mapping[str, str], project: str) -> _Tools:
    key = (_path(environ), project)
    if key not in _known:
        resolve_tools(environ, project)
    return _known[key]


def _path(environ: Mapping[str, str]) -> str:
    return environ.get("PATH", os.defpath)


def _is_inside(path: str, project: str) -> bool:
    """Whether it is inside the project, by its name or by where its links lead."""
    if not project:
        return False
    places = (
        (os.path.abspath(path), os.path.abspath(project)),
        tuple(map(os.path.realpath, (path, project))),
    )
    return any(place == folder or place.startswith(folder.rstrip("/") + "/") for place, folder in places)
