"""The files of a model's workspace, and what its tools may do with them: links don't lead out of it, what
belongs to git or to the pipeline can't be written, and reading and searching have limits."""

import errno
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from time import monotonic

import msgspec

from agentforge.model.names import folded
from agentforge.system.confined import ConfinedFolder, FolderEntry
from agentforge.system.folders import NotRegular, OutsideRoot

# All paths come from a model. They are walked folder by folder (`ConfinedFolder`): if a resolved path were
# compared with the root before it is opened, a folder could be replaced by a link in between.
#
# Reading is limited, as what a tool returns fills the context of the model: what is cut off is said in the
# text, so that the model can ask for the rest.

READ_BYTES = 256 * 1024
EDIT_BYTES = 4 * 1024 * 1024
MAX_ENTRIES = 1000
MAX_FILES = 20_000
MAX_MATCHES = 200
FILE_BYTES = 1024 * 1024
LINE_CHARACTERS = 300
SEARCH_SECONDS = 20.0
SKIPPED = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache", ".claude"}
)


class ToolError(Exception):
    """An error of a tool; the message is shown to the model."""


class WorkspaceFolder:
    def __init__(self, root: str, protected: tuple[str, ...] = (), writable: tuple[str, ...] = ()) -> None:
        self._folder = ConfinedFolder(root)
        self.root = self._folder.root
        self._protected = tuple(folded(self._inside(path)) for path in protected)
        self._writable = tuple(folded(self._inside(path)) for path in writable)

    def close(self) -> None:
        self._folder.close()

    def read(self, path: str, limit: int) -> tuple[bytes, int]:
        """Up to `limit` bytes from the start of the file, and its size."""
        with tool_errors(path):
            return self._folder.read(path, limit)

    def write(self, path: str, content: bytes) -> str:
        """Write the file atomically, creating missing folders; returns the resolved path."""
        with tool_errors(path):
            return self._folder.write(path, content, lambda place: self._refuse_protected(place, path))

    def entries(self, path: str = ".") -> list[FolderEntry]:
        with tool_errors(path):
            return self._folder.entries(path)

    def is_folder(self, path: str) -> bool:
        with tool_errors(path):
            found = self._folder.stat(path)
        if found is None:
            raise ToolError(f"{path}: no such file or folder")
        return stat.S_ISDIR(found.st_mode)

    def _refuse_protected(self, resolved: str, path: str) -> None:
        # Folded, because `.GIT` is `.git` on file systems that ignore case.
        place = folded(resolved)
        if ".git" in place.split("/"):
            raise ToolError(f"{path}: tools can't write git's own files")
        if below(place, self._protected) > below(place, self._writable):
            raise ToolError(f"{path}: belongs to the pipeline; call `complete` to submit your result")

    def _inside(self, path: str) -> str:
        """A path relative to the root, as the walk would name it; outside the workspace it starts with
        `..`."""
        folder, name = os.path.split(os.path.abspath(path))
        return os.path.relpath(os.path.join(os.path.realpath(folder), name), self.root)


@contextmanager
def tool_errors(path: str) -> Iterator[None]:
    """Translate OSErrors to ToolErrors."""
    try:
        yield
    except (NotRegular, OutsideRoot) as error:
        raise ToolError(f"{path}: {error.strerror}") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ToolError(f"{path}: a part of the path is not a folder") from error
        raise ToolError(f"{path}: {(error.strerror or str(error)).lower()}") from error


def below(path: str, folders: tuple[str, ...]) -> int:
    """The length of the deepest of the folders that contains the path, or 0."""
    return max(
        (len(folder) for folder in folders if path == folder or path.startswith(f"{folder}/")), default=0
    )


class FileTools:
    def __init__(self, workspace: WorkspaceFolder) -> None:
        self._workspace = workspace
        self.touched: list[str] = []
        """Written files, in the order of their first write."""

    def read_file(self, path: str, first_line: int = 1, lines: int | None = None) -> str:
        content, size = self._workspace.read(path, EDIT_BYTES)
        rest = _text(path, content).splitlines(keepends=True)[max(first_line, 1) - 1 :]
        chosen = "".join(rest if lines is None else rest[: max(lines, 0)])
        encoded = chosen.encode()
        if len(encoded) <= READ_BYTES and size <= EDIT_BYTES:
            return chosen
        kept = encoded[:READ_BYTES].decode("utf-8", "ignore")
        return f"{kept}\n[truncated: the file has {size} bytes; continue with first_line and lines]"

    def write_file(self, path: str, content: str) -> str:
        data = content.encode("utf-8", "replace")
        self._note(self._workspace.write(path, data))
        return f"wrote {path} ({len(data)} bytes)"

    def edit_file(self, path: str, old: str, new: str) -> str:
        if not old:
            raise ToolError("`old` is empty; give the text to replace, or use write_file")
        content, size = self._workspace.read(path, EDIT_BYTES)
        if size > EDIT_BYTES:
            raise ToolError(f"{path}: too large to edit ({size} bytes)")
        text = _text(path, content)
        found = text.count(old)
        if found != 1:
            raise ToolError(
                f"{path}: `old` occurs {found} times and must occur exactly once; "
                + ("read the file and copy the text exactly" if not found else "add lines around it")
            )
        self._note(self._workspace.write(path, text.replace(old, new).encode("utf-8", "replace")))
        return f"edited {path}"

    def list_directory(self, path: str = ".") -> str:
        entries = self._workspace.entries(path)
        shown = [_line(entry) for entry in entries[:MAX_ENTRIES]]
        if len(entries) > MAX_ENTRIES:
            shown.append(f"[{len(entries) - MAX_ENTRIES} more]")
        return "\n".join(shown) or "(empty)"

    def _note(self, path: str) -> None:
        if path not in self.touched:
            self.touched.append(path)


def _text(path: str, content: bytes) -> str:
    if b"\0" in content[:8192]:
        raise ToolError(f"{path}: is a binary file")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.end >= len(content) - 1 and len(content) >= EDIT_BYTES:
            return content.decode("utf-8", "ignore")
        raise ToolError(f"{path}: is not UTF-8 text") from error


def _line(entry: FolderEntry) -> str:
    match entry.kind:
        case "folder":
            return f"{entry.name}/"
        case "file":
            return f"{entry.name} ({entry.size} bytes)"
        case kind:
            return f"{entry.name} ({kind})"


def search(workspace: WorkspaceFolder, pattern: str, path: str = ".", files: str = "*") -> str:
    """The matching lines, as `path:line: text`. `files` is a shell pattern for file names."""
    try:
        matcher = re.compile(pattern)
    except re.error as error:
        raise ToolError(f"invalid regular expression: {error}") from error
    found, deadline = [], monotonic() + SEARCH_SECONDS
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
