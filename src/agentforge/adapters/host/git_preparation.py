"""Prepares a delivery: what is delivered at which path, what stands in the way, and the commit."""

# Invariant: no byte of the user is lost. A path is delivered only if the project has the content of the run's
# tree there, and if the branch has what it had when the run started. Whatever differs is a problem that names
# its paths, and a person decides.

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from msgspec.structs import replace

from agentforge.adapters.host.git_objects import FILE, LINK, SUBMODULE, TreeEntry
from agentforge.adapters.host.git_references import GitReferences
from agentforge.adapters.host.git_remote import remote_of, shown_address
from agentforge.adapters.host.git_repository import BRANCHES, HEAD, GitRepository, objects_in
from agentforge.adapters.host.git_text import Conversion
from agentforge.adapters.host.tree_scan import TreeFailed
from agentforge.model.delivery import MAX_LISTED, DeliveryProblem, PreparedDelivery, ProblemKind
from agentforge.ports.host import NoTree, TreeFile, Trees
from agentforge.ports.repository import Change

PATCHES = ".agentforge/patches"
MAX_NAMED = 5
"""Paths in the text of a problem."""
_TEXTS: dict[ProblemKind, str] = {
    "content": "the engine doesn't have these files as git would store them: large ones, those with secrets"
    " or filters, submodules",
    "changed": "these files are not as the run left them, or other commits have changed them",
    "edited": "these files had uncommitted changes of your own",
}


