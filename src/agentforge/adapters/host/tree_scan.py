"""Looks at the files of a tree: hashes those that have changed since the last look, without following
links."""

import os
import stat
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import islice

from msgspec import Struct

from agentforge.adapters.host.git_objects import (
    EXECUTABLE,
    FILE,
    LINK,
    MAX_TREE_BYTES,
    SUBMODULE,
    UNREADABLE,
    GitObjects,
    TreeEntry,
)
from agentforge.adapters.host.project_files import OURS
from agentforge.model.errors import StorageFailed
from agentforge.model.layout import OUTBOX
from agentforge.model.secrets import Redactor
from agentforge.ports.host import KeptTree, NoTree, Stamp, TakenTree, TreeFile, is_tree_id
from agentforge.system import files
from agentforge.system.confined import ConfinedFolder
from agentforge.system.file_search import FileSearch, TooManyEntries
from agentforge.system.folders import open_folder, open_regular

# A file is read again unless its size, inode and times are as before, which is git's own rule. The rule fails
# for a file that changes twice within the clock's resolution, so a stamp as young as that is not trusted
# ("racy" in git).

_SECOND = 1_000_000_000
_RACY_NS = _SECOND // 20
_COARSE_NS = 2 * _SECOND


CACHE_FOLDERS = frozenset(
    {
        *("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox"),
        *(".venv", "venv", "node_modules", ".gradle", ".cache", ".turbo", ".terraform"),
    }
)
"""Programs fill these folders, also while a check runs. Git's trees have what is tracked of them."""
CACHE_FILES = frozenset({".coverage", ".eslintcache", ".DS_Store"})
_CACHE_ENDS = (".pyc", ".tsbuildinfo")
_EXCLUDED = frozenset({*OURS, OUTBOX})
_BELOW_EXCLUDED = tuple(f"{path}/" for path in _EXCLUDED)
_STEPS = frozenset({"", ".", "..", ".git"})
"""Not in the path of a file of a tree."""
_ENTRIES_PER_FILE = 2
_PART_BYTES = 1024 * 1024


class TreeLimits(Struct, frozen=True):
    seconds: float = 30.0
    """For one tree. The first one reads all files; on a busy machine, that takes long."""
    files: int = 100_000
    file_bytes: int = 10 * 1024 * 1024
    """Larger files are not part of a tree, unless git has their content."""
    new_bytes: int = 64 * 1024 * 1024
    """Content that one tree may add to the folder of the run."""
    known_from: int = 1_000
    """In a project with fewer files, a new engine reads all of them: that is as quick as a cache."""


DEFAULT_LIMITS = TreeLimits()


class TooMuch(Exception):
    """A limit is reached, as it would be the next time."""


class TreeFailed(Exception):
    """Why there is no tree this time; the next attempt may succeed."""


def too_many_files(limits: TreeLimits) -> TooMuch:
    return TooMuch(f"the project has more than {limits.files:,} files")


class HashedFile(Struct, frozen=True, array_like=True, gc=False):
    stamp: Stamp | None
    """None: it could change again without a new stamp."""
    entry: TreeEntry
    exact: bool = True
    """Whether the entry has its content as it is, without a secret that was replaced."""


# -- which paths


def can_be_in_tree(path: str) -> bool:
    """Whether the path is neither the engine's nor git's own."""
    if path in _EXCLUDED or path.startswith(_BELOW_EXCLUDED):
        return False
    return _STEPS.isdisjoint(path.split("/"))


def is_cache(path: str) -> bool:
    """Whether a program fills the file or folder on its own."""
    steps = path.split("/")
    name = steps[-1]
    return not CACHE_FOLDERS.isdisjoint(steps) or name in CACHE_FILES or name.endswith(_CACHE_ENDS)


def listed_files(root: str, limits: TreeLimits) -> list[str]:
    """Relative to the folder. Raises TooMuch."""
    with ConfinedFolder(root) as folder:
        search = FileSearch(folder, _ENTRIES_PER_FILE * limits.files)
        try:
            paths = search.below(links="listed", skip=_is_left_out)
            found = [path for path in paths if not _is_left_out(path)]
        except TooManyEntries:
            raise too_many_files(limits) from None
    if len(found) > limits.files:
        raise too_many_files(limits)
    return found


def _is_left_out(path: str) -> bool:
    return is_cache(path) or not can_be_in_tree(path)


# -- what they contain


