"""Deliveries to real git repositories: what is committed, what stays as it was, and what is asked."""

import os
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.adapters.repository import Repository, content
from tests.security.trapped_repository import ENVIRON

from agentforge.adapters.host.git_delivery import GitDelivery
from agentforge.adapters.host.tree_scan import TreeLimits
from agentforge.app.runs.comparison import TreeComparison
from agentforge.model.delivery import DeliverRule, DeliveryBase, PreparedDelivery
from agentforge.model.secrets import Redactor
from agentforge.ports.repository import Change, Done, NotDelivered

DATE = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


def message(paths: Sequence[str], tree: str) -> str:
    return f"feat: {len(paths)} paths\n\nAgentForge-Run: r\nAgentForge-Tree: {tree}"


class Delivery:
    """A run that changes a repository."""

    def __init__(self, repository: Repository, below: str = "", **how: object) -> None:
        self.repository = repository
        self.project = str(repository.root / below) if below else str(repository.root)
        self.rule = DeliverRule(**how)  # type: ignore[arg-type]
        self.limits: TreeLimits | None = None
        self.redactor = Redactor(())
        self.base = self.engine().look()

    def engine(self) -> GitDelivery:
        """As a new engine has it."""
        store = str(self.repository.store)
        trees = self.repository.trees(self.redactor, self.limits)
        trees._project = self.project
        trees._git._project = self.project

        def patch(before: str, after: str) -> bytes:
            return TreeComparison(self.project, [store], ENVIRON).patch(before, after, binary=True)

        return GitDelivery(self.project, store, trees, ENVIRON, patch)

    def tree(self) -> str:
        return self.engine().look().tree

    def prepared(self, tree: str | None = None) -> PreparedDelivery:
        change = Change(self.rule, self.base, tree, message, DATE, "SPEC-1")
        found = self.engine().prepare(change)
        assert isinstance(found, PreparedDelivery), found
        return found

    def problems(self, tree: str | None = None) -> dict[str, tuple[str, ...]]:
        return {one.kind: one.paths for one in self.prepared(tree).problems}

    def delivered(self, *accepted: str) -> PreparedDelivery:
        prepared = self.prepared()
        assert not [one for one in prepared.problems if one.kind not in accepted]
        outcome = self.engine().commit(prepared, [one.id for one in prepared.problems])
        assert outcome == Done(), outcome
        return prepared


def changed(repository: Repository, commit: str = "HEAD") -> list[str]:
    words = ("diff-tree", "--root", "-r", "-z", "--no-commit-id", "--name-only", commit)
    return [path for path in repository.git(*words).split("\0") if path]


def files_of(repository: Repository) -> dict[str, bytes]:
    return {path: data for path, data in content(repository.root).items() if "/.git/" not in path}


def status(repository: Repository) -> str:
    return repository.git("status", "--porcelain")


def test_a_commit_has_the_change_and_nothing_else(repository: Repository) -> None:
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    repository.put("new/b.py", "b")
    (repository.root / "src/deep/b.py").unlink()
    prepared = delivery.delivered()
    assert changed(repository) == ["new/b.py", "src/a.py", "src/deep/b.py"]
    assert status(repository) == ""
    assert repository.git("rev-parse", "HEAD") == prepared.commit
    assert repository.git("rev-parse", "HEAD~") == delivery.base.head
    assert (
        repository.git("log", "-1", "--format=%an <%ae> %at %s") == "a <a@localhost> 1768478400 feat: 3 paths"
    )
    trailers = repository.git("log", "-1", "--format=%(trailers)").split("\n")
    assert trailers == ["AgentForge-Run: r", f"AgentForge-Tree: {prepared.tree}"]
    assert repository.git("symbolic-ref", "HEAD") == "refs/heads/" + repository.git(
        "branch", "--show-current"
    )
    repository.git("fsck", "--strict")


def test_a_repeat_gives_the_same_commit(repository: Repository) -> None:
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    first, second = delivery.prepared(), delivery.prepared()
    assert first == second
    assert delivery.engine().commit(first, ()) == Done()
    assert delivery.engine().commit(first, ()) == Done(found=True)
    assert delivery.engine().is_committed(first)
    assert repository.git("rev-list", "--count", "HEAD") == "2"


def test_the_index_is_completed_after_a_crash_between_the_reference_and_it(repository: Repository) -> None:
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    prepared = delivery.prepared()
    repository.git("update-ref", prepared.ref, prepared.commit, prepared.head)
    assert status(repository) != ""
    assert delivery.engine().commit(prepared, ()) == Done(found=True)
    assert status(repository) == ""


