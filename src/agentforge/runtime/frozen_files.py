"""Freezes files of the project, and puts those back that were changed, deleted or shadowed.

A frozen file is known by the hash of its content. A test of pytest is run as the settings and the conftest.py
around it say, so these are frozen with it; one that did not exist may not appear.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from os.path import isabs, relpath
from posixpath import normpath
from typing import Any

from msgspec import Struct

from agentforge.engine.pytest_settings import digest_of_settings, guards_of, is_in_part, with_settings
from agentforge.model.errors import UnusableFile
from agentforge.model.frozen import MAX_FROZEN, FrozenFile, FrozenFiles, named
from agentforge.model.result import JSONObject
from agentforge.ports.host import NoTree, TakenTree, TreeFile, Trees
from agentforge.runtime.working_files import FileNow, WorkingFiles

OTHERS = {"120000": "a link", "160000": "in a repository of its own"}


class Deviation(Struct, frozen=True):
    """A path that isn't as it must be."""

    path: str
    file: FrozenFile | None = None
    """None: nothing may be there."""
    tree: str = ""
    """It has the content."""


def paths_in(artifact: JSONObject, fields: Iterable[str], project: str) -> Iterator[str]:
    """The paths that the fields of an artifact name: a text, or a list of texts. Raises UnusableFile."""
    for field in fields:
        value: Any = artifact.get(field)
        for path in value if isinstance(value, list) else [value] if value else []:
            if not isinstance(path, str) or not path.strip() or "\0" in path:
                raise UnusableFile(f"field {field!r} of the artifact has something else than paths of files")
            inside = normpath(relpath(path, project) if isabs(path) else path)
            if inside in (".", "..") or inside.startswith("../"):
                raise UnusableFile(f"can't freeze {path!r}: it is outside of the project")
            yield inside


class FrozenSet:
    """The frozen files of a run."""

    def __init__(self, sets: Iterable[FrozenFiles]) -> None:
        self._files: dict[str, Deviation] = {}
        for kept in sets:
            self._files.update({file.path: Deviation(file.path, file, kept.tree) for file in kept.files})
        known = self._files.values()
        guarded = [one.path for one in known if one.file and one.file.settings is None]
        # The guards of a guard are no others than its own.
        self._absent = [path for path in guards_of(guarded) if path not in self._files]

    def deviations(self, workspace: WorkingFiles) -> list[Deviation]:
        wrong = [one for one in self._files.values() if one.file and _differs(workspace, one.file)]
        for path in self._absent:
            now = workspace.look(path)
            is_new = now.is_there if now.content is None else digest_of_settings(path, now.content) != ""
            if is_new:
                wrong.append(Deviation(path))
        return wrong


def _differs(workspace: WorkingFiles, file: FrozenFile) -> bool:
    now = workspace.look(file.path)
    if now.content is None:
        return True
    if file.settings is not None:
        return digest_of_settings(file.path, now.content) != file.settings
    return sha256(now.content).hexdigest() != file.sha256 or now.executable != (file.mode == "100755")


def freeze(paths: Iterable[str], taken: TakenTree, trees: Trees, workspace: WorkingFiles) -> list[FrozenFile]:
    """The files that are named, with those that decide how pytest runs them. Raises UnusableFile."""
    wanted = list(dict.fromkeys(paths))
    if len(wanted) > MAX_FROZEN:
        raise UnusableFile(f"can't freeze {len(wanted):,} files; the maximum is {MAX_FROZEN:,}")
    known = trees.files(taken.id, (*wanted, *guards_of(wanted)))
    if isinstance(known, NoTree):
        raise UnusableFile(f"can't freeze files: {known.reason}")
    for path in wanted:
        if problem := _problem(path, known.get(path), taken, workspace.look(path)):
            raise UnusableFile(f"can't freeze {path!r}: {problem}")
    guards = (path for path in guards_of(wanted) if path not in wanted and path in known)
    inexact = tuple(path for path in (*wanted, *guards) if path in taken.inexact)
    if inexact:
        raise UnusableFile(f"can't freeze {named(inexact)}: too large, or with a secret in it")
    return [_frozen(path, file, trees) for path, file in known.items() if file.mode not in OTHERS]


def _problem(path: str, file: TreeFile | None, taken: TakenTree, now: FileNow) -> str:
    if file is not None:
        return f"it is {OTHERS[file.mode]}" if file.mode in OTHERS else ""
    if path in taken.inexact:
        return ""
    if now.content is not None:
        return "git ignores it"
    return "it is not a regular file, or a link leads to it" if now.is_there else "there is no such file"


def _frozen(path: str, file: TreeFile, trees: Trees) -> FrozenFile:
    content = trees.hold(path, file)
    if isinstance(content, NoTree):
        raise UnusableFile(f"can't freeze {path!r}: {content.reason}")
    settings = digest_of_settings(path, content) if is_in_part(path) else None
    return FrozenFile(path, sha256(content).hexdigest(), file.mode, settings)


def put_back(wrong: Iterable[Deviation], trees: Trees, workspace: WorkingFiles) -> None:
    """Raises UnusableFile and StorageFailed."""
    # Files before what must not exist: their folders may be links until then.
    for one in sorted(wrong, key=lambda one: one.file is None):
        if one.file is None:
            workspace.remove(one.path)
            continue
        content, now = content_in(one.tree, one.path, trees), workspace.look(one.path)
        if one.file.settings is not None and now.content is not None:
            content = with_settings(now.content, content)
        workspace.put(one.path, content, one.file.mode)


def content_in(tree: str, path: str, trees: Trees) -> bytes:
    """What a tree has at a path. Raises UnusableFile."""
    known = trees.files(tree, (path,))
    file = known.get(path) if isinstance(known, dict) else None
    content = trees.content(file) if file else NoTree(known.reason if isinstance(known, NoTree) else "")
    if isinstance(content, NoTree):
        why = content.reason or f"the tree {tree[:12]} doesn't have it"
        raise UnusableFile(f"can't restore {path!r}: {why}")
    return content