class TreeScan:
    """One look at the files."""

    def __init__(
        self,
        project: str,
        objects: GitObjects,
        redactor: Redactor,
        limits: TreeLimits,
        deadline: float,
        *,
        unstored: tuple[str, ...] = (),
    ) -> None:
        """`unstored`: the content of files whose paths begin so is only hashed."""
        self._project = project
        self._unstored = unstored
        self._objects = objects
        self._redactor = redactor
        self._limits = limits
        self._deadline = deadline
        self._began_ns = time.time_ns()
        self._new_bytes = 0
        self.hashed: dict[str, HashedFile] = {}
        self._omitted: list[str] = []
        self.read = 0
        """How many files were read."""

    def look(self, listed: Mapping[str, str], known: Mapping[str, HashedFile]) -> None:
        """`listed`: by path, the id that git has for the content, or ""; `known`: as last seen."""
        # By folder: each is opened once, without following links, and its files are found from the
        # descriptor. A folder that is replaced by a link meanwhile leads nowhere else.
        folders: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for path in listed:
            folder, _, name = path.rpartition("/")
            folders[folder].append((path, name))
        for folder, paths in folders.items():
            try:
                descriptor = open_folder(os.path.join(self._project, folder) if folder else self._project)
            except OSError:
                continue  # Removed, or a link by now.
            try:
                for path, name in paths:
                    self._file(path, name, descriptor, listed[path], known.get(path))
            finally:
                os.close(descriptor)

    def entries(self) -> dict[str, TreeEntry]:
        return {path: file.entry for path, file in self.hashed.items()}

    def taken(self, id: str, without: tuple[str, ...] = ()) -> TakenTree:
        """The tree with that id, of what was seen. `without`: how the paths of files begin that are not in it
        one by one."""
        masked = (path for path, file in self.hashed.items() if not file.exact)
        inexact = (path for path in (*self._omitted, *masked) if not (without and path.startswith(without)))
        return TakenTree(id, len(self._omitted), tuple(sorted(inexact)))

    def _file(self, path: str, name: str, folder: int, in_git: str, known: HashedFile | None) -> None:
        try:
            seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return
        executable = seen.st_mode & 0o100 != 0
        stamp = Stamp(seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino, executable)
        if known is not None and known.stamp == stamp:
            self.hashed[path] = known
            return
        if not (stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode)):
            return
        if time.monotonic() > self._deadline:
            raise TooMuch(f"the files take longer than {self._limits.seconds:g} s to read")
        is_link = stat.S_ISLNK(seen.st_mode)
        content = self._content(name, folder, seen.st_size, is_link=is_link)
        mode = LINK if is_link else EXECUTABLE if executable else FILE
        if content is not None:
            id, exact = self._blob(path, content, in_git)
        elif in_git and not is_link and self._is_in_git(name, folder, seen.st_size, in_git):
            id, exact = in_git, True
        else:
            self._omitted.append(path)
            return
        self.read += 1
        self.hashed[path] = HashedFile(None if self._is_racy(stamp) else stamp, TreeEntry(mode, id), exact)

    def _is_in_git(self, name: str, folder: int, size: int, id: str) -> bool:
        """Whether a file that is too large has the content that git has."""
        if size > self._limits.new_bytes:
            return False
        try:
            with open(open_regular(name, os.O_RDONLY, folder=folder), "rb", buffering=0) as file:
                parts = iter(lambda: file.read(_PART_BYTES) or b"", b"")
                return self._objects.id_of_parts("blob", size, parts) == id
        except OSError:
            return False

    def _content(self, name: str, folder: int, size: int, *, is_link: bool) -> bytes | None:
        """None if it is too large or unreadable; the target of a link."""
        limit = self._limits.file_bytes
        try:
            if is_link:
                return os.fsencode(os.readlink(name, dir_fd=folder))
            if size > limit:
                return None
            descriptor = open_regular(name, os.O_RDONLY, folder=folder)
        except OSError:
            return None
        with open(descriptor, "rb", buffering=0) as file:
            content = file.read(limit + 1) or b""
        return content if len(content) <= limit else None

    def _blob(self, path: str, content: bytes, in_git: str) -> tuple[str, bool]:
        """Its id, and whether it is that of the content as it is."""
        id = self._objects.id_of("blob", content)
        if id == in_git:
            # Git keeps it as long as its index names it. Before that ends, `GitTrees` copies it.
            return id, True
        hidden = self._redactor.bytes(content)
        exact, content = hidden == content, hidden
        if path.startswith(self._unstored):
            return self._objects.id_of("blob", content), exact
        if not self._objects.has(id):
            self._new_bytes += len(content)
            if self._new_bytes > self._limits.new_bytes:
                size = self._limits.new_bytes // (1024 * 1024)
                raise TooMuch(f"more than {size} MB of files are new to git")
        return self._objects.add("blob", content), exact

    def _is_racy(self, stamp: Stamp) -> bool:
        changed = max(stamp.changed_ns, stamp.modified_ns)
        coarse = stamp.changed_ns % _SECOND == 0
        return changed > self._began_ns - (_COARSE_NS if coarse else _RACY_NS)


