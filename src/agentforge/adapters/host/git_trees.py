"""Trees of a project in a git repository.

Git only lists the files. `git add` would run the filters that a repository configures, and `git status` in
its submodules; `git hash-object` follows links. So the engine hashes the files itself, opened without
following links, and writes git's objects to the folder of the run: the user's index, references and object
store stay as they are, and `git gc` removes nothing of a run.

Content that git has already is not copied until it changes.
"""

import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from itertools import islice

from agentforge.adapters.host.git_objects import UNREADABLE, GitObjects, TreeEntry
from agentforge.adapters.host.project_files import OURS
from agentforge.adapters.host.tree_scan import DEFAULT_LIMITS, HashedFile, TooMuch, TreeLimits, TreeScan
from agentforge.model.errors import StorageFailed
from agentforge.model.layout import OUTBOX
from agentforge.model.secrets import Redactor
from agentforge.ports.tree import NoTree, TakenTree, is_tree_id
from agentforge.system import files
from agentforge.system.git import git_program
from agentforge.system.programs import NoExit, ProgramResult, run

MAX_LISTING = 64 * 1024 * 1024
MAX_COPIED = 64 * 1024 * 1024
_LISTED = re.compile(rb"(?:[^?] [0-7]{6} (?P<id>[0-9a-f]+) (?P<stage>\d)\t|\? )(?P<path>.+)", re.DOTALL)
_EXCLUDED = frozenset({*OURS, OUTBOX})
_BELOW_EXCLUDED = tuple(f"{path}/" for path in _EXCLUDED)
_STEPS = frozenset({"", ".", "..", ".git"})
"""Not in the path of a file of a tree."""


class GitTrees:
    def __init__(
        self,
        project: str,
        folder: str,
        environ: Mapping[str, str],
        redactor: Redactor,
        limits: TreeLimits = DEFAULT_LIMITS,
    ) -> None:
        """`folder`: where the objects are kept, in the folder of the run."""
        self._project = project
        self._folder = folder
        self._environ = environ
        self._redactor = redactor
        self._limits = limits
        self._ceilings = frozenset(environ.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep))
        self._objects: GitObjects | None = None
        self._listing: tuple[bytes, dict[str, str]] = (b"", {})
        """The latest output of `git ls-files`, and what it lists."""
        self._hashed: dict[str, HashedFile] = {}
        self._latest: dict[str, TreeEntry] | None = None
        """The files of the latest tree."""
        self._taken: TakenTree | None = None
        self._too_much = ""
        self._lock = threading.Lock()

    def is_possible(self) -> bool:
        folder = self._project
        while not os.path.lexists(os.path.join(folder, ".git")):
            above = os.path.dirname(folder)
            if above == folder or above in self._ceilings:
                return False
            folder = above
        return True

    def take(self) -> TakenTree | NoTree:
        with self._lock:
            try:
                return NoTree(self._too_much) if self._too_much else self._take()
            except TooMuch as reached:
                self._too_much = str(reached)
                return NoTree(self._too_much)
            except StorageFailed as error:
                return NoTree(error.message)
            except OSError as error:
                return NoTree(f"can't read the project: {error.strerror or error}")

    def _take(self) -> TakenTree | NoTree:
        deadline = time.monotonic() + self._limits.seconds
        objects = self._objects or self._begin()
        if isinstance(objects, NoTree):
            return objects
        listed = self._listed()
        if isinstance(listed, NoTree):
            return listed
        scan = TreeScan(self._project, objects, self._redactor, self._limits, deadline)
        scan.look(listed, self._hashed)
        self._hashed, found = scan.hashed, scan.entries()
        if found == self._latest and self._taken is not None:
            return self._taken
        self._keep_replaced(objects, found)
        self._latest = found
        self._taken = TakenTree(objects.add_tree(found), scan.omitted)
        files.replace(self._note, self._taken.id.encode())
        return self._taken

    def _begin(self) -> GitObjects | NoTree:
        asked = self._git("rev-parse", "--is-inside-work-tree", "--show-object-format")
        if isinstance(asked, NoTree):
            return asked
        inside, _, hash_name = asked.output.strip().partition("\n")
        if inside != "true" or hash_name not in ("sha1", "sha256"):
            return NoTree("the project is not in a work tree of git")
        files.make_dir(self._folder)
        self._objects = GitObjects(self._folder, "sha256" if hash_name == "sha256" else "sha1")
        self._latest = self._noted(self._objects)
        return self._objects

    @property
    def _note(self) -> str:
        return f"{self._folder}/latest"

    def _noted(self, objects: GitObjects) -> dict[str, TreeEntry] | None:
        """The latest tree of an earlier engine."""
        id = (files.read_usable(self._note, 100) or b"").decode("ascii", "replace")
        try:
            found = islice(objects.tree(id), self._limits.files) if is_tree_id(id) else ()
            return dict(found) or None
        except UNREADABLE:
            return None

    def _listed(self) -> dict[str, str] | NoTree:
        """The id that git's index has for each file, by path; empty for new ones."""
        listing = self._git("ls-files", "-z", "-t", "-s", "-c", "-o", "--exclude-standard")
        if isinstance(listing, NoTree):
            return listing
        if listing.stdout == self._listing[0]:
            return self._listing[1]
        found: dict[str, str] = {}
        for match in map(_LISTED.fullmatch, listing.stdout.split(b"\0")):
            if match is None or not self._is_included(path := os.fsdecode(match["path"])):
                continue
            found[path] = match["id"].decode() if match["stage"] == b"0" else ""
            if len(found) > self._limits.files:
                raise TooMuch(f"the project has more than {self._limits.files:,} files")
        self._listing = (listing.stdout, found)
        return found

    def _is_included(self, path: str) -> bool:
        if path in _EXCLUDED or path.startswith(_BELOW_EXCLUDED):
            return False
        return _STEPS.isdisjoint(path.split("/")) and self._redactor.text(path) == path

    def _keep_replaced(self, objects: GitObjects, found: Mapping[str, TreeEntry]) -> None:
        """Copy what only git has of the latest tree, and the files no longer have: git may remove it."""
        before = self._latest or {}
        replaced = {entry.id for path, entry in before.items() if found.get(path) != entry}
        missing = sorted(id for id in replaced if not objects.has(id))
        if not missing:
            return
        request = "".join(f"{id}\n" for id in missing).encode()
        ended = self._git("cat-file", "--batch", stdin=request, max_output=2 * MAX_COPIED)
        for content in _blobs(ended.stdout) if isinstance(ended, ProgramResult) else ():
            objects.add("blob", content)

    def _git(
        self, *arguments: str, stdin: bytes = b"", max_output: int = 2 * MAX_LISTING
    ) -> ProgramResult | NoTree:
        limit = self._limits.seconds
        program = git_program(
            self._project, self._environ, *arguments, timeout=limit, max_output=max_output, stdin=stdin
        )
        ended = run(program)
        if ended.reason is NoExit.MISSING:
            return NoTree("git is not installed")
        if ended.reason is NoExit.TIMED_OUT:
            raise TooMuch(f"git {arguments[0]} took longer than {limit:g} s")
        if ended.code != 0 or ended.truncated:
            return NoTree(f"git {arguments[0]}: {ended.last_error or ended.problem or 'too much output'}")
        return ended


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
