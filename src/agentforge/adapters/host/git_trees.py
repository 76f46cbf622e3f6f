"""Trees of a project in a git repository.

Git only lists the files. `git add` would run the filters that a repository configures, and `git status` in
its submodules; `git hash-object` follows links. So the engine hashes the files itself, opened without
following links, and writes git's objects to the folder of the run: the user's index, references and object
store stay as they are, and `git gc` removes nothing of a run.

The files named `.gitignore` and the user's own `core.excludesFile` say what is ignored. What the repository
configures and its `info/exclude` don't count: they are in no tree, and could hide new files without a trace.

Content that git has already is not copied until it changes. A submodule is one entry, whose id changes with
the files that are checked out there; they are hashed and not kept. So is any other repository inside the
project. A `.gitignore` may ignore itself and the files beside it: such files are not seen.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from agentforge.adapters.host.git_commands import GitCommands
from agentforge.adapters.host.git_objects import SUBMODULE, UNREADABLE, GitObjects, TreeEntry
from agentforge.adapters.host.git_references import GitReferences
from agentforge.adapters.host.known_files import (
    MIN_SHARE,
    KnownFiles,
    known_files,
    listing_digest,
    load_known,
    save_known,
)
from agentforge.adapters.host.tree_scan import (
    DEFAULT_LIMITS,
    ScannedTrees,
    TooMuch,
    TreeFailed,
    TreeLimits,
    TreeScan,
    can_be_in_tree,
    is_cache,
    listed_files,
    too_many_files,
)
from agentforge.model.errors import StorageFailed
from agentforge.model.secrets import Redactor
from agentforge.ports.host import KeptTree, NoTree, TakenTree, is_tree_id
from agentforge.system import files

# Invariant: two trees that the log names can be compared from `trees/` alone, whatever happens to the
# repository. So the previous content of a file is copied from git at the moment when the file changes, not
# when a person asks: `git gc` may have removed it by then. Unchanged content is never copied, which keeps the
# cost near that of `git status`. A tree is evidence for a check, so nothing that an agent controls may hide a
# file from it: neither the repository's configuration nor its attributes nor `info/exclude` are read.

MAX_COPIED = 64 * 1024 * 1024
MAX_SUBMODULES = 200
"""Further ones are taken as they are in the index."""
_LIST = ("-z", "-t", "-s", "-c", "-o", "--exclude-per-directory=.gitignore")
_LISTED = re.compile(
    rb"(?:[^?] (?P<mode>[0-7]{6}) (?P<id>[0-9a-f]+) (?P<stage>\d)\t|\? )(?P<path>.+)", re.DOTALL
)


class GitListing(NamedTuple):
    """By path, the id that git's index has; empty for new files and those in conflict, and for repositories
    that are not submodules."""

    files: dict[str, str]
    submodules: dict[str, str]


class GitTrees(ScannedTrees):
    def __init__(
        self,
        project: str,
        folder: str,
        environ: Mapping[str, str],
        redactor: Redactor,
        limits: TreeLimits = DEFAULT_LIMITS,
        *,
        without: frozenset[str] = frozenset(),
        known: str = "",
    ) -> None:
        """`known`: the file, outside the project, of what earlier engines saw; empty without one."""
        super().__init__(project, folder, redactor, limits, without=without)
        self._known_file = known
        self._known = KnownFiles()
        self._git = GitCommands(project, environ, limits.seconds)
        self._references = GitReferences(self._git)
        self._ceilings = frozenset(environ.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep))
        self._objects: GitObjects | None = None
        self._listing: tuple[bytes, GitListing] = (b"", GitListing({}, {}))
        """The latest output of `git ls-files`, and what it lists."""
        self._latest: dict[str, TreeEntry] | None = None
        """The files of the latest tree."""
        self._taken: TakenTree | None = None

    def is_possible(self) -> bool:
        folder = self._project
        while not os.path.lexists(os.path.join(folder, ".git")):
            above = os.path.dirname(folder)
            if above == folder or above in self._ceilings:
                return False
            folder = above
        return True

    def keep(self, tree: str, name: str) -> KeptTree | NoTree:
        with self._lock:
            try:
                objects = self._objects or self._begin()
                if not is_tree_id(tree):
                    return NoTree("it is not the id of a tree")
                return self._references.keep(objects, tree, name)
            except TreeFailed as error:
                return NoTree(str(error))
            except StorageFailed as error:
                return NoTree(error.message)
            except (*UNREADABLE, TooMuch) as error:
                return NoTree(f"the tree {tree[:12]} can't be kept: {error}")

    def _elsewhere(self, id: str) -> bytes | NoTree:
        """Git has what was in its index when the tree was taken."""
        try:
            ended = self._git.call("cat-file", "--batch", stdin=f"{id}\n".encode(), max_output=2 * MAX_COPIED)
        except (TreeFailed, TooMuch) as error:
            return NoTree(str(error))
        return next(_blobs(ended.stdout), super()._elsewhere(id))

    def _take(self, deadline: float) -> TakenTree:
        objects = self._objects or self._begin()
        listed = self._listed()
        inner = self._submodule_files(listed.submodules)
        below = tuple(f"{path}/" for path in listed.submodules)
        if not self._hashed:
            # The first tree of this engine: what an earlier one saw of the files need not be read again.
            self._hashed = self._known.valid_files(listed.files, objects)
            if listed.files is self._known.listed:
                self._taken = self._known.stored_tree(objects)
        scan = TreeScan(self._project, objects, self._redactor, self._limits, deadline, unstored=below)
        scan.look({**listed.files, **inner} if inner else listed.files, self._hashed)
        # Of a submodule, only its files are known to be as before, not its entry in the index.
        is_unchanged = not (listed.submodules or scan.read) and len(scan.hashed) == len(self._hashed)
        self._hashed = scan.hashed
        if is_unchanged and self._taken is not None and self._taken == scan.taken(self._taken.id, below):
            return self._taken
        found = _with_submodules(scan.entries(), listed.submodules, objects)
        if self._latest is None:
            self._latest, self._taken = self._noted(objects), None
        if found == self._latest and self._taken is not None:
            self._taken = scan.taken(self._taken.id, below)
            return self._taken
        self._keep_replaced(objects, found)
        self._latest = found
        self._taken = scan.taken(objects.add_tree(found), below)
        files.replace(self._note, self._taken.id.encode())
        if self._known_file and not listed.submodules and scan.read >= MIN_SHARE * len(found):
            self._save_known(listed, objects, self._taken)
        return self._taken

    def _save_known(self, listed: GitListing, objects: GitObjects, taken: TakenTree) -> None:
        output, _ = self._listing
        # The next engine may know other secrets, and leaves out other paths then.
        if len(listed.files) >= self._limits.known_from and self._redactor.bytes(output) == output:
            digest = listing_digest(output, self._without)
            known = known_files(digest, listed.files, self._hashed, taken, objects.folders())
            if not save_known(self._known_file, known):
                self._known_file = ""

    def _begin(self) -> GitObjects:
        asked = self._git.call("rev-parse", "--is-inside-work-tree", "--show-object-format")
        inside, _, hash_name = asked.output.strip().partition("\n")
        if inside != "true" or hash_name not in ("sha1", "sha256"):
            raise TreeFailed("the project is not in a work tree of git")
        files.make_dir(self._folder)
        self._objects = GitObjects(self._folder, "sha256" if hash_name == "sha256" else "sha1")
        if self._known_file:
            self._known = load_known(self._known_file)
        return self._objects

    @property
    def _note(self) -> str:
        return f"{self._folder}/latest"

    def _noted(self, objects: GitObjects) -> dict[str, TreeEntry]:
        """The latest tree of an earlier engine."""
        id = (files.read_usable(self._note, 100) or b"").decode("ascii", "replace")
        try:
            found = islice(objects.tree(id), self._limits.files) if is_tree_id(id) else ()
            return dict(found)
        except UNREADABLE:
            return {}

    def _listed(self) -> GitListing:
        output = self._git.call("ls-files", *_LIST, *self._git.excludes()).stdout
        if output != self._listing[0]:
            known = self._known
            is_known = known.listing and known.listing == listing_digest(output, self._without)
            is_known = is_known and self._redactor.bytes(output) == output
            self._listing = (output, GitListing(known.listed, {}) if is_known else self._parsed(output))
        return self._listing[1]

    def _parsed(self, output: bytes, prefix: str = "") -> GitListing:
        found = GitListing({}, {})
        for match in map(_LISTED.fullmatch, output.split(b"\0")):
            if match is None:
                continue
            path = prefix + os.fsdecode(match["path"])
            is_new, is_repository = match["id"] is None, path.endswith("/")
            path = path.removesuffix("/")
            if not can_be_in_tree(path) or (is_new and is_cache(path)) or self._is_left_out(path):
                continue
            id = match["id"].decode() if match["stage"] == b"0" else ""
            is_submodule = is_repository or match["mode"] == SUBMODULE.encode()
            (found.submodules if is_submodule else found.files)[path] = id
            if len(found.files) > self._limits.files:
                raise too_many_files(self._limits)
        return found

    def _submodule_files(self, submodules: Mapping[str, str]) -> dict[str, str]:
        """The files of those that are checked out, by path, with those of submodules inside them."""
        found: dict[str, str] = {}
        todo = list(submodules)
        for _ in range(MAX_SUBMODULES):
            if not todo:
                break
            path = todo.pop()
            folder = os.path.join(self._project, path)
            if not (files.is_dir(folder) and os.path.lexists(os.path.join(folder, ".git"))):
                continue  # Not checked out.
            try:
                listing = self._git.call("ls-files", *_LIST, *self._git.excludes(), below=path)
            except TreeFailed:  # Git can't read it.
                below = listed_files(folder, self._limits)
                found.update(dict.fromkeys((f"{path}/{name}" for name in below), ""))
            else:
                inner = self._parsed(listing.stdout, f"{path}/")
                found.update(inner.files)
                todo.extend(inner.submodules)
            if len(found) > self._limits.files:
                raise too_many_files(self._limits)
        return found

    def _keep_replaced(self, objects: GitObjects, found: Mapping[str, TreeEntry]) -> None:
        """Copy what only git has of the latest tree, and the files no longer have: git may remove it."""
        before = self._latest or {}
        changed = (entry for path, entry in before.items() if found.get(path) != entry)
        replaced = {entry.id for entry in changed if entry.mode != SUBMODULE}
        missing = sorted(id for id in replaced if not objects.has(id))
        if not missing:
            return
        request = "".join(f"{id}\n" for id in missing).encode()
        # Without them, the latest tree can still be compared by paths.
        with suppress(TreeFailed):
            ended = self._git.call("cat-file", "--batch", stdin=request, max_output=2 * MAX_COPIED)
            for content in _blobs(ended.stdout):
                objects.add("blob", content)


def _with_submodules(
    entries: dict[str, TreeEntry], submodules: Mapping[str, str], objects: GitObjects
) -> dict[str, TreeEntry]:
    """The files of a submodule as one entry, whose id is that of their tree: it changes with each of them. Of
    one that is not checked out, the id is the commit that the index has."""
    if not submodules:
        return entries
    inner: dict[str, dict[str, TreeEntry]] = {path: {} for path in submodules}
    found: dict[str, TreeEntry] = {}
    for path, entry in entries.items():
        owner = next((above for above in _above(path) if above in inner), None)
        if owner is None:
            found[path] = entry
        else:
            inner[owner][path.removeprefix(f"{owner}/")] = entry
    for path, id in submodules.items():
        content = objects.add_tree(inner[path], store=False) if inner[path] else id
        if content:
            found[path] = TreeEntry(SUBMODULE, content)
    return found


def _above(path: str) -> Iterator[str]:
    """The folders that contain the path, the outermost first."""
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


def _blobs(output: bytes) -> Iterator[bytes]:
    """The contents of the blobs in the output of `git cat-file --batch`."""
    at = 0
    while (end := output.find(b"\n", at)) >= 0:
        header = output[at:end].split(b" ")
        at = end + 1
        if len(header) == 3 and header[2].isdigit():
            size = int(header[2])
            if header[1] == b"blob":
                yield output[at : at + size]
            at += size + 1
