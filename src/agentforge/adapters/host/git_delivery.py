"""Delivers what a run changed to the user's git repository.

A commit is made of what the branch has, with the paths of the change in place of it: the user's index and
files have no part in it. Its objects are written as those of trees are. Then the reference is moved, with the
expected old value, and the index gets the same paths. The files are the change already, so none is written.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from time import sleep

from agentforge.adapters.host.git_objects import UNREADABLE, GitObjects, TreeEntry
from agentforge.adapters.host.git_preparation import Preparation
from agentforge.adapters.host.git_remote import GitRemote, remote_of
from agentforge.adapters.host.git_repository import HEAD, GitRepository, WorkTree, objects_in
from agentforge.adapters.host.tree_scan import TooMuch, TreeFailed
from agentforge.model.delivery import MAX_LISTED, NEEDS_GIT, DeliveryBase, PreparedDelivery
from agentforge.model.errors import StorageFailed
from agentforge.ports.host import NoTree, TakenTree, TreeFile, Trees
from agentforge.ports.repository import Change, Done, NotDelivered, Outcome
from agentforge.system.confined import ConfinedFolder

MAX_PATHS = 20_000
"""Of a change."""
SECONDS = 60.0
_INDEX_TRIES, _INDEX_DELAY = 20, 0.1
_REMOVED = "0"
"""The mode of what `update-index` removes."""

MakePatch = Callable[[str, str], bytes]
"""The patch from one tree to another; empty if there can be none."""


class GitDelivery:
    def __init__(
        self, project: str, folder: str, trees: Trees, environ: Mapping[str, str], make_patch: MakePatch
    ) -> None:
        """`folder`: that of the run's trees."""
        self._project = project
        self._folder = folder
        self._trees = trees
        self._make_patch = make_patch
        self._repository = GitRepository(project, environ, SECONDS)
        self._remote = GitRemote(project, self._repository, environ)

    def look(self) -> DeliveryBase:
        taken = self._trees.take() if self._trees.is_possible() else NoTree("the project is not a folder")
        if isinstance(taken, NoTree):
            return DeliveryBase(problem=f"the files at the start can't be recorded: {taken.reason}")
        base = DeliveryBase(taken.id, omitted=self._stamps(taken))
        try:
            here = self._repository.here()
        except (TreeFailed, TooMuch):  # Without git, only files are delivered.
            return base
        remote, address = remote_of(self._repository, here.ref)
        return DeliveryBase(base.tree, here.head, here.ref, remote, address, base.omitted)

    def _stamps(self, taken: TakenTree) -> dict[str, str]:
        """What tells the files that a tree doesn't have as they are from later ones."""
        found: dict[str, str] = {}
        with ConfinedFolder(self._project) as folder:
            for path in taken.inexact[:MAX_PATHS]:
                about = folder.stat(path)
                found[path] = f"{about.st_size} {about.st_mtime_ns}" if about else ""
        return found

    # -- preparing

    def prepare(self, change: Change) -> PreparedDelivery | NotDelivered:
        try:
            return self._prepared(change)
        except _FAILURES as error:
            return _not_delivered(error)

    def _prepared(self, change: Change) -> PreparedDelivery | NotDelivered:
        taken = self._trees.take()
        if isinstance(taken, NoTree):
            return NotDelivered(f"the files can't be compared with those at the start: {taken.reason}")
        tree = change.tree or taken.id
        paths = self._trees.changed(change.base.tree, tree, MAX_PATHS + 1)
        if isinstance(paths, NoTree):
            return NotDelivered(paths.reason)
        if len(paths) > MAX_PATHS:
            return NotDelivered(f"the run changed more than {MAX_PATHS:,} paths")
        if change.rule.mode not in NEEDS_GIT:
            return PreparedDelivery(tree, paths[:MAX_LISTED], len(paths))
        known, stamps = change.base.omitted, self._stamps(taken)
        inexact = frozenset(path for path, stamp in stamps.items() if known.get(path) != stamp)
        preparation = Preparation(
            self._repository,
            self._folder,
            self._trees,
            change,
            tree=tree,
            now=taken.id,
            paths=paths,
            inexact=inexact,
        )
        return preparation.result()

    # -- a commit

    def is_committed(self, prepared: PreparedDelivery) -> bool:
        now = self._repository.commit_at(prepared.ref)
        if not prepared.commit or not now:
            return False
        known = now == prepared.commit
        return known or self._repository.ask("merge-base", "--is-ancestor", prepared.commit, now).code == 0

    def commit(self, prepared: PreparedDelivery, accepted: Sequence[str]) -> Outcome:
        try:
            return self._committed(prepared, accepted)
        except _FAILURES as error:
            return _not_delivered(error)

    def _committed(self, prepared: PreparedDelivery, accepted: Sequence[str]) -> Outcome:
        here, found = self._repository.here(), self.is_committed(prepared)
        is_checked_out = here.ref == prepared.ref
        if prepared.commit and not found:
            if not (is_checked_out or prepared.base_branch):
                return NotDelivered("another branch is checked out", outdated=True)
            if problem := self._moved(prepared):
                return problem
        if is_checked_out:  # Else the index is about another branch.
            accepts = any(id.startswith("edited ") for id in accepted)
            self._update_index(here, prepared, accepts=accepts)
        return Done(found=found)

    def _moved(self, prepared: PreparedDelivery) -> NotDelivered | None:
        """Let the reference name the commit; None if it does."""
        before = "" if prepared.base_branch else prepared.head
        old = before or "0" * len(prepared.commit)
        whole = ("--no-deref",) if prepared.ref == HEAD else ()
        words = ("-m", f"agentforge: {prepared.title}", *whole, prepared.ref, prepared.commit, old)
        ended = self._repository.ask("update-ref", *words)
        if ended.code == 0:
            return None
        is_outdated = self._repository.commit_at(prepared.ref) != before
        return NotDelivered(f"git update-ref: {ended.last_error or ended.problem}", is_outdated)

    def _update_index(self, here: WorkTree, prepared: PreparedDelivery, *, accepts: bool) -> None:
        """Its entries become those of the commit, where they were those of the branch. `accepts`: also where
        they were the user's own."""
        if os.path.islink(f"{here.folder}/index"):
            raise TreeFailed("the index of the repository is a link, which git would write through")
        before, index = self._repository.tree_of(prepared.head), self._repository.index()
        after = dict(objects_in(self._folder, here).tree(prepared.staged))
        removed = TreeEntry(_REMOVED, "0" * len(prepared.staged))
        lines = b""
        for path in sorted(before.keys() | after.keys()):
            was, now, own = before.get(path), after.get(path), index.get(path)
            if now in (was, own) or not (own == was or accepts):
                continue
            entry = now or removed
            lines += f"{entry.mode} {entry.id} 0\t".encode() + os.fsencode(path) + b"\0"
        for left in reversed(range(_INDEX_TRIES if lines else 0)):
            ended = self._repository.ask("update-index", "-z", "--index-info", stdin=lines)
            if ended.code == 0:
                return
            if not left or "index.lock" not in ended.errors:
                raise TreeFailed(f"git update-index: {ended.last_error or ended.problem}")
            sleep(_INDEX_DELAY)  # Another program is writing it.

    # -- a pull request

    def is_pushed(self, prepared: PreparedDelivery, mark: Mapping[str, str]) -> bool:
        try:
            return self._remote.pushed(prepared, mark) == prepared.commit
        except _FAILURES:
            return False

    def push(self, prepared: PreparedDelivery, mark: Mapping[str, str]) -> Outcome:
        try:
            return self._remote.push(prepared, mark)
        except _FAILURES as error:
            return _not_delivered(error)

    def has_request(self, prepared: PreparedDelivery, mark: Mapping[str, str]) -> bool:
        try:
            found = self._remote.pull_request(prepared, mark)
        except _FAILURES:
            return False
        return isinstance(found, str) and bool(found)

    def open_request(self, prepared: PreparedDelivery, body: str, mark: Mapping[str, str]) -> Outcome:
        try:
            return self._remote.open(prepared, body, mark)
        except _FAILURES as error:
            return _not_delivered(error)

    # -- a patch

    def patch(self, prepared: PreparedDelivery) -> Outcome:
        try:
            return self._patched(prepared)
        except _FAILURES as error:
            return _not_delivered(error)

    def _patched(self, prepared: PreparedDelivery) -> Outcome:
        objects, head = (
            objects_in(self._folder, self._repository.here()),
            self._repository.tree_of(prepared.head),
        )
        before = objects.add_tree(head)
        for path in objects.changed(before, prepared.staged):
            self._keep(objects, head.get(path))
        content = self._make_patch(before, prepared.staged)
        if not content:
            return NotDelivered("git couldn't make the patch, or it is too large")
        with ConfinedFolder(self._project) as folder:
            there = folder.stat(prepared.file)
            if there is not None and folder.read(prepared.file, len(content) + 1)[0] == content:
                return Done(found=True)
            folder.write(prepared.file, content, owner="deliver")
        return Done()

    def _keep(self, objects: GitObjects, entry: TreeEntry | None) -> None:
        """Git makes a patch from the objects of the run alone."""
        if entry is not None and not objects.has(entry.id):
            content = self._trees.content(TreeFile(entry.mode, entry.id))
            if isinstance(content, bytes):
                objects.add("blob", content)


_FAILURES = (TreeFailed, TooMuch, OSError, *UNREADABLE)


def _not_delivered(error: Exception) -> NotDelivered:
    return NotDelivered(error.message if isinstance(error, StorageFailed) else str(error))
