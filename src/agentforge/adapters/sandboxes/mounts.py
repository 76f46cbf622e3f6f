"""How each path is visible inside a sandbox. A deeper path is mounted after its parent, and so takes
precedence."""

import os
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

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


def given_mounts(within: Confinement, choice: SandboxChoice, home: str) -> list[Mount]:
    """The mounts that the attempt and the stage ask for."""
    chosen = [absolute(path, within.workspace, home) for path in choice.writable]
    hidden = [absolute(path, within.workspace, home) for path in choice.hidden]
    return [
        Mount(within.workspace, Visibility.WRITABLE),
        *(Mount(path, Visibility.WRITABLE) for path in chosen),
        *(Mount(path, Visibility.WRITABLE) for path in _pins(within)),
        *(Mount(path, Visibility.READABLE) for path in within.protected),
        *(Mount(path, Visibility.WRITABLE) for path in within.writable),
        *(Mount(path, Visibility.HIDDEN) for path in hidden),
    ]


def in_order(mounts: Iterable[Mount]) -> list[Mount]:
    """Existing paths only, each once, parents first; the last mount of a path counts."""
    by_path = {os.path.normpath(mount.path): mount.seen for mount in mounts if os.path.lexists(mount.path)}
    return [Mount(path, by_path[path]) for path in sorted(by_path, key=lambda path: (path.count("/"), path))]


def absolute(path: str, workspace: str, home: str) -> str:
    """Resolve a path from a stage: `~` is the agent's home, others are relative to the workspace."""
    if path == "~" or path.startswith("~/"):
        return os.path.normpath(os.path.join(home, path[2:]))
    return os.path.normpath(os.path.join(workspace, path))


def is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _pins(within: Confinement) -> list[str]:
    """The folders between a writable folder and a protected path inside it. A protected folder can't be
    moved, but its parent could be replaced, unless the parent is a mount too."""
    roots = {within.workspace, *within.writable}
    pins: list[str] = []
    for path in within.protected:
        between, around = [], os.path.dirname(path)
        while around not in roots and around not in within.protected and around != "/":
            between.append(around)
            around = os.path.dirname(around)
        pins += between if around in roots else ()
    return pins
