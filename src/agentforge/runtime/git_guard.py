"""What git obeys in a project: protected from confined agents where it exists, and afterwards looked for.

After a confined attempt, `git status`, `git diff` and `git commit` in the project execute nothing that the
agent wrote. Hooks and settings that exist are read-only in the sandbox. What can't be protected, because
it is missing, is renamed after the attempt, unless it starts nothing: a new repository inside the project, a
file that settings name. What was there before is recorded in the folder of the attempt, also for the engine
that reattaches to it.

What was protected is compared, too, since a mount can end early (`git_triggers`). Only what all running
confined agents had found counts as known: each of them could have made the rest, and take it away again
before anyone looks at it.
"""

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import reduce
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.model.changes import MAX_LEFT, LeftInGit, LeftKind
from agentforge.model.errors import ProviderUnusable, StorageFailed
from agentforge.model.facts import GitLeft
from agentforge.model.layout import OUTBOX, AttemptLayout, runs_dir
from agentforge.system import files
from agentforge.system.git_settings import NamedFiles, hook_programs, named_files
from agentforge.system.git_triggers import (
    added,
    file_triggers,
    hook_of,
    hook_triggers,
    remaining_settings,
    repository_triggers,
    settings_triggers,
    why_unsafe,
)
from agentforge.system.links import first_link, leads_elsewhere
from agentforge.system.mount_points import mount_points
from agentforge.system.nested_repositories import (
    MAX_ENTRIES,
    Repositories,
    aside,
    find_repositories,
    index_of,
    is_bare,
    is_inside,
    set_aside,
    submodules,
    work_tree,
)
from agentforge.system.repository import GIT, GitFiles, bare_files, git_files, redirections

# Theory of operation
#
# Git executes what lies in a repository: hooks, filters, pagers, what `core.fsmonitor` names. An agent
# that may write to the project could leave such a thing there, and the next `git status` of the user
# would run it outside of the sandbox. Git can't be kept from agents instead: they commit their work.
#
# Mounts protect what exists, and nothing can be mounted over what doesn't. So there are two halves:
# `protect` before an attempt, and `found` after it, which compares. What there was before is recorded
# before the program starts: an engine that looks only after a crash couldn't tell a repository of the
# agent from one of the user.
#
# Triggers are compared (`git_triggers`), not bytes. Settings change for many reasons, also by the user
# meanwhile, and renaming a `config` for each of them would break the repository.
#
# What is found is reported, then renamed. A crash in between repeats the report; the other order could
# leave renamed files that the user never hears of. Nothing is deleted, as it may be what the user asked
# for.
#
# Attempts overlap. What one agent creates would be "there before" for the next one, and would be trusted
# from then on. So what is known is cut down to what every running attempt had found (`_known_to`). They
# are looked up before and after the search: one that starts or ends meanwhile is seen at least once.

MAX_REPOSITORIES = 200
"""Inside a project: each has several files to protect."""
_MAX_RECORD = 64 * 1024 * 1024
_NAMED = "git's settings name it, and it didn't exist before"
_LINKED = "git's settings name a link, and something else is in its place"
_CHANGED = "git's settings name it, and it is another file than before"
_HOOK = "git runs it, and it is another hook than before"

T = TypeVar("T")
EntryId = tuple[int, int, int]
Keys = tuple[str, ...]
"""Of triggers."""


class KnownRepository(Struct, frozen=True):
    entry: EntryId
    triggers: Keys = ()


class GitBefore(Struct, frozen=True):
    """What git obeyed in the project when an attempt started."""

    repositories: dict[str, KnownRepository] = {}
    """By the path of their `.git`, or of the folder of a bare one."""
    others: tuple[str, ...] = ()
    """Repositories that other confined agents can have made, which are looked at like new ones."""
    settings: dict[str, Keys] = {}
    """Those of the project, and those that they include."""
    hooks: dict[str, Keys] = {}
    """By folder."""
    files: dict[str, Keys] = {}
    """Programs that settings name, and files that lead git to a folder."""
    submodules: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Paths that settings name, without a file."""
    links: dict[str, str] = {}
    """Links on the way to what settings name, and what they say: a sandbox can't protect them."""
    is_named: bool = False
    """Whether settings of the project name files in it: a worktree has them, too."""
    is_anywhere: bool = False
    """Whether the user's settings name programs in whatever repository git works in."""


class FoundInGit(Struct, frozen=True):
    """What git obeys since an attempt."""

    path: str
    kind: LeftKind
    reason: str = ""
    """Why it could start a program; empty: it can't."""
    rest: bytes | None = None
    """What stays in the place of a file that is renamed."""


class Found(Struct, frozen=True):
    """What the program of an attempt left; what could start programs comes first."""

    items: tuple[FoundInGit, ...] = ()
    is_complete: bool = True


