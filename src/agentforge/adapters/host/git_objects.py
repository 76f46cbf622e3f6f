"""Git's objects in a folder of their own: blobs and trees, written and read without starting git.

The folder has the layout of `.git/objects`, so that git can compare what is in it.
"""

import hashlib
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from agentforge.model.errors import StorageFailed
from agentforge.system import files

HashName = Literal["sha1", "sha256"]
ObjectType = Literal["blob", "tree", "commit"]
FILE, EXECUTABLE, LINK, FOLDER, SUBMODULE = "100644", "100755", "120000", "40000", "160000"
MAX_TREE_BYTES = 64 * 1024 * 1024
MAX_FOLDERS = 100_000
_LEVEL = 1
_MAX_RATIO = 1_032
"""How many bytes zlib can make of one."""
_HEAD_BYTES = 64
"""As many as a header has at most: a type, a size, a null."""
_STORED_HEAD_BYTES = 1024
"""Zlib's tables come before it."""


class TreeEntry(Struct, frozen=True, array_like=True, gc=False):
    """A file in a tree."""

    mode: str
    id: str


class GitObjects:
    def __init__(self, folder: str, hash_name: HashName, max_folders: int = MAX_FOLDERS) -> None:
        """`max_folders`: of a tree that is read."""
        self.folder = folder
        self._hash_name = hash_name
        self._max_folders = max_folders
        self._stored: set[str] = set()
        """Objects that are known to be in the folder."""
        self._writer = TreeWriter(self.add)

    def id_of(self, kind: ObjectType, content: bytes) -> str:
        return self.id_of_parts(kind, len(content), (content,))

    def id_of_parts(self, kind: ObjectType, size: int, parts: Iterable[bytes]) -> str:
        """Of the content that the parts make up."""
        hashed = hashlib.new(self._hash_name, _header(kind, size), usedforsecurity=False)
        for part in parts:
            hashed.update(part)
        return hashed.hexdigest()

    def has(self, id: str) -> bool:
        if id not in self._stored:
            found = files.about(self._path(id))
            # Objects are not synced: a power failure may leave empty files.
            if found is not None and stat.S_ISREG(found.st_mode) and found.st_size > 0:
                self._stored.add(id)
        return id in self._stored

    def add(self, kind: ObjectType, content: bytes) -> str:
        """Store an object, if it is missing, and return its id."""
        id = self.id_of(kind, content)
        if not self.has(id):
            path = self._path(id)
            files.make_dir(os.path.dirname(path))
            files.replace(path, _packed(kind, content))
            self._stored.add(id)
        return id

    def add_tree(self, entries: Mapping[str, TreeEntry], *, store: bool = True) -> str:
        """Store the tree of these files, by path, with the trees of all folders; returns its id. `store`:
        False to compute the id only."""
        return (self._writer if store else TreeWriter(self.id_of)).write(entries)

    def folders(self) -> Iterator[str]:
        """The trees in the one that was stored last."""
        return self._writer.ids()

    def tree(self, id: str) -> Iterator[tuple[str, TreeEntry]]:
        """The files of a stored tree, by path; raises ValueError or StorageFailed if it isn't readable."""
        return self._files(id, "", _Reads(self._max_folders))

    def at(self, id: str, paths: Iterable[str]) -> Iterator[tuple[str, TreeEntry]]:
        """What a stored tree has at these paths, but for folders; raises as `tree` does."""
        return self._at(id, "", sorted(set(paths)), _Reads(self._max_folders))

    def content(self, id: str) -> bytes | None:
        """Of a file, or None if it isn't in the folder; raises ValueError if damaged."""
        stored = self.stored(id)
        return None if stored is None else self._unpacked(id, stored)[1]

    def changed(self, before: str, after: str) -> Iterator[str]:
        """The paths of files that differ between two stored trees; raises as `tree` does."""
        return self._changed(before, after, "", _Reads(self._max_folders))

    def ids(self, tree: str, without: str = "") -> list[str]:
        """The objects of a stored tree: trees and the content of files. Those that another tree, `without`,
        has at the same paths are left out. Raises as `tree` does."""
        found: dict[str, None] = {}
        todo, reads = [(tree, without)] if tree != without else [], _Reads(self._max_folders)
        while todo:
            id, known_id = todo.pop()
            found[id] = None
            known = dict(self._entries(known_id, reads)) if known_id else {}
            for name, entry in self._entries(id, reads):
                before = known.get(name)
                if entry.mode == SUBMODULE or entry == before or entry.id in found:
                    continue
                if entry.mode == FOLDER:
                    todo.append((entry.id, before.id if before and before.mode == FOLDER else ""))
                else:
                    found[entry.id] = None
        return list(found)

    def stored(self, id: str) -> bytes | None:
        """The object as git stores it, or None if it isn't in the folder; raises ValueError if damaged."""
        if id == self.id_of("blob", b""):
            return _packed("blob", b"")
        stored = files.read_bytes(self._path(id), MAX_TREE_BYTES)
        if stored is not None:
            self._unpacked(id, stored)
        return stored

    def _files(self, id: str, prefix: str, reads: "_Reads") -> Iterator[tuple[str, TreeEntry]]:
        for name, entry in self._entries(id, reads):
            if entry.mode == FOLDER:
                yield from self._files(entry.id, f"{prefix}{name}/", reads)
            else:
                yield f"{prefix}{name}", entry

    def _at(self, id: str, prefix: str, paths: list[str], reads: "_Reads") -> Iterator[tuple[str, TreeEntry]]:
        """`paths`: below the folder."""
        known, below = dict(self._entries(id, reads)), dict[str, list[str]]()
        for path in paths:
            name, slash, rest = path.partition("/")
            entry = known.get(name)
            if entry is not None and slash and entry.mode == FOLDER:
                below.setdefault(name, []).append(rest)
            elif entry is not None and not slash and entry.mode != FOLDER:
                yield f"{prefix}{path}", entry
        for name, inner in below.items():
            yield from self._at(known[name].id, f"{prefix}{name}/", inner, reads)

    def _changed(self, before: str, after: str, prefix: str, reads: "_Reads") -> Iterator[str]:
        old, new = (dict(self._entries(id, reads)) for id in (before, after))
        for name in sorted(old.keys() | new.keys()):
            path, was, now = f"{prefix}{name}", old.get(name), new.get(name)
            if was == now:
                continue
            if was and now and was.mode == now.mode == FOLDER:
                yield from self._changed(was.id, now.id, f"{path}/", reads)
                continue
            sides = [entry for entry in (was, now) if entry]
            if any(entry.mode != FOLDER for entry in sides):
                yield path
            for folder in (entry for entry in sides if entry.mode == FOLDER):
                yield from (inner for inner, _ in self._files(folder.id, f"{path}/", reads))

    def _entries(self, id: str, reads: "_Reads") -> Iterator[tuple[str, TreeEntry]]:
        """By name, what the tree of a folder has."""
        reads.count()
        stored = files.read_bytes(self._path(id), MAX_TREE_BYTES)
        if stored is None:
            raise ValueError(f"object {id} is missing")
        header, content = self._unpacked(id, stored)
        if not header.startswith(b"tree "):
            raise ValueError(f"object {id} is damaged")
        # Each entry is `MODE NAME`, a NUL, and the id in binary.
        at, width = 0, len(id) // 2
        while at < len(content):
            end = content.index(b"\0", at)
            mode, _, name = content[at:end].partition(b" ")
            at = end + 1 + width
            yield os.fsdecode(name), TreeEntry(mode.decode(), content[end + 1 : at].hex())

    def _unpacked(self, id: str, stored: bytes) -> tuple[bytes, bytes]:
        """The header and the content of an object with this id."""
        try:
            whole = zlib.decompressobj().decompress(stored, MAX_TREE_BYTES)
        except zlib.error as error:
            raise ValueError(f"object {id} is damaged") from error
        if hashlib.new(self._hash_name, whole, usedforsecurity=False).hexdigest() != id:
            raise ValueError(f"object {id} is damaged")
        header, _, content = whole.partition(b"\0")
        return header, content

    def _path(self, id: str) -> str:
        return f"{self.folder}/{id[:2]}/{id[2:]}"


