"""Finds the repositories inside a project, which git enters from the top folder, and what starts programs in
them."""

import os
from collections.abc import Collection, Mapping

from msgspec import Struct

from agentforge.model.errors import StorageFailed
from agentforge.system import files
from agentforge.system.git import git_program
from agentforge.system.git_settings import settings_in
from agentforge.system.programs import NoExit, run
from agentforge.system.repository import GIT, common_folder, is_direct, linked_folder

MAX_ENTRIES = 2_000_000
DISABLED = ".disabled"
"""The ending of what is renamed."""
MAX_LISTING = 128 * 1024 * 1024
MAX_PATH = 64 * 1024
SECONDS = 30.0
_SUBMODULE = b"160000"
_WORK_TREE = "core.worktree"
_PLAIN = frozenset(
    {
        *("core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates"),
        *("core.ignorecase", "core.precomposeunicode", "core.symlinks", "core.autocrlf"),
        *("extensions.objectformat", "user.name", "user.email", "submodule.active", "init.defaultbranch"),
    }
)
_PLAIN_OF = {
    "remote": {"url", "pushurl", "fetch", "tagopt"},
    "branch": {"remote", "merge", "rebase"},
    "submodule": {"url", "active"},
}
"""Settings of each remote, branch and submodule."""


class Repositories(Struct, frozen=True):
    """Places by the identity of what is there: a `.git`, or the folder of a bare repository."""

    places: dict[str, tuple[int, int]]
    is_complete: bool = True
    """False: the project has too many files to look at all of them."""


def is_bare(place: str) -> bool:
    return os.path.basename(place) != GIT


def identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def find_repositories(project: str, skipped: Collection[str], limit: int = MAX_ENTRIES) -> Repositories:
    """All of them below the project, without its own `.git`. Follows no link."""
    found: dict[str, tuple[int, int]] = {}
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
        todo = [path for path in todo if path not in skipped] if folder in _parents(skipped) else todo
        places = [os.path.join(folder, GIT)] if GIT in names and folder != project else []
        if "HEAD" in names and ("commondir" in names or {"objects", "refs"} <= names):
            places.append(folder)
        found.update((path, about) for path in places if (about := identity(path)))
    return Repositories(found)


def _parents(paths: Collection[str]) -> set[str]:
    return {os.path.dirname(path) for path in paths}


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


def why_unsafe(place: str, project: str, environ: Mapping[str, str]) -> str:
    """Why git could start a program in this repository that its author chose, or "": it has only plain
    settings and no hook. The repository isn't the project's own."""
    if os.path.islink(place):
        return "it is a link"
    tree = "" if is_bare(place) else os.path.dirname(place)
    if not tree or files.is_dir(place):
        return _why_unsafe(place, tree, project, environ)
    target = linked_folder(tree)
    if not is_direct(tree):
        return "it leads git on a detour"
    if not target.startswith(f"{project}/"):
        return "it leads git to a folder outside of the project"
    own = os.path.join(project, GIT)
    if os.path.dirname(target) == os.path.join(own, "worktrees") and common_folder(target) == own:
        # Its settings are those of the project, and its hooks, too.
        return "it has settings of its own" if os.path.lexists(f"{target}/config.worktree") else ""
    return _why_unsafe(target, tree, project, environ)


def _why_unsafe(repository: str, tree: str, project: str, environ: Mapping[str, str]) -> str:
    """`tree`: the folder with its `.git`; empty: it is a bare one."""
    if os.path.realpath(repository) != os.path.join(
        os.path.realpath(project), repository[len(project) + 1 :]
    ):
        return "a link leads to it"
    if os.path.lexists(os.path.join(repository, "commondir")):
        return "it takes its settings from another folder"
    hooks = os.path.join(repository, "hooks")
    try:
        if os.path.lexists(hooks) and not all(name.endswith(".sample") for name in files.listing(hooks)):
            return "it has hooks"
    except StorageFailed:
        return "its hooks can't be read"
    config = os.path.join(repository, "config")
    if not os.path.lexists(config):
        return ""
    settings = settings_in(config, environ)
    if settings is None:
        return "its settings can't be read"
    # Git takes the files, and further submodules, from the work tree. A submodule names its own folder.
    own = {tree, os.path.relpath(tree, repository)} if tree else set()
    special = (
        name for name, value in settings if not (value in own if name == _WORK_TREE else _is_plain(name))
    )
    name = next(special, "")
    return f"it sets {name}" if name else ""


def _is_plain(name: str) -> bool:
    section, _, rest = name.partition(".")
    return name in _PLAIN or rest.rpartition(".")[2] in _PLAIN_OF.get(section, ())


def aside(path: str) -> str:
    """The name under which git ignores it."""
    return files.free_name(f"{path}{DISABLED}")


def set_aside(path: str, target: str) -> None:
    """Rename it. Raises StorageFailed."""
    try:
        files.move(path, target)
    except StorageFailed:
        folder = os.path.dirname(path)
        with files.storage(path):
            if not os.path.islink(folder):
                os.chmod(folder, 0o700)  # An agent can have made it read-only.
        files.move(path, target)