class GitGuard:
    def __init__(self, project: str, environ: Mapping[str, str], max_entries: int = MAX_ENTRIES) -> None:
        self._project = project
        self._environ = environ
        self._max_entries = max_entries

    def protect(self, attempt: AttemptLayout, writable: Collection[str]) -> GitFiles:
        """The files to protect, apart from those of the project's own repository; records what there is.
        `writable`: paths that agents may change, absolute."""
        running = self._running()
        found = find_repositories(self._project, self._skipped(outbox=True), self._max_entries)
        if not found.is_complete:
            raise ProviderUnusable(
                f"{self._too_many()}, so that a sandbox can't protect the repositories among them",
                hint="move some of them elsewhere, or use `sandbox: none`",
            )
        known = {path: about for path, about in found.places.items() if path not in writable}
        if len(known) > MAX_REPOSITORIES:
            raise ProviderUnusable(
                f"a sandbox can't protect more than {MAX_REPOSITORIES} repositories inside a project",
                hint="move some of them elsewhere, or use `sandbox: none`",
            )
        roots = [os.path.dirname(path) for path in known if not is_bare(path)]
        for path in (path for root in roots for path in redirections(root)):
            set_aside(path, aside(path))
        own = named_files(self._top(), self._project, self._environ)
        if self._project in own.folders:
            raise ProviderUnusable(
                "a sandbox can't protect the hooks of git, because they are in the project's own folder",
                hint="move them into a folder of the project, and set core.hooksPath to it",
            )
        inner = (named_files(root, self._project, self._environ) for root in roots)
        guarded = [bare_files(path) if is_bare(path) else git_files(os.path.dirname(path)) for path in known]
        hooks = reduce(GitFiles.__add__, guarded, git_files(self._top())).folders
        named = reduce(NamedFiles.__add__, inner, own) + hook_programs(hooks, self._project)

        def is_kept(path: str) -> bool:
            return not is_below(path, writable)

        before = replace(
            self._state(named, writable),
            repositories={path: KnownRepository(about, self._keys(path)) for path, about in known.items()},
            submodules=self._known_submodules(),
            is_named=bool(own.all),
            is_anywhere=own.is_anywhere,
        )
        before = reduce(_known_to, {**running, **self._running()}.values(), before)
        # Names of files may contain bytes that aren't text, which only this encoder writes.
        files.place(attempt.git, json.dumps(msgspec.to_builtins(before)).encode())
        return reduce(GitFiles.__add__, guarded, only(named, is_kept))

    def _state(self, named: NamedFiles, writable: Collection[str]) -> GitBefore:
        """Of the project's own repository, and of what settings name."""

        def guarded(paths: Iterable[str]) -> Iterator[str]:
            return (path for path in paths if self._is_guarded(path, writable))

        settings, further, hooks = self._own_files()
        programs = [path for path in named.files if path not in named.settings]
        return GitBefore(
            settings={
                path: tuple(settings_triggers(path, self._environ))
                for path in guarded((*settings, *named.settings))
            },
            hooks={path: tuple(hook_triggers(path)) for path in guarded((*hooks, *named.folders))},
            files={path: tuple(file_triggers(path, _CHANGED)) for path in guarded((*further, *programs))},
            missing=tuple(guarded(named.missing)),
            links={path: named.links[path] for path in guarded(named.links)},
        )

    def _own_files(self) -> tuple[list[str], list[str], list[str]]:
        """The settings of the project's own repository, other files of it, and its folders of hooks, without
        those of submodules, which are looked at where they are checked out."""
        found, modules = git_files(self._project), os.path.join(self._project, GIT, "modules")
        own = [path for path in found.files if not is_below(path, [modules])]
        settings = [path for path in own if os.path.basename(path) in ("config", "config.worktree")]
        hooks = [path for path in found.folders if os.path.basename(path) == "hooks"]
        further = [path for path in own if path not in settings]
        return settings, further, [path for path in hooks if not is_below(path, [modules])]

    def _keys(self, place: str) -> Keys:
        return tuple(repository_triggers(place, self._project, self._environ))

    def _is_guarded(self, path: str, writable: Collection[str]) -> bool:
        return path.startswith(f"{self._project}/") and not is_below(path, writable)

    def _running(self) -> dict[str, GitBefore]:
        """What the other confined agents had found that are running: the folders of their attempts are
        mounted."""
        runs = os.path.realpath(runs_dir(self._project))
        folders = (point for point in mount_points() if point.startswith(f"{runs}/"))
        records = (path for path in (AttemptLayout(folder).git for folder in folders) if files.about(path))
        read = {path: read_before(path, self._project) for path in records}
        return {path: before for path, before in read.items() if before is not None}

    def found(self, attempt: AttemptLayout, writable: Collection[str]) -> Found:
        before = read_before(attempt.git, self._project)
        if before is None:
            return Found()  # It was never started.
        after = find_repositories(self._project, self._skipped(), self._max_entries)
        found = {one.path: one for one in self._found(before, after, writable) if one.path not in writable}
        return Found(tuple(sorted(found.values(), key=lambda one: not one.reason)), after.is_complete)

    def settle(self, found: Found, report: Callable[[GitLeft], None]) -> None:
        """Record it, then rename what could start programs. Repeated after a crash, it finds what is still
        there. Raises StorageFailed if something can't be renamed, or looked at: the run must not continue as
        if it was."""
        moves = {one.path: aside(one.path) for one in found.items if one.reason}
        rests = {one.path: one.rest for one in found.items}
        named = [
            LeftInGit(self._name(one.path), one.kind, one.reason, self._name(moves.get(one.path, "")))
            for one in found.items
        ]
        if named:
            report(GitLeft(tuple(named[:MAX_LEFT]), len(named[MAX_LEFT:])))
        for path, target in moves.items():
            set_aside(path, target, rests.get(path))
        if not found.is_complete:
            raise StorageFailed(
                f"{self._too_many()}: there can be repositories among them that an agent made, in which git "
                "would start its programs",
                hint="remove some of them before you use git in the project",
            )

    def _known_submodules(self) -> tuple[str, ...]:
        known = submodules(self._project, self._environ) if self._is_repository() else []
        if known is None and os.path.lexists(index_of(self._project)):
            raise ProviderUnusable(
                "a sandbox can't protect the project's submodules, because git can't list its index",
                hint="`git ls-files --stage` in the project shows why",
            )
        return tuple(known or ())

    def _too_many(self) -> str:
        return f"the project has more than {self._max_entries:,} files"

    def _found(
        self, before: GitBefore, after: Repositories, writable: Collection[str]
    ) -> Iterator[FoundInGit]:
        known = (*before.repositories, *before.others)
        roots = (os.path.dirname(path) for path in known if not is_bare(path))
        for path in (path for root in (self._project, *roots) for path in redirections(root)):
            yield FoundInGit(path, "settings", "it leads git to another folder")
        yield from (
            FoundInGit(self._outermost(path), "settings", _NAMED)
            for path in before.missing
            if os.path.lexists(path) and not files.is_dir(path)
        )
        yield from (
            FoundInGit(self._outermost(link), "settings", _LINKED)
            for link, said in before.links.items()
            if leads_elsewhere(link, said, self._project)
        )
        yield from self._changed(before, writable)
        kept: list[str] = []
        for place, about in after.places.items():
            reason = self._why_unsafe(place, about, before)
            if not reason:
                kept.append(place)
            if reason or not (_is_known(place, about, before) or place in before.others):
                # A bare repository is one no more without its HEAD.
                renamed = os.path.join(place, "HEAD") if is_bare(place) else place
                yield FoundInGit(renamed if reason else place, "repository", reason)
        yield from self._submodules(before, kept, {*after.places})

    def _changed(self, before: GitBefore, writable: Collection[str]) -> Iterator[FoundInGit]:
        """What is different although it was protected."""
        for path in dict.fromkeys((*before.settings, *self._own_files()[0])):
            new = added(settings_triggers(path, self._environ), before.settings.get(path, ()))
            if new and self._is_guarded(path, writable):
                outermost = self._outermost(path)
                rest = remaining_settings(path, self._environ, new) if outermost == path else None
                yield FoundInGit(outermost, "settings", f"{next(iter(new.values()))} since", rest)
        for folder, known in before.hooks.items():
            for key in added(hook_triggers(folder), known):
                yield FoundInGit(self._outermost(hook_of(folder, key)), "settings", _HOOK)
        for path, known in before.files.items():
            if added(file_triggers(path, _CHANGED), known):
                yield FoundInGit(self._outermost(path), "settings", _CHANGED)

    def _submodules(self, before: GitBefore, kept: list[str], seen: set[str]) -> Iterator[FoundInGit]:
        """The new submodules of the project; and repositories that git would enter as submodules, where the
        search for them doesn't look: behind a link, in `.git` or in a run's folder."""
        todo = [self._project] if self._is_repository() else []
        todo += [os.path.dirname(place) for place in kept if not is_bare(place)]
        for root in todo:
            names = submodules(root, self._environ)
            if reason := _why_renamed(names):
                index = index_of(root)
                if index.startswith(f"{self._project}/") and os.path.lexists(index):
                    yield FoundInGit(index, "settings", reason)
            top = work_tree(root, self._environ) if names else root
            for name in filter(is_inside, names or ()):
                path = os.path.join(top, name)
                place = os.path.join(path, GIT)
                if root == self._project and name not in before.submodules:
                    yield FoundInGit(path, "submodule")
                if place in seen or not path.startswith(f"{self._project}/") or not os.path.lexists(place):
                    continue
                seen.add(place)
                reason = self._why_unsafe(place, files.entry_identity(place), before)
                if os.path.islink(path):
                    yield FoundInGit(path, "repository", "it is a link in the place of a submodule")
                elif reason:
                    yield FoundInGit(self._outermost(place), "repository", reason)
                else:
                    todo.append(path)

    def _why_unsafe(self, place: str, about: EntryId | None, before: GitBefore) -> str:
        if _is_known(place, about, before):
            now = repository_triggers(place, self._project, self._environ)
            return next(iter(added(now, before.repositories[place].triggers).values()), "")
        if before.is_anywhere and not is_bare(place):
            return "your settings of git name a program or hooks relative to the repository"
        is_file = not is_bare(place) and files.is_file(place)
        if before.is_named and is_file:
            return "git's settings name files of the project, of which it has others"
        return why_unsafe(place, self._project, self._environ)

    def _skipped(self, *, outbox: bool = False) -> tuple[str, ...]:
        """Folders that agents see nothing of, or only what they wrote."""
        runs = runs_dir(self._project)
        return (runs, os.path.join(self._project, OUTBOX)) if outbox else (runs,)

    def _is_repository(self) -> bool:
        return os.path.lexists(os.path.join(self._project, GIT))

    def _top(self) -> str:
        """The top of the work tree that the project is in."""
        folder = self._project
        while not os.path.lexists(os.path.join(folder, GIT)):
            if folder == "/":
                return self._project
            folder = os.path.dirname(folder)
        return folder

    def _outermost(self, path: str) -> str:
        """What to rename: the first link on the way to the path, or the path."""
        return first_link(path, self._project) or path

    def _name(self, path: str) -> str:
        name = os.path.relpath(path, self._project) if path else ""
        return os.fsencode(name).decode("utf-8", "replace")


