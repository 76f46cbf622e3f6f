"""Selects the files to upload, and writes downloaded files to permitted paths only."""

import base64
import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from typing import Any

RESULTS = ".remote-sandbox"
"""The folder in the sandbox for the iteration's files, which may be anywhere on this machine."""
DOWNLOADED = ("result.json", "status.json", "artifact.json")
UPLOADED = ("prompt.md", "context.json", "input.json", "briefing.md")
# Git's files, dependencies, secrets and the engine's records.
EXCLUDED = (
    *(".git", "node_modules", ".venv", "__pycache__", ".env", RESULTS),
    *(".claude/locks", "events.jsonl", "payloads", "control", "answers", "attempt-*"),
)
# Changes to these paths could run code on this machine.
PROTECTED = (".git", ".claude/pipeline-runs", ".claude/locks", ".agentforge")

File = dict[str, Any]


class PathMap:
    """Translates local paths to paths in the sandbox."""

    def __init__(self, workdir: str, results: str, root: str) -> None:
        # The longer one first: the iteration's folder is often inside the workspace.
        pairs = [(results, f"{root}/{RESULTS}"), (workdir, root)]
        self._pairs = sorted(pairs, key=lambda pair: -len(pair[0]))

    def translate(self, text: str) -> str:
        for local, remote in self._pairs:
            text = text.replace(local, remote)
        return text


def collect(workdir: str, results: str, excluded: Iterable[str], paths: PathMap) -> Iterator[File]:
    patterns = (*EXCLUDED, *excluded)
    for folder, folders, names in os.walk(workdir):
        inside = os.path.relpath(folder, workdir)
        folders[:] = [name for name in sorted(folders) if not _is_excluded(inside, name, patterns)]
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path) and not _is_excluded(inside, name, patterns):
                with open(path, "rb") as file:
                    yield _file(os.path.normpath(os.path.join(inside, name)), file.read(), path)
    for name in UPLOADED:
        path = os.path.join(results, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as text:
                yield _file(f"{RESULTS}/{name}", paths.translate(text.read()).encode(), path)


def download(workdir: str, results: str, files: Iterable[File], deleted: Iterable[str]) -> list[str]:
    """Apply the changes, and return the refused paths."""
    refused = []
    for file in files:
        target = _target(workdir, results, file["path"])
        if target is None:
            refused.append(file["path"])
        else:
            _write(target, base64.b64decode(file["data"]), int(file["mode"]))
    for path in deleted:
        target = _target(workdir, results, path)
        if target is None:
            refused.append(path)
        elif os.path.lexists(target):
            os.unlink(target)
    return refused


def _is_excluded(inside: str, name: str, patterns: Iterable[str]) -> bool:
    path = os.path.normpath(os.path.join(inside, name))
    return any(fnmatch(name, pattern) or fnmatch(path, pattern) for pattern in patterns)


def _file(path: str, data: bytes, source: str) -> File:
    mode = os.stat(source).st_mode & 0o777
    return {"path": path, "mode": mode, "data": base64.b64encode(data).decode()}


def _target(workdir: str, results: str, path: str) -> str | None:
    """The local path of a file in the sandbox, or None if it is outside the workspace or protected."""
    clean = os.path.normpath(path)
    if os.path.isabs(clean) or clean.split("/")[0] == "..":
        return None
    if clean.split("/")[0] == RESULTS:
        name = clean.partition("/")[2]
        return os.path.join(results, name) if name in DOWNLOADED else None
    if any(clean == place or clean.startswith(f"{place}/") for place in PROTECTED):
        return None
    target = os.path.join(workdir, clean)
    # A link in the workspace may point anywhere.
    home, parent = os.path.realpath(workdir), os.path.realpath(os.path.dirname(target))
    return target if parent == home or parent.startswith(f"{home}/") else None


def _write(target: str, data: bytes, mode: int) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    temporary = f"{target}.remote-sandbox"
    with open(temporary, "wb") as file:
        file.write(data)
    os.chmod(temporary, mode & 0o777)
    os.replace(temporary, target)
