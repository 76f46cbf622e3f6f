"""Searches the workspace's text files for a pattern, with limits on files, matches and time."""

import re
import sys
from collections import deque
from collections.abc import Iterator
from fnmatch import fnmatch
from time import monotonic

import msgspec

from agentforge.tool_loop.workspace import ToolError, WorkspaceFolder

MAX_FILES = 20_000
MAX_MATCHES = 200
FILE_BYTES = 1024 * 1024
LINE_CHARACTERS = 300
SECONDS = 20.0
SKIPPED = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache", ".claude"}
)


def search(workspace: WorkspaceFolder, pattern: str, path: str = ".", files: str = "*") -> str:
    """The matching lines, as `path:line: text`. `files` is a shell pattern for file names."""
    try:
        matcher = re.compile(pattern)
    except re.error as error:
        raise ToolError(f"invalid regular expression: {error}") from error
    found, deadline = [], monotonic() + SECONDS
    for number, name in enumerate(_walk(workspace, path, files)):
        if number >= MAX_FILES or monotonic() > deadline:
            found.append("[search incomplete: use a narrower path]")
            break
        found.extend(_matches(workspace, name, matcher))
        if len(found) > MAX_MATCHES:
            del found[MAX_MATCHES:]
            found.append("[more matches: use a narrower pattern or path]")
            break
    return "\n".join(found) or "no match"


def _walk(workspace: WorkspaceFolder, path: str, files: str) -> Iterator[str]:
    """Links are not followed: targets inside the workspace are found at their own path."""
    if not workspace.is_folder(path):
        yield path
        return
    left = deque([path])
    while left:
        folder = left.popleft()
        try:
            entries = workspace.entries(folder)
        except ToolError:
            continue
        for entry in entries:
            place = entry.name if folder in (".", "") else f"{folder}/{entry.name}"
            if entry.kind == "folder" and entry.name not in SKIPPED:
                left.append(place)
            elif entry.kind == "file" and entry.size <= FILE_BYTES and fnmatch(entry.name, files):
                yield place


def _matches(workspace: WorkspaceFolder, path: str, matcher: re.Pattern[str]) -> list[str]:
    try:
        content, _ = workspace.read(path, FILE_BYTES)
    except ToolError:
        return []
    if b"\0" in content[:8192]:
        return []
    lines = enumerate(content.decode("utf-8", "replace").splitlines(), 1)
    return [f"{path}:{number}: {line[:LINE_CHARACTERS]}" for number, line in lines if matcher.search(line)]


def run_search(query: str) -> int:
    """The search as a program: prints the matches or the error to stdout."""
    root, pattern, path, files = msgspec.json.decode(query, type=tuple[str, str, str, str])
    workspace = WorkspaceFolder(root)
    try:
        text, status = search(workspace, pattern, path, files), 0
    except ToolError as error:
        text, status = str(error), 1
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
    return status
