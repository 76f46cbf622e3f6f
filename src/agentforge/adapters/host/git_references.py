"""References to trees in the user's repository, `refs/agentforge/RUN/…`: git's own commands show a kept tree,
and `git gc` removes nothing of it.

A reference can only name objects that the repository has. An entry in its `info/alternates` would make it
depend on the folder of a run, and damage it when the run is deleted. So the missing objects are copied first,
durably, and the reference is written last: a crash in between leaves objects that `git gc` removes.

The engine writes the files itself: git would follow links below `.git` and run the hook
`reference-transaction`. Index, HEAD, stash and the user's references stay as they are.
"""

import os
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256

from agentforge.adapters.host.git_call import call_git
from agentforge.adapters.host.git_objects import GitObjects
from agentforge.adapters.host.tree_scan import TooMuch
from agentforge.model.errors import StorageFailed
from agentforge.ports.host import KeptTree, NoTree
from agentforge.system import files
from agentforge.system.programs import ProgramResult

SPACE = "refs/agentforge"
MAX_PACKED_BYTES = 64 * 1024 * 1024
_SHARED = 0o777
"""The mode of git's folders, less the umask."""
_PLAIN = re.compile(r"[\w-]+(?:\.[\w-]+)*")
_UNUSABLE = re.compile(r"[^\w-]+")


class GitReferences:
    def __init__(self, project: str, environ: Mapping[str, str], seconds: float) -> None:
        self._project = project
        self._environ = environ
        self._seconds = seconds
        self._latest = ("", "")
        """The reference that was written last, and its tree."""

    def keep(self, objects: GitObjects, tree: str, name: str) -> KeptTree | NoTree:
        """`objects`: where the tree is stored. May raise TooMuch, StorageFailed and ValueError."""
        place = self._repository()
        if isinstance(place, NoTree):
            return place
        latest, known = self._latest
        is_kept = latest and files.read_bytes(latest) == f"{known}\n".encode()
        # The repository has all of a tree to which there is a reference: only what differs is looked up.
        missing = self._missing(objects.ids(tree, known if is_kept else ""))
        if isinstance(missing, NoTree):
            return missing
        for id in missing:
            content = objects.stored(id)
            if content is None:
                return NoTree(f"the content {id[:12]} is missing in the repository")
            path = f"{place}/objects/{id[:2]}/{id[2:]}"
            files.make_dir(os.path.dirname(path), _SHARED)
            files.place(path, content)
        reference = f"{SPACE}/{reference_name(name)}"
        _write(f"{place}/{reference}", f"{tree}\n".encode())
        self._latest = f"{place}/{reference}", tree
        return KeptTree(reference)

    def drop(self, run: str) -> None:
        """Remove all references of a run, if there are any. May raise TooMuch and StorageFailed."""
        place = self._repository()
        if isinstance(place, NoTree):
            return
        folder = f"{SPACE}/{reference_name(run)}"
        packed = files.read_bytes(f"{place}/packed-refs", MAX_PACKED_BYTES) or b""
        if found := list(_packed(packed, f"{folder}/".encode())):
            request = b"".join(b"delete " + reference + b"\n" for reference in found)
            self._git("update-ref", "--stdin", stdin=request)
        files.remove_tree(f"{place}/{folder}")

    def _repository(self) -> str | NoTree:
        """The folder of the repository, which all its worktrees share, without links."""
        asked = self._git("rev-parse", "--path-format=absolute", "--git-common-dir")
        if isinstance(asked, NoTree):
            return asked
        place = os.path.realpath(os.fsdecode(asked.stdout.removesuffix(b"\n")))
        if files.is_dir(f"{place}/reftable"):
            return NoTree("the repository stores its references as reftable, which is not supported")
        return place

    def _missing(self, ids: list[str]) -> list[str] | NoTree:
        """Those that the repository doesn't have."""
        asked = self._git(
            "cat-file", "--batch-check", "--buffer", stdin="".join(f"{id}\n" for id in ids).encode()
        )
        if isinstance(asked, NoTree):
            return asked
        return [
            line.removesuffix(" missing") for line in asked.output.splitlines() if line.endswith(" missing")
        ]

    def _git(self, *arguments: str, stdin: bytes = b"") -> ProgramResult | NoTree:
        return call_git(self._project, self._environ, *arguments, seconds=self._seconds, stdin=stdin)


def drop_references(project: str, run: str, environ: Mapping[str, str], seconds: float = 30.0) -> str:
    """Remove the references to the trees of a run; returns why that failed, or ""."""
    try:
        GitReferences(project, environ, seconds).drop(run)
    except (TooMuch, StorageFailed) as error:
        return str(error)
    return ""


def reference_name(name: str) -> str:
    """The name as a part of a reference: what git doesn't accept is replaced, and no two names collide."""
    return "/".join(map(_step, name.split("/")))


def _step(name: str) -> str:
    if _PLAIN.fullmatch(name) and not name.endswith(".lock") and len(os.fsencode(name)) <= 200:
        return name
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{_UNUSABLE.sub('-', name)[:40]}-{digest}"


def _write(path: str, content: bytes) -> None:
    files.make_dir(os.path.dirname(path), _SHARED)
    if not files.place(path, content) and files.read_bytes(path, 2 * len(content)) != content:
        files.replace(path, content)


def _packed(content: bytes, prefix: bytes) -> Iterator[bytes]:
    for line in content.split(b"\n"):
        name = line.partition(b" ")[2]
        if name.startswith(prefix):
            yield name
