"""The files that programs need to run: the agent's, those on its PATH, and the engine's own."""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from agentforge.adapters.sandboxes.mounts import is_within

# One of these marks the parent of a `bin` folder as a complete installation.
_INSTALLATION = ("pyvenv.cfg", "conda-meta", "bin/node", "bin/python3", "bin/java")
_MAX_HOPS = 8
_FIRST_LINE = 512
_SITE = ("site-packages", "dist-packages")


def program_files(program: str, environment: Mapping[str, str], workspace: str) -> tuple[str, ...]:
    """The paths that the program, the programs on its PATH, and the engine need to run."""
    path = environment.get("PATH", os.defpath)
    home = environment.get("HOME", "")
    found: list[str] = []
    for place in (program, sys.executable):
        _trace(place, path, found)
    listed = [folder for folder in path.split(os.pathsep) if os.path.isabs(folder)]
    paths = [
        *(_of_program(place, home, workspace) for place in found),
        *(_installation(folder, home, workspace) for folder in listed),
        *engine_files(),
    ]
    return tuple(dict.fromkeys(os.path.normpath(path) for path in paths))


def engine_files() -> tuple[str, ...]:
    """The folders that the engine needs to run."""
    package = str(Path(__file__).absolute().parents[2])
    sites = (entry for entry in sys.path if os.path.basename(entry) in _SITE)
    return (sys.prefix, sys.base_prefix, package, *sites)


def guarded_programs(
    program: str, environment: Mapping[str, str], workspace: str, writable: Iterable[str]
) -> tuple[str, ...]:
    """The programs and modules in writable folders: a change decides what the engine, and agents that aren't
    confined, execute. Programs in folders that the stage names in `writable` may be changed, but not the
    engine's own."""
    chosen = tuple(writable)
    roots = (workspace, *chosen)
    own = (*engine_files(), os.path.dirname(sys.executable), *filter(os.path.isabs, sys.path))
    theirs = program_files(program, environment, workspace)
    found = (*own, *(path for path in theirs if not any(is_within(path, folder) for folder in chosen)))
    below = (
        os.path.normpath(path)
        for path in found
        if any(path != root and is_within(path, root) for root in roots)
    )
    return tuple(dict.fromkeys(below))


def _trace(program: str, path: str, found: list[str]) -> None:
    """Collect the program, the targets of its links, and the same for its interpreter."""
    place = shutil.which(program, path=path)
    hops = 0
    while place is not None and place not in found and hops < _MAX_HOPS:
        found.append(place)
        hops += 1
        if os.path.islink(place):
            place = os.path.join(os.path.dirname(place), os.readlink(place))
        else:
            found.append(os.path.realpath(place))
            place = shutil.which(interpreter, path=path) if (interpreter := _interpreter(place)) else None


def _interpreter(program: str) -> str:
    try:
        with Path(program).open("rb") as file:
            first = file.readline(_FIRST_LINE)
    except OSError:
        return ""
    words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else ""


def _of_program(place: str, home: str, workspace: str) -> str:
    """The folder or installation of a program; only the file itself for a script of the project."""
    folder = os.path.dirname(place)
    installed = _installation(folder, home, workspace)
    return place if installed == folder and is_within(folder, workspace) else installed


def _installation(folder: str, home: str, workspace: str) -> str:
    """The folder, or the complete installation that contains it."""
    before, modules, _ = folder.partition("/node_modules/")
    if modules:
        return f"{before}/node_modules"
    prefix = os.path.dirname(folder)
    if os.path.basename(folder) != "bin" or prefix in ("/", home, workspace, os.path.join(home, ".local")):
        return folder
    whole = any(os.path.exists(os.path.join(prefix, name)) for name in _INSTALLATION)
    return prefix if whole else folder