class Preparation:
    def __init__(
        self,
        repository: GitRepository,
        folder: str,
        trees: Trees,
        change: Change,
        *,
        tree: str,
        now: str,
        paths: Sequence[str],
        inexact: frozenset[str],
    ) -> None:
        """`tree`: the files that the run left, which differ from those at the start at the `paths`; `now`:
        those of the project. `inexact`: what the run may have written, and the tree doesn't have as it is."""
        self._repository = repository
        self._trees = trees
        self._change = change
        self._here = repository.here()
        self._objects = objects_in(folder, self._here)
        self._tree, self._now, self._paths = tree, now, paths
        self._found: dict[ProblemKind, list[str]] = {"content": sorted(inexact)} if inexact else {}
        self._keeps_modes = repository.setting("--type=bool", "core.fileMode") != "false"
        self._delivered: dict[str, TreeEntry | None] = {}
        """By the paths of the repository; None: removed."""

    def result(self) -> PreparedDelivery:
        rule, here = self._change.rule, self._here
        head = self._repository.tree_of(here.head)
        self._compare(head, self._found.get("content", []))
        problems = tuple(self._problems())
        names = sorted(path.removeprefix(here.prefix) for path in self._delivered)
        message = self._change.message(names, self._tree)
        prepared = PreparedDelivery(
            self._tree,
            tuple(names[:MAX_LISTED]),
            len(names),
            here.head,
            here.ref,
            title=message.partition("\n")[0],
            file=f"{PATCHES}/{self._change.name}.patch" if rule.mode == "patch" else "",
            problems=problems,
        )
        if rule.mode == "pr":
            prepared = self._for_request(prepared)
        is_blocked = any(one.kind not in ("moved", "edited") for one in problems)
        return prepared if is_blocked or not names else self._written(prepared, head, message)

    def _for_request(self, prepared: PreparedDelivery) -> PreparedDelivery:
        base, here = self._change.base, self._here
        return replace(
            prepared,
            ref=self._branch,
            base_branch=here.ref.removeprefix(BRANCHES),
            remote=base.remote,
            address=base.address,
        )

    @property
    def _branch(self) -> str:
        return f"{BRANCHES}{self._change.rule.branch_prefix}{self._change.name.lower()}"

    # -- what is delivered

    def _compare(self, head: Mapping[str, TreeEntry], without: Sequence[str]) -> None:
        base, here, index = self._change.base, self._here, self._repository.index()
        first = head if base.head == here.head else self._repository.tree_of(base.head)
        before, after, now = (self._at(tree) for tree in (base.tree, self._tree, self._now))
        for path, how in self._repository.conversions(self._paths).items():
            full = here.prefix + path
            was, left = first.get(full), head.get(full)
            if path in without:
                continue
            is_module = SUBMODULE in (one.mode for one in (before.get(path), after.get(path)) if one)
            if how.foreign or is_module:
                self._note("content", path)
                continue
            new = self._stored(after.get(path), how, left)
            if new == left:
                continue  # The branch has it already.
            self._delivered[full] = new
            if now.get(path) != after.get(path) or left != was:
                self._note("changed", path)
            elif self._stored(before.get(path), how, was) != was or index.get(full) not in (was, new):
                self._note("edited", path)

    def _note(self, kind: ProblemKind, path: str) -> None:
        self._found.setdefault(kind, []).append(path)

    def _at(self, tree: str) -> dict[str, TreeFile]:
        found = self._trees.files(tree, self._paths)
        if isinstance(found, NoTree):
            raise TreeFailed(found.reason)
        return found

    def _stored(self, file: TreeFile | None, how: Conversion, left: TreeEntry | None) -> TreeEntry | None:
        """What git stores of a file; `left`: what the branch has there."""
        if file is None:
            return None
        mode = file.mode
        if not self._keeps_modes and mode != LINK:
            mode = left.mode if left and left.mode != LINK else FILE
        if not how.text or mode == LINK or (left is not None and left.id == file.id):
            return TreeEntry(mode, file.id)
        content = self._content(file)
        is_asked = how.auto and left is not None and b"\r\n" in content
        known = self._content(TreeFile(left.mode, left.id)) if is_asked and left else None
        converted = how.stored(content, known)
        return TreeEntry(mode, file.id if converted == content else self._objects.add("blob", converted))

    def _content(self, file: TreeFile) -> bytes:
        content = self._trees.content(file)
        if isinstance(content, NoTree):
            raise TreeFailed(content.reason)
        return content

    # -- what stands in the way

    def _problems(self) -> Iterator[DeliveryProblem]:
        here, base = self._here, self._change.base
        for kind in ("content", "changed"):
            yield from self._about_paths(kind)
        if self._delivered and (under_way := here.under_way):
            yield DeliveryProblem("busy", f"busy {under_way}", f"{under_way} is in progress")
        if self._delivered and self._change.rule.mode == "pr":
            yield from self._about_branch()
        if self._delivered and (here.head, here.ref) != (base.head, base.ref):
            now, then = _place(here.ref, here.head), _place(base.ref, base.head)
            text = f"the repository is at {now}, and was at {then} when the run started"
            yield DeliveryProblem("moved", f"moved {here.ref} {here.head}", text)
        yield from self._about_paths("edited")

    def _about_paths(self, kind: ProblemKind) -> Iterator[DeliveryProblem]:
        if paths := sorted(self._found.get(kind, ())):
            digest = sha256("\0".join(paths).encode("utf-8", "surrogateescape")).hexdigest()[:16]
            more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
            text = f"{_TEXTS[kind]}: {', '.join(paths[:MAX_NAMED])}{more}"
            yield DeliveryProblem(kind, f"{kind} {digest}", text, tuple(paths[:MAX_LISTED]))

    def _about_branch(self) -> Iterator[DeliveryProblem]:
        base, here = self._change.base, self._here
        name = self._branch.removeprefix(BRANCHES)
        if here.ref == HEAD:
            text = "HEAD is detached, and a pull request is for a branch: check one out"
            yield DeliveryProblem("branch", "branch", text)
        elif self._repository.commit_at(self._branch):
            yield DeliveryProblem(
                "branch", "branch", f"the branch {name} exists already: rename or delete it"
            )
        elif base.address and remote_of(self._repository, here.ref)[1] != base.address:
            was = shown_address(base.address)
            text = f"the remote {base.remote} has another address than at the start, {was}: restore it"
            yield DeliveryProblem("branch", "branch", text)

    # -- writing it

    def _written(
        self, prepared: PreparedDelivery, head: Mapping[str, TreeEntry], message: str
    ) -> PreparedDelivery:
        rule, objects = self._change.rule, self._objects
        whole = {path: entry for path, entry in head.items() if path not in self._delivered}
        whole |= {path: entry for path, entry in self._delivered.items() if entry is not None}
        _refuse_obstacles(whole)
        before = objects.add_tree(head)
        tree = objects.add_tree(whole)
        for entry in filter(None, self._delivered.values()):
            if not objects.has(entry.id):
                objects.add("blob", self._content(TreeFile(entry.mode, entry.id)))
        references = GitReferences(self._repository.git)
        references.bring(objects, objects.ids(tree, before))
        prepared = replace(prepared, staged=tree)
        if rule.mode == "patch" or not (rule.auto_commit or rule.mode == "pr"):
            return prepared
        commit = objects.add("commit", self._commit(tree, prepared.head, message))
        references.bring(objects, [commit])
        return replace(prepared, commit=commit)

    def _commit(self, tree: str, parent: str, message: str) -> bytes:
        date = f"{int(self._change.date.timestamp())} +0000"
        author, committer = (f"{self._repository.identity(who)} {date}" for who in ("AUTHOR", "COMMITTER"))
        lines = [f"tree {tree}", *([f"parent {parent}"] if parent else [])]
        lines += [f"author {author}", f"committer {committer}", "", message]
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _refuse_obstacles(whole: Mapping[str, TreeEntry]) -> None:
    """A file and a folder of one name can't be in one tree."""
    folders = {path[:at] for path in whole for at, char in enumerate(path) if char == "/"}
    if both := sorted(folders & whole.keys()):
        raise TreeFailed(
            f"{both[0]} is a folder in the branch, and a file in the change, or the other way round"
        )


def _place(ref: str, head: str) -> str:
    where = "a detached HEAD" if ref == HEAD else f"branch {ref.removeprefix(BRANCHES)}"
    return f"{where} ({head[:12]})" if head else f"{where} (no commit yet)"
