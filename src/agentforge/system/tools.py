"""Finds the programs that the engine itself calls: bwrap, docker, git, bd, tmux.

Never inside the project, where an agent could replace them, and never by a relative entry of PATH.
"""

import os
import shutil
from collections.abc import Mapping

_found: dict[tuple[str, str, str], str] = {}
"""By name, PATH and project: a program is looked up once."""


def find_tool(name: str, environ: Mapping[str, str], project: str) -> str | None:
    """The absolute path of the program, or None."""
    key = (name, _path(environ), project)
    if key not in _found:
        path = shutil.which(name, path=tool_environment(environ, project)["PATH"])
        if path is None or _is_inside(path, project):
            return None
        _found[key] = os.path.abspath(path)
    return _found[key]


def why_refused(name: str, environ: Mapping[str, str]) -> str:
    """What to say about a program that `find_tool` doesn't find, or ""."""
    path = shutil.which(name, path=_path(environ))
    return f"; {path} is not used, because it is in the project, where agents could change it" if path else ""


def tool_environment(environ: Mapping[str, str], project: str) -> dict[str, str]:
    """For a program that calls others: a PATH without folders inside the project."""
    entries = _path(environ).split(os.pathsep)
    outside = (entry for entry in entries if os.path.isabs(entry) and not _is_inside(entry, project))
    return {**environ, "PATH": os.pathsep.join(outside)}


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
