"""What an engine saw of a project's files, for the next engine: it reads only what changed since then.

It is kept outside the project, where no confined agent writes. It is a cache: if it is missing or damaged,
all files are read. A file that could have changed again without a new stamp is not in it: git distrusts such
entries of its index, too.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256

import msgspec
from msgspec import Struct

from agentforge.adapters.host.git_objects import GitObjects
from agentforge.adapters.host.tree_scan import HashedFile
from agentforge.model.errors import NOT_JSON, StorageFailed
from agentforge.ports.host import TakenTree
from agentforge.system import files

MAX_BYTES = 64 * 1024 * 1024
MIN_SHARE = 0.005
"""Of the files that were read: below it, the last cache is good enough."""
_FORMAT = b"2"


class KnownFiles(Struct, frozen=True, array_like=True):
    listing: str = ""
    """What git listed, as `listing_digest` has it."""
    listed: dict[str, str] = {}
    """By path, the id that git's index has."""
    tracked: dict[str, HashedFile] = {}
    """Those with that content."""
    others: dict[str, HashedFile] = {}
    """Their content is only in the folder of a run."""
    tree: TakenTree = TakenTree("")
    folders: tuple[str, ...] = ()
    """The trees in that tree."""

    def valid_files(self, listed: Mapping[str, str], objects: GitObjects) -> dict[str, HashedFile]:
        """Those whose content git or the run has: the others are read again, to store it."""
        others = {path: file for path, file in self.others.items() if objects.has(file.entry.id)}
        if listed is self.listed:
            # The same object: git listed the same files with the same content as when this was saved.
            return {**self.tracked, **others}
        tracked = self.tracked.items()
        return {**{path: file for path, file in tracked if listed.get(path) == file.entry.id}, **others}

    def stored_tree(self, objects: GitObjects) -> TakenTree | None:
        """The tree, if the run has all of it. A power failure may have left a part."""
        return self.tree if self.folders and all(objects.has(id) for id in self.folders) else None


def known_files(
    listing: str,
    listed: dict[str, str],
    hashed: Mapping[str, HashedFile],
    tree: TakenTree,
    folders: Iterable[str],
) -> KnownFiles:
    tracked: dict[str, HashedFile] = {}
    others: dict[str, HashedFile] = {}
    for path, file in hashed.items():
        if file.stamp is not None:
            (tracked if listed.get(path) == file.entry.id else others)[path] = file
    return KnownFiles(listing, listed, tracked, others, tree, tuple(folders))


def listing_digest(output: bytes, without: Iterable[str]) -> str:
    """Of the output of `git ls-files`, and the paths that are left out."""
    parts = (_FORMAT, "\0".join(sorted(without)).encode("utf-8", "surrogateescape"), output)
    return sha256(b"\0\0".join(parts)).hexdigest()


def load_known(path: str) -> KnownFiles:
    try:
        return msgspec.msgpack.decode(files.read_usable(path, MAX_BYTES) or b"", type=KnownFiles)
    except (*NOT_JSON, StorageFailed):
        return KnownFiles()


def save_known(path: str, known: KnownFiles) -> bool:
    """Whether it could be saved."""
    try:
        files.make_dir(path.rpartition("/")[0])
        files.replace(path, msgspec.msgpack.encode(known))
    except (StorageFailed, UnicodeEncodeError):
        return False
    return True
