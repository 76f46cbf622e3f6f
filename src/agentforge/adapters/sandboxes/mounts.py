"""How each path is visible inside a sandbox, and which files programs need to run: the agent's, those on its
PATH, and the engine's own. A deeper path is mounted after its parent, and so takes precedence."""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from agentforge.model.errors import ProviderUnusable
from agentforge.model.plan import SandboxChoice
from agentforge.ports.provider import Command
from agentforge.ports.sandbox import Confinement

# One of these marks the parent of a `bin` folder as a complete installation.
_INSTALLATION = ("pyvenv.cfg", "conda-meta", "bin/node", "bin/python3", "bin/java")
_MAX_HOPS = 8
_FIRST_LINE = 512
_SITE = ("site-packages", "dist-packages")


class Visibility(StrEnum):
    EMPTY = "empty"
    """An empty writable folder that is discarded with the sandbox."""
    HIDDEN = "hidden"
    """Empty and read-only."""
    READABLE = "readable"
    WRITABLE = "writable"


class Mount(Struct, frozen=True):
    path: str
    seen: Visibility


def given_mounts(command: Command, choice: SandboxChoice, within: Confinement, home: str) -> list[Mount]:
    """The mounts that the attempt and the stage ask for. Programs in writable folders are read-only."""
    writable = _writable_paths(choice, within, home)
    programs = _guarded_programs(command.argv[0], command.env, within.workspace, writable)
    # The last mount of a path counts (`in_order`): what the engine protects overrides what a stage may
    # change, except for the few files that the attempt must write; what the stage hides overrides all.
    chosen = (path for path in writable if not any(is_within(path, folder) for folder in within.hidden))
    return [
        Mount(within.workspace, Visibility.WRITABLE),
        *(Mount(path, Visibility.WRITABLE) for path in chosen),
        *(Mount(path, Visibility.READABLE) for path in programs),
        *(Mount(path, Visibility.HIDDEN) for path in within.hidden),
        *(Mount(path, Visibility.READABLE) for path in within.protected),
        *(Mount(path, Visibility.WRITABLE) for path in within.writable),
        *(Mount(path, Visibility.HIDDEN) for path in _hidden_paths(choice, within, home)),
    ]


def in_order(mounts: Iterable[Mount]) -> list[Mount]:
    """Existing paths only, each once, parents first; the last mount of a path counts."""
    by_path = {os.path.normpath(mount.path): mount.seen for mount in mounts if os.path.lexists(mount.path)}
    for path, seen in tuple(by_path.items()):
        if seen in (Visibility.READABLE, Visibility.HIDDEN):
            by_path |= dict.fromkeys(_around(path, by_path), Visibility.WRITABLE)
    return [Mount(path, by_path[path]) for path in sorted(by_path, key=lambda path: (path.count("/"), path))]


def _around(path: str, mounted: Mapping[str, Visibility]) -> list[str]:
    """The folders between a path and the writable folder that contains it. A mounted path can't be moved,
    but its parent could be replaced, unless the parent is a mount too."""
    between, parent = [], os.path.dirname(path)
    while parent not in mounted and parent != "/":
        between.append(parent)
        parent = os.path.dirname(parent)
    return between if mounted.get(parent) is Visibility.WRITABLE else []


def _writable_paths(choice: SandboxChoice, within: Confinement, home: str) -> list[str]:
    """The paths that a stage names as writable, absolute. Raises ProviderUnusable if one leads elsewhere
    than before: an agent may have replaced it by a link."""
    found, resolved = [], dict(choice.resolved)
    for written in choice.writable:
        path = _place(written, resolved, within, home)
        leads_to = os.path.realpath(path)
        if written in resolved:
            is_redirected = leads_to != path
        else:
            is_inside = is_within(path, within.workspace)
            is_redirected = is_inside and not is_within(leads_to, os.path.realpath(within.workspace))
        if is_redirected:
            raise ProviderUnusable(
                f"`writable` of the sandbox: {written} leads to {leads_to} now, which it didn't when the "
                "run was compiled",
                hint="remove the link, or resume the run with --recompile if it is right",
            )
        found.append(path)
    return found


def _hidden_paths(choice: SandboxChoice, within: Confinement, home: str) -> list[str]:
    """The paths that a stage hides, absolute. Raises ProviderUnusable if one that existed is missing: its
    content may be elsewhere now."""
    found, resolved = [], dict(choice.resolved)
    for written in choice.hidden:
        path = _place(written, resolved, within, home)
        if written in resolved and not os.path.lexists(path):
            raise ProviderUnusable(
                f"`hidden` of the sandbox: {written} has disappeared since the run was compiled; its content "
                "may be visible elsewhere",
                hint="restore it, or resume the run with --recompile",
            )
        found.append(path)
    return found


def _place(written: str, resolved: Mapping[str, str], within: Confinement, home: str) -> str:
    if written not in resolved:
        return absolute(written, within.workspace, home)
    return os.path.normpath(os.path.join(os.path.realpath(within.workspace), resolved[written]))


def absolute(path: str, workspace: str, home: str) -> str:
    """Resolve a path from a stage: `~` is the agent's home, others are relative to the workspace."""
    if path == "~" or path.startswith("~/"):
        return os.path.normpath(os.path.join(home, path[2:]))
    return os.path.normpath(os.path.join(workspace, path))


def is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


# -- what programs need


def program_files(program: str, environment: Mapping[str, str], workspace: str) -> tuple[str, ...]:
    """The paths that the program, the programs on its PATH, and the engine need to run."""
    path = environment.get("PATH", os.defpath)
    home = environment.get("HOME", "")
    found: list[str] = []
    for place in (program, sys.executable):
        _trace(place, path, found)
    listed = [folder for folder in path.split(os.pathsep) if os.path.isabs(folder)]
    paths = [
        *(_program_path(place, home, workspace) for place in found),
        *(_installation(folder, home, workspace) for folder in listed),
        *_engine_files(),
    ]
    return tuple(dict.fromkeys(os.path.normpath(path) for path in paths))


def _engine_files() -> tuple[str, ...]:
    """The folders that the engine needs to run."""
    package = str(Path(__file__).absolute().parents[2])
    sites = (entry for entry in sys.path if os.path.basename(entry) in _SITE)
    return (sys.prefix, sys.base_prefix, package, *sites)


def _guarded_programs(
    program: str, environment: Mapping[str, str], workspace: str, chosen: list[str]
) -> tuple[str, ...]:
    """The programs and modules in writable folders: a change decides what the engine, and agents that aren't
    confined, execute. Programs in folders that the stage names in `writable` may be changed, but not the
    engine's own."""
    roots = (workspace, *chosen)
    own = (*_engine_files(), os.path.dirname(sys.executable), *filter(os.path.isabs, sys.path))
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


def _program_path(place: str, home: str, workspace: str) -> str:
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
    # Of a version manager, such as ~/.pyenv/shims: the programs that they start are beside them.
    if os.path.basename(folder) == "shims" and prefix not in ("/", home, workspace):
        return prefix
    if os.path.basename(folder) != "bin" or prefix in ("/", home, workspace, os.path.join(home, ".local")):
        return folder
    whole = any(os.path.exists(os.path.join(prefix, name)) for name in _INSTALLATION)
    return prefix if whole else folder