def _why_renamed(names: list[str] | None) -> str:
    """Why git can't keep an index with these submodules; None: git can't list it."""
    if names is None:
        return "git can't list the submodules in it"
    outside = next((name for name in names if not is_inside(name)), "")
    return f"it has a submodule in another place, {outside}" if outside else ""


def only(found: GitFiles | NamedFiles, is_kept: Callable[[str], bool]) -> GitFiles:
    return GitFiles(tuple(filter(is_kept, found.folders)), tuple(filter(is_kept, found.files)))


def _is_known(place: str, about: EntryId | None, before: GitBefore) -> bool:
    known = before.repositories.get(place)
    return known is not None and known.entry == about


def _known_to(before: GitBefore, other: GitBefore) -> GitBefore:
    """What another one had found, too."""
    repositories = {
        place: KnownRepository(one.entry, _both(one.triggers, other.repositories[place].triggers))
        for place, one in before.repositories.items()
        if _is_known(place, one.entry, other)
    }
    return replace(
        before,
        repositories=repositories,
        others=(*before.others, *(place for place in before.repositories if place not in repositories)),
        settings=_all_both(before.settings, other.settings),
        hooks=_all_both(before.hooks, other.hooks),
        files=_all_both(before.files, other.files),
        # No link leads to "".
        links={link: said if other.links.get(link) == said else "" for link, said in before.links.items()},
    )


