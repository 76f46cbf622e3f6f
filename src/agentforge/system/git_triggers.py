"""What could make git start a program: settings, hooks, links to other places. Each such trigger can be
compared with those of another time.

A sandbox mounts files and folders read-only. But a mount isn't a promise: it ends in all sandboxes when a
process outside of it replaces or removes what is mounted, and a file that has a second name can be written by
that name. So what git obeys is compared before and after an attempt.
"""

import os
import re
from collections.abc import Collection, Mapping
from hashlib import sha256

from agentforge.model.errors import StorageFailed
from agentforge.system import files
from agentforge.system.git_settings import settings_in, settings_text
from agentforge.system.nested_repositories import is_bare
from agentforge.system.repository import GIT, common_folder, is_direct, linked_folder

Triggers = dict[str, str]
"""What is there, and what to say of it. Facts of which nothing is said start no program."""

MAX_CONTENT = 64 * 1024 * 1024
_SAME, _HOOK, _SETTING = "same ", "hook ", "setting "
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
_USERS = re.compile(
    r"(?:advice|color|column|fetch|index|log|pull|push|rebase|rerere|status)\..*"
    r"|extensions\.(?:worktreeconfig|partialclone)|remote\..*\.(?:promisor|partialclonefilter|prune|prunetags)"
    r"|core\.(?:sparsecheckout|sparsecheckoutcone|untrackedcache|eol|safecrlf|quotepath|abbrev|preloadindex)"
    r"|branch\..*\.(?:description|pushremote)|submodule\.(?:recurse|fetchjobs)|user\.signingkey"
    r"|(?:commit|tag)\.gpgsign|commit\.verbose|merge\.(?:conflictstyle|ff)|diff\.(?:algorithm|renames|colormoved)"
)
"""Others that start no program, and that people set in repositories of their own."""


def why_unsafe(place: str, project: str, environ: Mapping[str, str]) -> str:
    """Why git could start a program in this repository that its author chose, or "": it has only plain
    settings and no hook. The repository isn't the project's own."""
    return next(filter(None, repository_triggers(place, project, environ).values()), "")


def added(now: Triggers, before: Collection[str]) -> Triggers:
    """Those that start a program and weren't there before."""
    is_same = any(key.startswith(_SAME) and key in before for key in now)
    return {
        key: said
        for key, said in now.items()
        if said and key not in before and not (is_same and key.startswith(_HOOK)) and not _is_users(key)
    }


def repository_triggers(place: str, project: str, environ: Mapping[str, str]) -> Triggers:
    """Of the repository whose `.git` this is, or a bare one."""
    if os.path.islink(place):
        return {f"link {_content(place)}": "it is a link"}
    tree = "" if is_bare(place) else os.path.dirname(place)
    if not tree or files.is_dir(place):
        return _of_repository(place, tree, project, environ)
    target = linked_folder(tree)
    found: Triggers = {} if is_direct(tree) else {f"detour {_content(place)}": "it leads git on a detour"}
    if not target.startswith(f"{project}/"):
        return {**found, f"elsewhere {target}": "it leads git to a folder outside of the project"}
    own = os.path.join(project, GIT)
    if os.path.dirname(target) == os.path.join(own, "worktrees") and common_folder(target) == own:
        # Its settings are those of the project, and its hooks, too.
        settings = settings_triggers(os.path.join(target, "config.worktree"), environ, any_setting=True)
        return found | dict.fromkeys(filter(settings.get, settings), "it has settings of its own")
    return found | _of_repository(target, tree, project, environ)


def _of_repository(repository: str, tree: str, project: str, environ: Mapping[str, str]) -> Triggers:
    """`tree`: the folder with its `.git`; empty: it is a bare one."""
    found: Triggers = {}
    real = os.path.realpath(repository)
    if real != os.path.join(os.path.realpath(project), repository[len(project) + 1 :]):
        found[f"link to {real}"] = "a link leads to it"
    redirected = os.path.join(repository, "commondir")
    if os.path.lexists(redirected):
        found[f"common {_content(redirected)}"] = "it takes its settings from another folder"
    found |= hook_triggers(os.path.join(repository, "hooks"))
    # Git takes the files, and further submodules, from the work tree. A submodule names its own folder.
    own = {tree, os.path.relpath(tree, repository)} if tree else set()
    for name in ("config", "config.worktree"):
        found |= settings_triggers(os.path.join(repository, name), environ, own)
    return found


def hook_triggers(folder: str) -> Triggers:
    """Of a folder of hooks. As long as it is the same folder, and none of its files has another name, it is
    mounted where it was, and what is new in it comes from outside of the sandboxes."""
    if not os.path.lexists(folder):
        return {}
    try:
        names = sorted(name for name in files.listing(folder) if not name.endswith(".sample"))
    except StorageFailed:
        return {f"{_HOOK}\0{_random()}": "its hooks can't be read"}
    paths = [os.path.join(folder, name) for name in names]
    found = {
        f"{_HOOK}{name}\0{_content(path)}": "it has hooks" for name, path in zip(names, paths, strict=True)
    }
    if not any(map(_has_other_names, paths)):
        found[f"{_SAME}{files.entry_identity(folder)}"] = ""
    return found


def hook_of(folder: str, key: str) -> str:
    """The file, or the folder if its files can't be listed."""
    name = key.removeprefix(_HOOK).partition("\0")[0]
    return os.path.join(folder, name) if name else folder


def file_triggers(path: str, said: str) -> Triggers:
    """Of a program, or of another file that git reads, by its content."""
    if not os.path.lexists(path):
        return {}
    found = {f"{_HOOK}{_content(path)}": said}
    if not _has_other_names(path):
        found[f"{_SAME}{files.entry_identity(path)}"] = ""
    return found


def settings_triggers(
    path: str, environ: Mapping[str, str], own: Collection[str] = (), *, any_setting: bool = False
) -> Triggers:
    """Of a file of settings. `own`: how they name the repository's own work tree."""
    if not os.path.lexists(path):
        return {}
    settings = settings_in(path, environ)
    if settings is None:
        return {f"unreadable {_content(path)}": "its settings can't be read"}
    return {
        _key(name, value): f"it sets {name}"
        for name, value in settings
        if not (value in own if name == _WORK_TREE else _is_plain(name) and not any_setting)
    }


def remaining_settings(path: str, environ: Mapping[str, str], dropped: Collection[str]) -> bytes | None:
    """The file without the settings of these triggers; None if it can't be read."""
    settings = settings_in(path, environ)
    if settings is None:
        return None
    return settings_text((name, value) for name, value in settings if _key(name, value) not in dropped)


def _key(name: str, value: str | None) -> str:
    return f"{_SETTING}{name}" if value is None else f"{_SETTING}{name}={value}"


def _is_plain(name: str) -> bool:
    section, _, rest = name.partition(".")
    return name in _PLAIN or rest.rpartition(".")[2] in _PLAIN_OF.get(section, ())


def _is_users(key: str) -> bool:
    name = key.removeprefix(_SETTING).partition("=")[0]
    return key.startswith(_SETTING) and _USERS.fullmatch(name) is not None


def _has_other_names(path: str) -> bool:
    about = files.about(path)
    return about is not None and about.st_nlink > 1


def _content(path: str) -> str:
    try:
        if os.path.islink(path):
            return f"-> {os.readlink(path)}"
        content = files.read_usable(path, MAX_CONTENT)
    except (OSError, StorageFailed):
        content = None
    return _random() if content is None else sha256(content).hexdigest()


def _random() -> str:
    """What can't be compared is never the same."""
    return os.urandom(16).hex()