class ScannedTrees(ABC):
    """What the trees of a git repository and those of a plain folder share: limits, errors and comparison."""

    def __init__(
        self,
        project: str,
        folder: str,
        redactor: Redactor,
        limits: TreeLimits = DEFAULT_LIMITS,
        *,
        without: frozenset[str] = frozenset(),
    ) -> None:
        """`folder`: where the objects are kept, in the folder of the run. `without`: paths of files that are
        not in the trees."""
        self._project = project
        self._folder = folder
        self._redactor = redactor
        self._limits = limits
        self._without = without
        self._hashed: dict[str, HashedFile] = {}
        self._too_much = ""
        self._lock = threading.Lock()

    def take(self) -> TakenTree | NoTree:
        with self._lock:
            try:
                deadline = time.monotonic() + self._limits.seconds
                return NoTree(self._too_much) if self._too_much else self._take(deadline)
            except TooMuch as reached:
                self._too_much = str(reached)
                return NoTree(self._too_much)
            except TreeFailed as error:
                return NoTree(str(error))
            except StorageFailed as error:
                return NoTree(error.message)
            except OSError as error:
                return NoTree(f"can't read the project: {error.strerror or error}")

    def changed(self, before: str, after: str, limit: int) -> tuple[str, ...] | NoTree:
        for id in (before, after):
            if not is_tree_id(id):
                return NoTree(f"{id[:80]!r} is not the id of a tree")
        objects = GitObjects(self._folder, "sha256" if len(before) == 64 else "sha1")
        try:
            return tuple(islice(objects.changed(before, after), limit))
        except UNREADABLE as error:
            return NoTree(f"the trees can't be compared: {error}")

    def files(self, tree: str, paths: Iterable[str]) -> dict[str, TreeFile] | NoTree:
        if not is_tree_id(tree):
            return NoTree(f"{tree[:80]!r} is not the id of a tree")
        objects = GitObjects(self._folder, "sha256" if len(tree) == 64 else "sha1")
        try:
            return {path: TreeFile(entry.mode, entry.id) for path, entry in objects.at(tree, paths)}
        except UNREADABLE as error:
            return NoTree(f"the tree {tree[:12]} can't be read: {error}")

    def content(self, file: TreeFile) -> bytes | NoTree:
        if not is_tree_id(file.id) or file.mode == SUBMODULE:
            return NoTree("it is not the content of a file")
        objects = GitObjects(self._folder, "sha256" if len(file.id) == 64 else "sha1")
        try:
            content = objects.content(file.id)
        except UNREADABLE as error:
            return NoTree(f"the content {file.id[:12]} can't be read: {error}")
        return self._elsewhere(file.id) if content is None else content

    def hold(self, path: str, file: TreeFile) -> bytes | NoTree:
        objects = GitObjects(self._folder, "sha256" if len(file.id) == 64 else "sha1")
        content: bytes | NoTree | None = None
        with suppress(StorageFailed):  # Such as a link in its place.
            content = files.read_usable(os.path.join(self._project, path), MAX_TREE_BYTES)
        if not isinstance(content, bytes) or objects.id_of("blob", content) != file.id:
            content = self.content(file)
        if isinstance(content, bytes):
            try:
                objects.add("blob", content)
            except StorageFailed as error:
                return NoTree(error.message)
        return content

    def _elsewhere(self, id: str) -> bytes | NoTree:
        """Content that is not in the folder of the run."""
        return NoTree(f"the content {id[:12]} is not kept")

    def _is_left_out(self, path: str) -> bool:
        """Whether it is not wanted, or contains a secret."""
        return path in self._without or self._redactor.text(path) != path

    @abstractmethod
    def _take(self, deadline: float) -> TakenTree:
        """May raise TreeFailed, TooMuch, StorageFailed and OSError."""


class FolderTrees(ScannedTrees):
    """Trees of a project without a git repository.

    The ids are those that git would give the same files, so that a tree has the same identity in both. The
    trees themselves are kept, and not the content of the files: paths can be compared, but not lines.
    """

    def is_possible(self) -> bool:
        return files.is_dir(self._project)

    def keep(self, tree: str, name: str) -> KeptTree | NoTree:
        return NoTree(f"the tree {tree[:12]} is not kept as {name}: the project is not a git repository")

    def _take(self, deadline: float) -> TakenTree:
        files.make_dir(self._folder)
        scan = TreeScan(self._project, self._objects, self._redactor, self._limits, deadline, unstored=("",))
        listed = listed_files(self._project, self._limits)
        scan.look(dict.fromkeys((path for path in listed if not self._is_left_out(path)), ""), self._hashed)
        self._hashed = scan.hashed
        return scan.taken(self._objects.add_tree(scan.entries()))

    @cached_property
    def _objects(self) -> GitObjects:
        """One for all trees, as it knows what is stored."""
        return GitObjects(self._folder, "sha1")