def _all_both(some: Mapping[str, Keys], others: Mapping[str, Keys]) -> dict[str, Keys]:
    return {path: _both(keys, others.get(path, ())) for path, keys in some.items()}


def _both(some: Keys, others: Collection[str]) -> Keys:
    return tuple(key for key in some if key in others)


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether the path is one of the folders or inside one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def read_before(path: str, project: str) -> GitBefore | None:
    """The record of an attempt, or None. The folder of a run may have come from elsewhere: what
    is outside of the project doesn't count."""
    content = files.read_usable(path, _MAX_RECORD)
    try:
        before = None if content is None else msgspec.convert(json.loads(content), GitBefore)
    except (ValueError, RecursionError):
        return GitBefore()
    if before is None:
        return None

    def is_ours(place: str) -> bool:
        return place.startswith(f"{project}/") and place == os.path.normpath(place) and "\0" not in place

    def ours(found: Mapping[str, T]) -> dict[str, T]:
        return {place: about for place, about in found.items() if is_ours(place)}

    return replace(
        before,
        repositories=ours(before.repositories),
        others=tuple(filter(is_ours, before.others)),
        settings=ours(before.settings),
        hooks=ours(before.hooks),
        files=ours(before.files),
        missing=tuple(filter(is_ours, before.missing)),
        links=ours(before.links),
    )