class _Reads:
    """Counts the folders that are read: trees that contain others repeatedly could have any number."""

    def __init__(self, limit: int) -> None:
        self._limit = self._left = limit

    def count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {self._limit:,} folders")


class _Folder:
    def __init__(self) -> None:
        self.content: dict[str, _Folder | TreeEntry] = {}
        self.id = ""
        """Of its tree; empty if it changed since."""


# Invariant: the id of a folder is empty, or it is the id of exactly what `content` has, and its tree is
# stored. So a change of a file clears the ids of all folders above it, and `write` stores only the trees of
# those: in a project of many files, most of the time would go into the trees of folders that are as before.


class TreeWriter:
    """Stores the trees of a project, one after the other. An agent changes a few files of many: only the
    folders above them are stored again."""

    def __init__(self, add: Callable[[ObjectType, bytes], str]) -> None:
        self._add = add
        self._entries: Mapping[str, TreeEntry] = {}
        self._root = _Folder()

    def write(self, entries: Mapping[str, TreeEntry]) -> str:
        """Store the tree of these files, by path, with the trees of all folders; returns its id."""
        before, self._entries = self._entries, entries
        for path in before.keys() - entries.keys():
            self._remove(path)
        for path, entry in entries.items():
            known = before.get(path)
            if known is not entry and known != entry:
                self._put(path, entry)
        id = self._stored(self._root)
        if not self._entries:
            self._root = _Folder()
        return id

    def ids(self) -> Iterator[str]:
        todo = [self._root]
        while todo:
            folder = todo.pop()
            yield folder.id
            todo += [inner for inner in folder.content.values() if isinstance(inner, _Folder)]

    def _put(self, path: str, entry: TreeEntry) -> None:
        *folders, name = path.split("/")
        here = self._root
        here.id = ""
        for folder in folders:
            inner = here.content.get(folder)
            if not isinstance(inner, _Folder):
                if inner is not None:
                    # A file that became a folder while the files were read: nothing of it is known.
                    self._entries = {}
                inner = here.content[folder] = _Folder()
            here = inner
            here.id = ""
        if isinstance(here.content.get(name), _Folder):
            self._entries = {}
        here.content[name] = entry

    def _remove(self, path: str) -> None:
        *folders, name = path.split("/")
        here, above = self._root, []
        for folder in folders:
            here.id = ""
            above.append((here, folder))
            inner = here.content[folder]
            assert isinstance(inner, _Folder)
            here = inner
        here.id = ""
        del here.content[name]
        while not here.content and above:
            here, folder = above.pop()
            del here.content[folder]

    def _stored(self, folder: _Folder) -> str:
        if folder.id:
            return folder.id
        found = []
        for name, inner in folder.content.items():
            is_folder = isinstance(inner, _Folder)
            entry = TreeEntry(FOLDER, self._stored(inner)) if isinstance(inner, _Folder) else inner
            raw = os.fsencode(name)
            # Git sorts folders as if their names ended with a slash.
            line = entry.mode.encode() + b" " + raw + b"\0" + bytes.fromhex(entry.id)
            found.append((raw + b"/" if is_folder else raw, line))
        folder.id = self._add("tree", b"".join(line for _, line in sorted(found)))
        return folder.id


