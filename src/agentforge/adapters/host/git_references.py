"""References to trees in the user's repository, `refs/agentforge/RUN/…`: git's own commands show a kept tree,
and `git gc` removes nothing of it.

A reference can only name objects that the repository has. An entry in its `info/alternates` would make it
depend on the folder of a run, and damage it when the run is deleted. So the missing objects are copied first,
durably, and the reference is written last: a crash in between leaves objects, and a draft of one, that
`git gc` removes.

The engine writes the files itself: git would follow links below `.git` and run the hook
`reference-transaction`. Index, HEAD, stash and the user's references stay as they are.
"""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256

from agentforge.adapters.host.git_commands import GitCommands
from agentforge.adapters.host.git_objects import GitObjects
from agentforge.adapters.host.tree_scan import TooMuch, TreeFailed
from agentforge.model.errors import StorageFailed
from agentforge.ports.host import KeptTree
from agentforge.system import files

SPACE = "refs/agentforge"
_DRAFT = "tmp_obj_"
"""How git names the drafts of objects."""
MAX_PACKED_BYTES = 64 * 1024 * 1024
_SHARED = 0o777
"""The mode of git's folders, less the umask."""
_PLAIN = re.compile(r"[\w-]+(?:\.[\w-]+)*")
_UNUSABLE = re.compile(r"[^\w-]+")


class GitReferences:
    def __init__(self, git: GitCommands) -> None:
        self._git = git
        self._latest = ("", "")
        """The reference that was written last, and its tree."""

    def keep(self, objects: GitObjects, tree: str, name: str) -> KeptTree:
        """`objects`: where the tree is stored. May raise TreeFailed, TooMuch, StorageFailed and
        ValueError."""
        place = self._repository()
        latest, known = self._latest
        is_kept = latest and files.read_bytes(latest) == f"{known}\n".encode()
        # The repository has all of a tree to which there is a reference: only what differs is looked up.
        self._bring(place, objects, objects.ids(tree, known if is_kept else ""))
        reference = f"{SPACE}/{reference_name(name)}"
        path, line = f"{place}/{reference}", f"{tree}\n".encode()
        files.make_dir(os.path.dirname(path), _SHARED)
        files.remove_drafts(os.path.dirname(path), of=os.path.basename(path))
        if not files.place(path, line) and files.read_bytes(path, 2 * len(line)) != line:
            files.replace(path, line)
        self._latest = path, tree
        return KeptTree(reference)

    def bring(self, objects: GitObjects, ids: Sequence[str]) -> None:
        """Copy objects to the repository that it lacks, durably. May raise as `keep` does."""
        self._bring(self._repository(), objects, ids)

    def _bring(self, place: str, objects: GitObjects, ids: Sequence[str]) -> None:
        request = "".join(f"{id}\n" for id in ids).encode()
        asked = self._git.call("cat-file", "--batch-check", "--buffer", stdin=request)
        missing = (line for line in asked.output.splitlines() if line.endswith(" missing"))
        for id in (line.removesuffix(" missing") for line in missing):
            content = objects.stored(id)
            if content is None:
                raise TreeFailed(f"the content {id[:12]} is missing in the repository")
            path = f"{place}/objects/{id[:2]}/{id[2:]}"
            files.make_dir(os.path.dirname(path), _SHARED)
            files.place(path, content, prefix=_DRAFT)

    def drop(self, run: str) -> None:
        """Remove all references of a run, if there are any. May raise TooMuch and StorageFailed."""
        try:
            place = self._repository()
        except TreeFailed:
            return  # Without git or a repository there are none.
        folder = f"{SPACE}/{reference_name(run)}"
        packed = files.read_bytes(f"{place}/packed-refs", MAX_PACKED_BYTES) or b""
        names = (line.partition(b" ")[2] for line in packed.split(b"\n"))
        if found := [name for name in names if name.startswith(f"{folder}/".encode())]:
            request = b"".join(b"delete " + reference + b"\n" for reference in found)
            with suppress(TreeFailed):
                self._git.call("update-ref", "--stdin", stdin=request)
        files.remove_tree(f"{place}/{folder}")

    def _repository(self) -> str:
        """The folder of the repository, which all its worktrees share, without links."""
        asked = self._git.call("rev-parse", "--path-format=absolute", "--git-common-dir")
        place = os.path.realpath(os.fsdecode(asked.stdout.removesuffix(b"\n")))
        if files.is_dir(f"{place}/reftable"):
            raise TreeFailed("the repository stores its references as reftable, which is not supported")
        return place


def drop_references(project: str, run: str, environ: Mapping[str, str], seconds: float = 30.0) -> str:
    """Remove the references to the trees of a run; returns why that failed, or ""."""
    try:
        GitReferences(GitCommands(project, environ, seconds)).drop(run)
    except (TooMuch, StorageFailed) as error:
        return str(error)
    return ""


def reference_name(name: str) -> str:
    """The name as a part of a reference: what git doesn't accept is replaced, and no two names collide."""
    steps = name.split("/")
    for at, step in enumerate(steps):
        if not _PLAIN.fullmatch(step) or step.endswith(".lock") or len(os.fsencode(step)) > 200:
            digest = sha256(step.encode("utf-8", "surrogatepass")).hexdigest()[:12]
            steps[at] = f"{_UNUSABLE.sub('-', step)[:40]}-{digest}"
    return "/".join(steps)