def test_the_users_other_changes_stay_byte_for_byte(repository: Repository) -> None:
    repository.put("README.md", "staged by the user")
    repository.git("add", "README.md")
    repository.put("README.md", "changed again")
    repository.put("mine.txt", "untracked")
    repository.git("add", "-N", "mine.txt")
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    before = files_of(repository)
    delivery.delivered()
    assert files_of(repository) == before
    assert changed(repository) == ["src/a.py"]
    assert repository.git("show", ":README.md") == "staged by the user"
    assert status(repository).split("\n") == ["MM README.md", " A mine.txt"]


def test_a_file_that_the_user_had_changed_is_delivered_only_if_accepted(repository: Repository) -> None:
    repository.put("src/a.py", "the user's")
    repository.put("README.md", "staged")
    repository.git("add", "README.md")
    repository.git("checkout", "HEAD", "--", ".gitignore")
    delivery = Delivery(repository)
    repository.put("src/a.py", "the user's and the run's")
    assert delivery.problems() == {"edited": ("src/a.py",)}
    delivery.delivered("edited")
    assert repository.git("show", "HEAD:src/a.py") == "the user's and the run's"
    assert changed(repository) == ["src/a.py"]


def test_what_is_staged_at_a_path_is_the_users(repository: Repository) -> None:
    repository.put("src/a.py", "staged by the user")
    repository.git("add", "src/a.py")
    repository.put("src/a.py", "a = 1")  # As in the branch.
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    assert delivery.problems() == {"edited": ("src/a.py",)}


def test_a_new_file_of_the_user_that_the_run_changed_is_asked_about(repository: Repository) -> None:
    repository.put("mine.txt", "untracked")
    delivery = Delivery(repository)
    repository.put("mine.txt", "changed")
    assert delivery.problems() == {"edited": ("mine.txt",)}


def test_a_file_that_changed_since_is_not_delivered(repository: Repository) -> None:
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    repository.put("README.md", "changed")
    tree = delivery.tree()
    repository.put("src/a.py", "a = 3")
    repository.put("other.txt", "not the run's")
    assert delivery.problems(tree) == {"changed": ("src/a.py",)}
    assert delivery.prepared(tree).commit == ""
    repository.put("src/a.py", "a = 2")
    assert delivery.prepared(tree).paths == ("README.md", "src/a.py")


def test_a_branch_that_moved_is_named_and_its_own_changes_are_kept(repository: Repository) -> None:
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    repository.put("README.md", "theirs")
    repository.git("commit", "-qm", "other", "README.md")
    tree = repository.git("rev-parse", "HEAD")
    # The run's tree has the file of the other commit, too.
    assert set(delivery.problems()) == {"moved"}
    delivery.delivered("moved")
    assert repository.git("rev-parse", "HEAD~") == tree
    assert changed(repository) == ["src/a.py"]


def test_a_path_of_another_commit_is_not_overwritten(repository: Repository) -> None:
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 3")
    repository.git("commit", "-qam", "other")
    repository.put("src/a.py", "a = 2")
    assert delivery.problems() == {"changed": ("src/a.py",), "moved": ()}


def test_what_an_agent_committed_itself_is_not_committed_again(repository: Repository) -> None:
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    repository.git("commit", "-qam", "by the agent")
    prepared = delivery.prepared()
    assert (prepared.count, prepared.commit, prepared.problems) == (0, "", ())


def test_nothing_changed(repository: Repository) -> None:
    prepared = Delivery(repository).prepared()
    assert (prepared.count, prepared.commit) == (0, "")


def test_a_commit_that_came_in_between_makes_it_outdated(repository: Repository) -> None:
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    prepared = delivery.prepared()
    repository.put("README.md", "other")
    repository.git("commit", "-qm", "other", "README.md")
    head = repository.git("rev-parse", "HEAD")
    outcome = delivery.engine().commit(prepared, ())
    assert isinstance(outcome, NotDelivered)
    assert outcome.outdated
    assert repository.git("rev-parse", "HEAD") == head


def test_another_branch_in_between_makes_it_outdated(repository: Repository) -> None:
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    prepared = delivery.prepared()
    repository.git("checkout", "-qb", "other")
    outcome = delivery.engine().commit(prepared, ())
    assert outcome == NotDelivered("another branch is checked out", outdated=True)


