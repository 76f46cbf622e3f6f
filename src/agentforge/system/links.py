"""Where a path leads, and through which links."""

import os

from msgspec import Struct

MAX_LINKS = 40
"""As many as the system follows."""


class Way(Struct, frozen=True):
    end: str
    """Where the path leads, without links; empty: nowhere. It need not exist."""
    links: dict[str, str]
    """The links on the way that are below the folder, and what they say."""


def way(path: str, folder: str) -> Way:
    """Follow an absolute path as the system does. What is below the folder is named as below it."""
    real = os.path.realpath(folder)
    todo, at, followed = path.split("/")[::-1], "/", 0
    links: dict[str, str] = {}
    while todo:
        name = todo.pop()
        if name in ("", ".", ".."):
            at = os.path.dirname(at) if name == ".." else at
            continue
        step = os.path.join(at, name)
        try:
            target = os.readlink(step)
        except OSError:
            at = step
            continue
        followed += 1
        if followed > MAX_LINKS:
            return Way("", links)
        if step.startswith(f"{real}/"):
            links[f"{folder}{step[len(real) :]}"] = target
        at = "/" if target.startswith("/") else at
        todo += target.split("/")[::-1]
    is_below = at == real or at.startswith(f"{real}/")
    return Way(f"{folder}{at[len(real) :]}" if is_below else at, links)


def first_link(path: str, folder: str) -> str:
    """The first link on the way from the folder to the path, or ""."""
    if not path.startswith(f"{folder}/"):
        return ""
    step = folder
    for name in path.removeprefix(f"{folder}/").split("/"):
        step = f"{step}/{name}"
        if os.path.islink(step):
            return step
    return ""


def leads_elsewhere(link: str, target: str, folder: str) -> bool:
    """Whether something else is now in the place of a link, or of a folder that it was in."""
    if not os.path.lexists(link):
        return False
    return first_link(link, folder) != link or os.readlink(link) != target
