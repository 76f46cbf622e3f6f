"""How each path is visible inside a sandbox. A deeper path is mounted after its parent, and so takes
precedence."""

import os
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from agentforge.model.errors import ProviderUnusable
from agentforge.model.plan import SandboxChoice
from agentforge.ports.sandbox import Confinement


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


def given_mounts(
    within: Confinement, choice: SandboxChoice, home: str, programs: Iterable[str] = ()
) -> list[Mount]:
    """The mounts that the attempt and the stage ask for; `programs` are read-only."""
    chosen = (
        path
        for path in writable_paths(choice, within, home)
        if not any(is_within(path, folder) for folder in within.hidden)
    )
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


def writable_paths(choice: SandboxChoice, within: Confinement, home: str) -> list[str]:
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