def test_later_commits_of_the_user_are_left_alone(repository: Repository) -> None:
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    prepared = delivery.delivered()
    repository.put("README.md", "next")
    repository.git("commit", "-qam", "next")
    head = repository.git("rev-parse", "HEAD")
    assert delivery.engine().commit(prepared, ()) == Done(found=True)
    assert repository.git("rev-parse", "HEAD") == head
    assert status(repository) == ""


def test_staging_alone(repository: Repository) -> None:
    delivery = Delivery(repository, auto_commit=False)
    repository.put("src/a.py", "a = 2")
    repository.put("new.txt", "new")
    prepared = delivery.delivered()
    assert prepared.commit == ""
    assert repository.git("rev-parse", "HEAD") == delivery.base.head
    assert status(repository) == "A  new.txt\nM  src/a.py"


def test_a_detached_head(repository: Repository) -> None:
    branch = repository.git("branch", "--show-current")
    repository.git("checkout", "-q", "--detach")
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    prepared = delivery.delivered()
    assert (prepared.ref, repository.git("rev-parse", "HEAD")) == ("HEAD", prepared.commit)
    assert repository.git("rev-parse", branch) == delivery.base.head


def test_the_first_commit_of_a_repository(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.git("checkout", "-q", "--orphan", "fresh")
    repository.git("rm", "-q", "--cached", "-r", ".")
    for path in ("README.md", "src/a.py", "src/deep/b.py"):
        (repository.root / path).unlink()
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    prepared = delivery.delivered()
    assert repository.git("rev-list", "HEAD") == prepared.commit
    assert changed(repository) == ["src/a.py"]


def test_names_modes_and_links(repository: Repository) -> None:
    delivery = Delivery(repository)
    repository.put("with space/and\nnewline", "x")
    repository.put("\udcff.txt", "x")
    repository.put("run.sh", "#!/bin/sh\n")
    (repository.root / "run.sh").chmod(0o755)
    (repository.root / "link").symlink_to("README.md")
    (repository.root / "README.md").unlink()
    repository.put("README.md/inside", "a folder now")
    delivery.delivered()
    assert status(repository) == ""
    assert repository.git("ls-tree", "HEAD", "run.sh", "link").split()[0] == "120000"
    assert repository.git("ls-tree", "HEAD", "run.sh").split()[0] == "100755"
    assert repository.git("show", "HEAD:README.md/inside") == "a folder now"
    repository.git("fsck", "--strict")


def test_modes_of_files_that_git_is_told_to_ignore(repository: Repository) -> None:
    repository.put("run.sh", "#!/bin/sh\n")
    (repository.root / "run.sh").chmod(0o755)
    repository.git("add", ".")
    repository.git("commit", "-qm", "run")
    repository.git("config", "core.fileMode", "false")
    (repository.root / "run.sh").chmod(0o644)
    delivery = Delivery(repository)
    repository.put("run.sh", "#!/bin/sh\necho")
    repository.put("new.sh", "x")
    (repository.root / "new.sh").chmod(0o755)
    delivery.delivered()
    modes = [line.split()[0] for line in repository.git("ls-tree", "HEAD", "new.sh", "run.sh").split("\n")]
    assert modes == ["100644", "100755"]


@pytest.mark.parametrize(
    ("attributes", "autocrlf"), [("* text=auto", ""), ("* text", ""), ("*.py eol=crlf", ""), ("", "true")]
)
def test_line_endings_are_stored_as_git_stores_them(
    attributes: str, autocrlf: str, repository: Repository
) -> None:
    repository.put(".gitattributes", attributes)
    if autocrlf:
        repository.git("config", "core.autocrlf", autocrlf)
    (repository.root / "src/a.py").write_bytes(b"a = 1\r\nb = 1\r\n")
    repository.git("add", ".")
    repository.git("commit", "-qm", "with line endings")
    assert repository.git("show", "HEAD:src/a.py") == "a = 1\nb = 1"
    assert status(repository) == ""
    delivery = Delivery(repository)
    (repository.root / "src/a.py").write_bytes(b"a = 2\r\nb = 1\r\n")
    (repository.root / "src/new.py").write_bytes(b"c = 1\r\n")
    delivery.delivered()
    assert repository.git("cat-file", "-p", "HEAD:src/a.py") == "a = 2\nb = 1"
    assert repository.git("cat-file", "-p", "HEAD:src/new.py") == "c = 1"
    assert status(repository) == ""
    assert (repository.root / "src/a.py").read_bytes() == b"a = 2\r\nb = 1\r\n"


def test_line_endings_without_a_conversion_stay(repository: Repository) -> None:
    delivery = Delivery(repository)
    (repository.root / "src/a.py").write_bytes(b"a = 2\r\n")
    prepared = delivery.delivered()
    blob = subprocess.run(
        ["git", "-C", str(repository.root), "cat-file", "-p", f"{prepared.commit}:src/a.py"],
        capture_output=True,
        env=ENVIRON,
        check=True,
    )
    assert blob.stdout == b"a = 2\r\n"


@pytest.mark.parametrize("attribute", ["filter=lfs", "working-tree-encoding=UTF-16", "ident"])
def test_what_only_git_can_convert_is_named(attribute: str, repository: Repository) -> None:
    repository.put(".gitattributes", f"*.bin {attribute}")
    repository.git("add", ".")
    repository.git("commit", "-qm", "attributes")
    delivery = Delivery(repository)
    repository.put("data.bin", "x")
    repository.put("src/a.py", "a = 2")
    assert delivery.problems() == {"content": ("data.bin",)}


def test_an_attribute_that_the_run_adds_counts(repository: Repository) -> None:
    delivery = Delivery(repository)
    repository.put(".gitattributes", "*.py filter=evil")
    repository.put("src/a.py", "a = 2")
    assert delivery.problems() == {"content": ("src/a.py",)}


def test_files_with_secrets_and_large_ones_are_named(repository: Repository) -> None:
    repository.put("big-before.bin", "x" * 2000)
    delivery = Delivery.__new__(Delivery)
    delivery.repository, delivery.project, delivery.rule = repository, str(repository.root), DeliverRule()
    delivery.limits, delivery.redactor = TreeLimits(file_bytes=1000), Redactor(("s3cr3t-value",))
    delivery.base = delivery.engine().look()
    repository.put("src/a.py", "key = 's3cr3t-value'")
    repository.put("big.bin", "x" * 2000)
    assert delivery.problems() == {"content": ("big.bin", "src/a.py")}


def test_a_submodule_that_changed_is_named(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Repository(tmp_path / "other")
    repository.add_submodule(other.root, "sub")
    delivery = Delivery(repository)
    repository.put("README.md", "changed")
    delivery.delivered()
    assert changed(repository) == ["README.md"]
    delivery = Delivery(repository)
    repository.put("sub/README.md", "changed")
    repository.put("src/a.py", "a = 2")
    assert delivery.problems() == {"content": ("sub",)}


@pytest.mark.parametrize(
    ("name", "text"),
    [("MERGE_HEAD", "a merge"), ("CHERRY_PICK_HEAD", "a cherry-pick"), ("rebase-merge", "a rebase")],
)
def test_what_the_user_has_begun_is_not_disturbed(name: str, text: str, repository: Repository) -> None:
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    (repository.root / ".git" / name).write_text(delivery.base.head)
    assert [one.text for one in delivery.prepared().problems] == [f"{text} is in progress"]


def test_a_project_in_a_folder_of_its_repository(repository: Repository) -> None:
    repository.put("src/staged.py", "by the user")
    repository.git("add", ".")
    repository.put("README.md", "outside of the project")
    delivery = Delivery(repository, "src")
    repository.put("src/a.py", "a = 2")
    repository.put("src/deep/c.py", "c")
    prepared = delivery.delivered()
    assert prepared.paths == ("a.py", "deep/c.py")
    assert changed(repository) == ["src/a.py", "src/deep/c.py"]
    assert status(repository).split("\n") == ["M README.md", "A  src/staged.py"]


def test_an_index_that_another_program_holds_is_waited_for_and_reported(repository: Repository) -> None:
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    prepared = delivery.prepared()
    lock = repository.root / ".git/index.lock"
    lock.touch()
    outcome = delivery.engine().commit(prepared, ())
    assert isinstance(outcome, NotDelivered)
    assert "git update-index" in outcome.reason
    assert not outcome.outdated
    lock.unlink()
    assert delivery.engine().commit(prepared, ()) == Done(found=True)
    assert status(repository) == ""


def test_a_reference_that_another_program_holds_is_reported(repository: Repository) -> None:
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    prepared = delivery.prepared()
    (repository.root / ".git" / f"{prepared.ref}.lock").touch()
    outcome = delivery.engine().commit(prepared, ())
    assert isinstance(outcome, NotDelivered)
    assert not outcome.outdated


def test_a_link_in_place_of_the_index_is_not_written_through(repository: Repository, tmp_path: Path) -> None:
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    prepared = delivery.prepared()
    index = repository.root / ".git/index"
    index.rename(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    index.symlink_to(tmp_path / "elsewhere")
    outcome = delivery.engine().commit(prepared, ())
    assert isinstance(outcome, NotDelivered)
    assert (tmp_path / "elsewhere").read_bytes() == before


def test_nobodys_name(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AUTHOR", "COMMITTER"):
        for part in ("NAME", "EMAIL"):
            monkeypatch.delitem(ENVIRON, f"GIT_{name}_{part}")
    delivery = Delivery(repository)
    repository.put("src/a.py", "a = 2")
    found = delivery.engine().prepare(Change(delivery.rule, delivery.base, None, message, DATE, "x"))
    assert isinstance(found, NotDelivered)
    assert "user.name" in found.reason
    repository.git("config", "user.name", "Ada\n<x>")
    repository.git("config", "user.email", "ada@localhost")
    delivery.delivered()
    assert repository.git("log", "-1", "--format=%an <%ae>") == "Adax <ada@localhost>"


def test_two_runs_deliver_both_or_one_asks(repository: Repository) -> None:
    first, second = Delivery(repository), Delivery(repository)
    repository.put("src/a.py", "a = 2")
    one = first.prepared()
    repository.put("README.md", "second")
    two = second.prepared()
    assert first.engine().commit(one, ()) == Done()
    outcome = second.engine().commit(two, ())
    assert isinstance(outcome, NotDelivered)
    assert outcome.outdated
    assert set(second.problems()) == {"moved"}
    second.delivered("moved")
    assert [changed(repository, commit) for commit in ("HEAD~", "HEAD")] == [["src/a.py"], ["README.md"]]
    assert status(repository) == ""


def test_a_patch_applies_to_the_commit_that_it_is_for(repository: Repository, tmp_path: Path) -> None:
    repository.put("README.md", "the user's")
    delivery = Delivery(repository, mode="patch")
    repository.put("src/a.py", "a = 2")
    repository.put("new.bin", "\0binary")
    (repository.root / "src/deep/b.py").unlink()
    prepared = delivery.prepared()
    assert (prepared.file, prepared.commit, prepared.problems) == (".agentforge/patches/SPEC-1.patch", "", ())
    assert delivery.engine().patch(prepared) == Done()
    assert delivery.engine().patch(prepared) == Done(found=True)
    clone = tmp_path / "clone"
    repository.git("clone", "-q", str(repository.root), str(clone))
    patch = repository.root / prepared.file
    subprocess.run(["git", "apply", "--check", str(patch)], cwd=clone, check=True, env=ENVIRON)
    subprocess.run(["git", "apply", str(patch)], cwd=clone, check=True, env=ENVIRON)
    assert (clone / "src/a.py").read_text() == "a = 2"
    assert not (clone / "src/deep/b.py").exists()
    assert (clone / "README.md").read_text() == "read me"


def test_files_need_no_repository(tmp_path: Path) -> None:
    from agentforge.adapters.host.tree_scan import FolderTrees

    (tmp_path / "project").mkdir()
    (tmp_path / "project/a.txt").write_text("1")
    project, store = str(tmp_path / "project"), str(tmp_path / "trees")
    engine = GitDelivery(project, store, FolderTrees(project, store, Redactor(())), ENVIRON, lambda *_: b"")
    base = engine.look()
    (tmp_path / "project/a.txt").write_text("2")
    found = engine.prepare(Change(DeliverRule("files"), base, None, message, DATE, "x"))
    assert isinstance(found, PreparedDelivery)
    assert (found.paths, found.count, base.head) == (("a.txt",), 1, "")
    refused = engine.prepare(Change(DeliverRule("commit"), base, None, message, DATE, "x"))
    assert isinstance(refused, NotDelivered)


def test_a_damaged_tree_is_reported(repository: Repository) -> None:
    delivery = Delivery(repository)
    delivery.base = replace(delivery.base, tree="0" * 40)
    found = delivery.engine().prepare(Change(delivery.rule, delivery.base, None, message, DATE, "x"))
    assert isinstance(found, NotDelivered)
    assert isinstance(delivery.base, DeliveryBase)
    assert os.path.isdir(delivery.project)
