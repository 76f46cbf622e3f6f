"""The project's folder: the sources port, and the workspace, listed by git in a repository and by walking the
folder otherwise."""

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from agentforge.adapters.host.machine import SystemClock
from agentforge.model.errors import StorageFailed
from agentforge.ports.host import Clock, Stamp
from agentforge.ports.sources import MAX_INPUTS, MAX_SOURCE_BYTES, SchemaProblem
from agentforge.system import files
from agentforge.system.confined import ConfinedFolder
from agentforge.system.file_search import MAX_ENTRIES, FileSearch, TooManyEntries
from agentforge.system.git import git_program
from agentforge.system.named_files import expand, is_folder, names_in, read_project_file
from agentforge.system.programs import run
from agentforge.system.schemas import InvalidSchema, JsonSchema

_BUILTIN = Path(__file__).resolve().parents[2] / "builtin"
_INPUT_SUFFIXES = (".md", ".yaml", ".json", ".txt")
MAX_FILES = 100_000
GIT_TIMEOUT = 60.0
MAX_LISTING = 64 * 1024 * 1024
# A definition that exists but can't be read: closed, a link that leads out, a pipe or a device.
_REPORTED = frozenset({errno.EACCES, errno.EPERM, errno.EXDEV, errno.ENXIO})
OURS = (".git", ".agentforge", ".claude/pipeline-runs", ".claude/locks", ".claude/loop-completions.json")
"""Paths of git and of the engine, excluded even if git lists them."""


class FileSources:
    """Files are read on demand; `environment` is given by the caller."""

    def __init__(
        self,
        project: str | Path,
        environment: Mapping[str, str],
        *,
        builtin: str | Path = _BUILTIN,
        clock: Clock | None = None,
    ) -> None:
        self.project = os.path.realpath(project)
        self.environment = environment
        self.builtin = str(Path(builtin).absolute())
        self._clock = clock or SystemClock()

    def read(self, path: str) -> str | None:
        """Line endings are preserved, and bytes that aren't UTF-8 become surrogates."""
        try:
            content = read_project_file(self.project, path, MAX_SOURCE_BYTES + 1, cut=True)
        except StorageFailed as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _REPORTED:
                raise
            return None  # A folder, a link loop, an invalid name.
        except ValueError:
            return None
        return None if content is None else content.decode("utf-8", "surrogateescape")

    def is_dir(self, path: str) -> bool:
        return is_folder(self.project, path)

    def listing(self, path: str) -> Sequence[str]:
        try:
            return names_in(self.project, path)
        except TooManyEntries as error:
            raise StorageFailed(
                f"{path} has more than {MAX_ENTRIES} entries", hint="move it away, or use another project"
            ) from error

    def expand(self, pattern: str) -> Sequence[str] | None:
        try:
            found = expand(self.project, pattern, _INPUT_SUFFIXES)
        except TooManyEntries:
            return None
        return found if len(found) <= MAX_INPUTS else None

    def resolve(self, path: str) -> str | None:
        try:
            return os.path.realpath(path, strict=True)
        except (OSError, ValueError):
            return None

    def schema_problem(self, schema: Any) -> SchemaProblem | None:
        try:
            JsonSchema(schema)
        except InvalidSchema as error:
            return SchemaProblem(error.message, error.path)
        return None

    def now(self) -> datetime:
        return self._clock.now()


def committed_files(root: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The id of each file's content in the latest commit, by path relative to `root`; empty without one."""
    command = ("ls-tree", "-r", "-z", "HEAD")
    ended = run(git_program(root, environ, *command, timeout=GIT_TIMEOUT, max_output=MAX_LISTING))
    if ended.code != 0 or ended.truncated:
        return {}
    entries = (entry.partition(b"\t") for entry in ended.stdout.split(b"\0") if entry)
    return {os.fsdecode(name): about.split()[2].decode() for about, _, name in entries}


class WorkspaceFiles:
    def __init__(self, root: str, environ: Mapping[str, str], max_files: int = MAX_FILES) -> None:
        self._root = root
        self._environ = environ
        self._max_files = max_files

    def stamps(self) -> dict[str, Stamp] | None:
        found: dict[str, Stamp] = {}
        try:
            # Git's list is preferred, as it leaves out what is ignored: builds would exceed the limit.
            listed = self._listed_by_git()
            for path in self._walked() if listed is None else listed:
                if (stamp := self.stamp(path)) is not None and not _is_ours(path):
                    found[path] = stamp
                    if len(found) > self._max_files:
                        return None
        except TooManyEntries:
            return None
        return found

    def stamp(self, path: str) -> Stamp | None:
        try:
            seen = os.lstat(os.path.join(self._root, path))
        except OSError:
            return None
        if not stat.S_ISREG(seen.st_mode):
            return None
        executable = bool(seen.st_mode & 0o100)
        return Stamp(seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino, executable)

    def read(self, path: str, max_bytes: int) -> bytes | None:
        try:
            return files.read_bytes(os.path.join(self._root, path), max_bytes)
        except StorageFailed:
            return None

    def _listed_by_git(self) -> list[str] | None:
        """Tracked files and new ones that aren't ignored, or None outside a repository."""
        command = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
        git = git_program(self._root, self._environ, *command, timeout=GIT_TIMEOUT, max_output=MAX_LISTING)
        ended = run(git)
        if ended.code != 0 or ended.truncated:
            return None
        return [os.fsdecode(name) for name in ended.stdout.split(b"\0") if name]

    def _walked(self) -> Iterator[str]:
        with ConfinedFolder(self._root) as folder:
            search = FileSearch(folder, 2 * self._max_files)
            yield from search.below(links="skipped", skip=_is_ours)


def _is_ours(path: str) -> bool:
    return any(path == own or path.startswith(f"{own}/") for own in OURS)