def _packed(kind: ObjectType, content: bytes) -> bytes:
    return zlib.compress(_header(kind, len(content)) + content, _LEVEL)


def _header(kind: ObjectType, size: int) -> bytes:
    return f"{kind} {size}\0".encode()


UNREADABLE = (ValueError, StorageFailed, RecursionError)
"""Errors of reading a tree that something else may have written."""


_GIT_ONLY = ("info", "pack")
_FAN_OUT = frozenset(f"{number:02x}" for number in range(256))


def oversized_object(folder: str) -> str:
    """An object that says it is larger than any that `GitObjects` stores, or "". git would make room for all
    of it. Only the beginning of a file is read, and only if so much can be in it."""
    for name in (name for name in files.listing(folder) if name in _FAN_OUT):
        for place in (f"{folder}/{name}/{entry}" for entry in files.listing(f"{folder}/{name}")):
            found = files.about(place)
            if (
                found is None
                or not stat.S_ISREG(found.st_mode)
                or found.st_size * _MAX_RATIO <= MAX_TREE_BYTES
            ):
                continue
            try:
                begun = zlib.decompressobj().decompress(
                    files.read_part(place, 0, _STORED_HEAD_BYTES)[0], _HEAD_BYTES
                )
            except zlib.error:
                continue  # git can't read it either.
            size = begun.partition(b"\0")[0].rpartition(b" ")[2]
            if not size.isdigit() or int(size) > MAX_TREE_BYTES:
                return place
    return ""


def foreign_entry(folder: str) -> str:
    """What is in a folder of objects and not written by `GitObjects`, or "": alternates, packs, links, which
    make git read something else."""
    if os.path.islink(folder):
        return folder
    names = sorted(files.listing(folder))
    inner = [name for name in names if name in _FAN_OUT]
    links = (name for name in inner if os.path.islink(f"{folder}/{name}"))
    if other := next((name for name in names if name in _GIT_ONLY), None) or next(links, None):
        return f"{folder}/{other}"
    places = (f"{folder}/{name}/{entry}" for name in inner for entry in files.listing(f"{folder}/{name}"))
    return next(filter(os.path.islink, places), "")
