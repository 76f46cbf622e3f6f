"""Finds the repositories inside a project, which git enters from the top folder."""

import os
import stat
from collections.abc import Collection, Mapping

from msgspec import Struct

from agentforge.model.errors import StorageFailed
from agentforge.system import files
from agentforge.system.git import git_program
from agentforge.system.programs import NoExit, run
from agentforge.system.repository import GIT, linked_folder

MAX_ENTRIES = 2_000_000
DISABLED = ".disabled"
"""The ending of what is renamed."""
MAX_LISTING = 128 * 1024 * 1024
MAX_PATH = 64 * 1024
SECONDS = 30.0
_SUBMODULE = b"160000"


class Repositories(Struct, frozen=True):
    """Places by the identity of what is there: a `.git`, or the folder of a bare repository."""

    places: dict[str, tuple[int, int, int]]
    is_complete: bool = True
    """False: the project has too many files to look at all of them."""


def is_bare(place: str) -> bool:
    return os.path.basename(place) != GIT


def find_repositories(project: str, skipped: Collection[str], limit: int = MAX_ENTRIES) -> Repositories:
    """All of them below the project, without its own `.git`. Follows no link."""
    found: dict[str, tuple[int, int, int]] = {}
    parents = {os.path.dirname(path) for path in skipped}
    todo, left = [project], limit
    while todo:
        folder, names = todo.pop(), set()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return Repositories(found, is_complete=False)
                    names.add(entry.name)
                    is_git = entry.name == GIT or entry.name.startswith(f"{GIT}{DISABLED}")
                    if not is_git and entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
        except OSError:
            continue  # Removed, or not readable.
        # Of all the folders of a large project, only those next to a skipped one are compared.
        todo = [path for path in todo if path not in skipped] if folder in parents else todo
        places = [os.path.join(folder, GIT)] if GIT in names and folder != project else []
        # Git takes a folder with these for a repository, whatever its name is.
        if "HEAD" in names and ("commondir" in names or {"objects", "refs"} <= names):
            places.append(folder)
        found.update((path, about) for path in places if (about := files.entry_identity(path)))
    return Repositories(found)


def submodules(folder: str, environ: Mapping[str, str]) -> list[str] | None:
    """The paths of the submodules in the index of the repository in the folder; None if git can't list it."""
    words = ("ls-files", "--stage", "--full-name", "-z")
    ended = run(git_program(folder, environ, *words, timeout=SECONDS, max_output=MAX_LISTING, any_owner=True))
    if ended.reason is NoExit.MISSING:
        return []
    if ended.code != 0 or ended.truncated:
        return None
    rows = (row.partition(b"\t") for row in ended.stdout.split(b"\0"))
    return [os.fsdecode(path) for about, _, path in rows if about.startswith(_SUBMODULE)]


def work_tree(folder: str, environ: Mapping[str, str]) -> str:
    """Where the files of the repository in the folder are: its settings can name another folder."""
    words = ("rev-parse", "--show-toplevel")
    ended = run(git_program(folder, environ, *words, timeout=SECONDS, max_output=MAX_PATH, any_owner=True))
    return os.fsdecode(ended.stdout.removesuffix(b"\n")) if ended.code == 0 else folder


def is_inside(name: str) -> bool:
    """Whether the path of a submodule leads into the work tree, and not into `.git`. Git adds no others, but
    enters those that something else has written into the index."""
    return not any(part.lower() in ("", ".", "..", GIT) for part in name.split("/"))


def index_of(folder: str) -> str:
    """The index of the repository in the folder."""
    return os.path.join(linked_folder(folder) or os.path.join(folder, GIT), "index")


def aside(path: str) -> str:
    """The name under which git ignores it."""
    return files.free_name(f"{path}{DISABLED}")


def set_aside(path: str, target: str, rest: bytes | None = None) -> None:
    """Rename it. `rest`: what stays in its place. Raises StorageFailed."""
    try:
        _set_aside(path, target, rest)
    except StorageFailed:
        folder = os.path.dirname(path)
        with files.storage(path):
            if not os.path.islink(folder):
                os.chmod(folder, 0o700)  # An agent can have made it read-only.
        _set_aside(path, target, rest)


def _set_aside(path: str, target: str, rest: bytes | None) -> None:
    if rest is None:
        files.move(path, target)
        return
    with files.storage(path):
        mode = stat.S_IMODE(os.lstat(path).st_mode)
        if not os.path.lexists(target):
            files.link(path, target)
        files.replace(path, rest)  # Never missing: git would take it for another kind of repository.
        descriptor = files.open_file(path)
        try:
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)
