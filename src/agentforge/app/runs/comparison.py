"""Compares two trees of a run, with git, from the objects in the folder of the run alone."""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from agentforge.adapters.host.git_objects import foreign_entry, oversized_object
from agentforge.adapters.host.git_trees import GitTrees
from agentforge.app.redaction import environment_redactor
from agentforge.model.changes import ChangeKind, Changes, FileChange
from agentforge.model.errors import InvalidRequest
from agentforge.ports.host import NoTree
from agentforge.system.git import MAX_MEMORY, git_program, object_program
from agentforge.system.programs import NoExit, ProgramResult, run

SECONDS = 60.0
MAX_LISTING = 16 * 1024 * 1024
MAX_PATCH = 16 * 1024 * 1024
_EXACT = ("--full-index", "--binary", "--ignore-submodules=all")
"""The entry of a submodule in a tree is not a commit that can be applied."""
_HEADER = re.compile(rb"[0-9a-f]{40,64} [0-9a-f]{40,64}\n")
_KINDS: dict[str, ChangeKind] = {"A": "added", "D": "deleted", "R": "renamed", "T": "retyped"}

TreePair = tuple[str, str]


# The folder of a run may come from elsewhere, and agents can write to it. git would obey settings and follow
# alternates that it finds beside the objects. So it runs in an empty repository of ours, which is told where
# the objects are, with limits of time, memory and output.
class TreeComparison:
    def __init__(self, project: str, objects: Sequence[str], environ: Mapping[str, str]) -> None:
        """`objects`: the folders of the trees and their files, that of the run last."""
        self._project = project
        self._objects = objects
        self._environ = environ

    def changes(self, pairs: Sequence[TreePair]) -> list[Changes | None]:
        """What changed from the first to the second tree of each pair; None if it can't be read any more."""
        if not pairs:
            return []
        request = "".join(f"{before} {after}\n" for before, after in pairs).encode()
        command = ("diff-tree", "--stdin", "-r", "-M", "-z", "--raw", "--numstat")
        ended = self._git(len(pairs[0][0]), *command, stdin=request, max_output=MAX_LISTING)
        found = list(_parsed(ended.stdout))
        if ended.code != 0 or ended.truncated:
            found = found[:-1]  # Incomplete.
        return [*found[: len(pairs)], *[None] * (len(pairs) - len(found))]

    def patch(self, before: str, after: str, *, binary: bool) -> bytes:
        """The change, with `binary` as `git apply` takes it; otherwise as people read it."""
        plain = ("--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")
        command = ("diff-tree", "-r", "-M", "-p", *(_EXACT if binary else ()), *plain, before, after)
        ended = self._git(len(before), *command, max_output=2 * MAX_PATCH)
        if ended.truncated:
            raise InvalidRequest(
                f"the change is larger than {MAX_PATCH // (1024 * 1024)} MB",
                hint="use --stat, or `git diff-tree` with the trees that --json names",
            )
        if ended.code != 0:
            raise InvalidRequest(
                f"the change can't be read: {ended.last_error or ended.problem}",
                hint=f"the content was stored in {self._objects[0]} and may have been deleted",
            )
        return ended.stdout

    def _git(self, width: int, *arguments: str, max_output: int, stdin: bytes = b"") -> ProgramResult:
        if foreign := foreign_entry(self._objects[-1]):
            raise InvalidRequest(
                f"{foreign} was not written by an engine: git could read other repositories through it",
                hint="remove it if you don't know what it is for",
            )
        # Without a patch, such files are only listed: git takes them for binary ones.
        if "-p" in arguments and (large := oversized_object(self._objects[-1])):
            raise InvalidRequest(
                f"{large} is larger than any file that an engine stores", hint="don't trust this run"
            )
        with _bare_repository("sha256" if width == 64 else "sha1") as folder:
            ended = run(
                object_program(
                    self._project,
                    folder,
                    self._objects,
                    self._environ,
                    *arguments,
                    timeout=SECONDS,
                    max_output=max_output,
                    stdin=stdin,
                )
            )
        if ended.code and "out of memory" in ended.errors.lower():
            megabytes = MAX_MEMORY // (1024 * 1024)
            raise InvalidRequest(
                f"git needs more than {megabytes} MB of memory for what the run's folder contains",
                hint="no engine stores such large files: don't trust this run",
            )
        if ended.reason is NoExit.MISSING:
            raise InvalidRequest("changes are shown with git, which is not installed", hint="install git")
        return ended


@contextmanager
def current_tree(
    project: str, environ: Mapping[str, str], without: frozenset[str]
) -> Iterator[tuple[str, list[str]]]:
    """The tree of the project's files as they are now, and the folders of its objects, the first of which is
    removed afterwards. `without`: paths of files that are not in it."""
    with tempfile.TemporaryDirectory(prefix="agentforge-") as name:
        folder = os.path.join(os.path.realpath(name), "objects")
        redactor = environment_redactor(environ)
        tree = GitTrees(project, folder, environ, redactor, without=without).take()
        if isinstance(tree, NoTree):
            raise InvalidRequest(
                f"the files as they are now can't be compared: {tree.reason}",
                hint="wait until the iteration ends; then `agentforge show` lists its changes",
            )
        asked = ("rev-parse", "--git-path", "objects")
        ended = run(git_program(project, environ, *asked, timeout=SECONDS, max_output=MAX_LISTING))
        yield tree.id, [folder, os.path.join(project, ended.output.removesuffix("\n"))]


@contextmanager
def _bare_repository(hash_name: str) -> Iterator[str]:
    """A repository without content: nothing that a run's folder contains is taken for git's settings."""
    with tempfile.TemporaryDirectory(prefix="agentforge-") as name:
        folder = Path(name)
        (folder / "objects").mkdir()
        (folder / "refs").mkdir()
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        version = "repositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = "
        (folder / "config").write_text(f"[core]\n\t{version}{hash_name}\n")
        yield name


def _parsed(output: bytes) -> Iterator[Changes]:
    """The changes of each pair, from `diff-tree --stdin -z --raw --numstat`."""
    tokens = iter(output.split(b"\0"))
    kinds: dict[str, tuple[ChangeKind, str | None]] = {}
    found: list[FileChange] | None = None
    for given in tokens:
        token = given
        while header := _HEADER.match(token):
            if found is not None:
                yield Changes(tuple(found))
            kinds, found, token = {}, [], token[header.end() :]
        if found is None or not token:
            continue
        if token.startswith(b":"):
            letter = token.rpartition(b" ")[2][:1].decode()
            old = os.fsdecode(next(tokens, b""))
            path = os.fsdecode(next(tokens, b"")) if letter in "RC" else old
            kinds[path] = (_KINDS.get(letter, "modified"), old if path != old else None)
            continue
        added, removed, name = (*token.split(b"\t", 2), b"", b"")[:3]
        path = os.fsdecode(name)
        if not path:
            next(tokens, b"")
            path = os.fsdecode(next(tokens, b""))
        kind, old_path = kinds.get(path, ("modified", None))
        found.append(FileChange(path, kind, _lines(added), _lines(removed), old_path))
    if found is not None:
        yield Changes(tuple(found))


def _lines(number: bytes) -> int | None:
    return int(number) if number.isdigit() else None
