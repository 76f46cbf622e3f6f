"""Paths as plain strings; nothing here looks at the disk."""

from posixpath import isabs, join, normpath


def absolute(root: str, path: str) -> str:
    return normpath(path if isabs(path) else join(root, path))


def relative(root: str, path: str) -> str:
    """Relative to the root where the path lies inside it, else absolute; plans and messages name files so."""
    root, path = normpath(root), normpath(path)
    return path.removeprefix(root.rstrip("/") + "/")
