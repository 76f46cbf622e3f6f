"""Trees that are kept in the user's repository: complete, and nothing else of it changes."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.adapters.repository import Repository, content, taken
from tests.security.trapped_repository import ENVIRON

from agentforge.adapters.host.git_references import drop_references, reference_name
from agentforge.adapters.host.git_trees import GitTrees
from agentforge.model.secrets import Redactor
from agentforge.ports.host import KeptTree, NoTree


def kept(trees: GitTrees, tree: str, name: str = "run/1") -> str:
    found = trees.keep(tree, name)
    assert isinstance(found, KeptTree), found
    assert found.reference == f"refs/agentforge/{name}"
    return found.reference


def reason(trees: GitTrees, tree: str) -> str:
    found = trees.keep(tree, "run/1")
    assert isinstance(found, NoTree), found
    return found.reason


def not_ours(root: Path) -> dict[str, bytes]:
    """The files of git, apart from objects and the engine's references."""
    found = content(root / ".git")
    return {
        path: data for path, data in found.items() if "/objects/" not in path and "/agentforge/" not in path
    }


def make_dirty(repository: Repository) -> None:
    repository.put("README.md", "stashed")
    repository.git("stash")
    repository.put("src/a.py", "staged")
    repository.git("add", "src/a.py")
    repository.put("src/a.py", "changed after it was staged")
    repository.put("new/file.txt", "new")
    (repository.root / "src/deep/b.py").unlink()
    (repository.root / "link").symlink_to("/etc/passwd")


def test_a_kept_tree_survives_gc_and_index_head_and_stash_stay(repository: Repository) -> None:
    make_dirty(repository)
    before = not_ours(repository.root)
    trees = repository.trees()
    first = taken(trees)
    reference = kept(trees, first)
    assert not_ours(repository.root) == before
    repository.put("new/file.txt", "newer")
    kept(trees, taken(trees), "run/2")
    repository.git("gc", "-q", "--prune=now")
    repository.git("fsck", "--strict")
    assert repository.git("rev-parse", reference) == first
    assert repository.git("show", f"{reference}:new/file.txt") == "new"
    assert repository.git("diff", "--name-only", reference, "refs/agentforge/run/2") == "new/file.txt"
    assert repository.git("stash", "list").startswith("stash@{0}")


def test_keeping_it_again_changes_nothing_and_another_tree_replaces_it(repository: Repository) -> None:
    trees = repository.trees()
    reference = kept(trees, taken(trees))
    before = content(repository.root / ".git")
    assert kept(repository.trees(), taken(trees)) == reference
    assert content(repository.root / ".git") == before
    repository.put("README.md", "second")
    second = taken(trees)
    kept(trees, second)
    assert repository.git("rev-parse", reference) == second


@pytest.mark.parametrize("format", ["sha1", "sha256"])
def test_a_repository_without_commits(tmp_path: Path, format: str) -> None:
    (tmp_path / "b").mkdir()
    other = Repository(tmp_path / "b", f"--object-format={format}")
    other.git("update-ref", "-d", "HEAD")
    other.git("rm", "-rq", "--cached", ".")
    before = not_ours(other.root)
    reference = kept(other.trees(), taken(other.trees()))
    assert not_ours(other.root) == before
    other.git("gc", "-q", "--prune=now")
    assert other.git("show", f"{reference}:src/a.py") == "a = 1"


def test_a_linked_worktree_and_a_folder_of_it(repository: Repository, tmp_path: Path) -> None:
    repository.git("worktree", "add", "-q", str(tmp_path / "linked"))
    (tmp_path / "linked/src/a.py").write_text("a = 2")
    trees = GitTrees(str(tmp_path / "linked/src"), str(repository.store), ENVIRON, Redactor(()))
    reference = kept(trees, taken(trees))
    assert repository.git("show", f"{reference}:a.py") == "a = 2"


def test_submodules(with_submodules: Repository) -> None:
    with_submodules.put("modules/outer/src/a.py", "changed")
    before, trees = not_ours(with_submodules.root), with_submodules.trees()
    reference = kept(trees, taken(trees))
    assert not_ours(with_submodules.root) == before
    with_submodules.git("gc", "-q", "--prune=now")
    with_submodules.git("fsck", "--strict")
    assert "160000 commit" in with_submodules.git("ls-tree", f"{reference}:modules")


def test_an_empty_file_that_was_only_announced_to_git(repository: Repository) -> None:
    repository.put("empty.txt", "")
    repository.git("add", "-N", "empty.txt")
    trees = repository.trees()
    reference = kept(trees, taken(trees))
    assert repository.git("show", f"{reference}:empty.txt") == ""


def test_no_reference_names_what_is_missing(repository: Repository) -> None:
    """A repository with such a reference could not be packed any more."""
    trees = repository.trees()
    tree = taken(trees)
    id = repository.git("rev-parse", "HEAD:src/a.py")
    (repository.root / ".git/objects" / id[:2] / id[2:]).unlink()
    assert reason(trees, tree) == f"the content {id[:12]} is missing in the repository"
    assert repository.git("for-each-ref", "refs/agentforge") == ""


def test_damaged_and_unknown_trees_are_a_reason(repository: Repository) -> None:
    repository.put("new.txt", "new")
    trees = repository.trees()
    tree = taken(trees)
    assert "is missing" in reason(trees, "0" * 40)
    assert reason(trees, "../x") == "it is not the id of a tree"
    blob = repository.git("hash-object", "new.txt")
    other = repository.git("hash-object", "README.md")
    (repository.store / blob[:2] / blob[2:]).write_bytes(
        (repository.root / ".git/objects" / other[:2] / other[2:]).read_bytes()
    )
    assert "is damaged" in reason(trees, tree)
    assert repository.git("for-each-ref", "refs/agentforge") == ""


@pytest.mark.parametrize("place", ["refs/agentforge", "refs/agentforge/run", "objects/{}"])
def test_no_link_below_the_repository_is_followed(
    repository: Repository,
    tmp_path: Path,
    place: str,
) -> None:
    repository.put("new.txt", "new")
    trees = repository.trees()
    tree = taken(trees)
    (tmp_path / "elsewhere").mkdir()
    link = repository.root / ".git" / place.format(tree[:2])
    link.parent.mkdir(exist_ok=True)
    if link.exists():
        link.rename(tmp_path / "moved")
    link.symlink_to(tmp_path / "elsewhere")
    assert "link" in reason(trees, tree) or "exists" in reason(trees, tree)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_hook_of_references_is_not_run(repository: Repository, tmp_path: Path) -> None:
    trees = repository.trees()
    tree = taken(trees)
    hook = repository.root / ".git/hooks/reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/canary'\n")
    hook.chmod(0o755)
    kept(trees, tree)
    subprocess.run(["git", "-C", str(repository.root), "pack-refs", "--all"], check=True, env=ENVIRON)
    (tmp_path / "canary").unlink(missing_ok=True)
    assert drop_references(str(repository.root), "run", ENVIRON) == ""
    assert repository.git("for-each-ref", "refs/agentforge") == ""
    assert not (tmp_path / "canary").exists()


def test_references_in_a_format_that_is_not_supported(repository: Repository) -> None:
    trees = repository.trees()
    tree = taken(trees)
    (repository.root / ".git/reftable").mkdir()
    assert "reftable" in reason(trees, tree)


def test_only_the_references_of_the_run_are_removed(repository: Repository) -> None:
    trees = repository.trees()
    for name in ("run/1", "run2/1", "run/2", "other/1"):
        kept(trees, taken(trees), name)
        if name == "run2/1":
            repository.git("pack-refs", "--all")
    before = repository.git("for-each-ref", "refs/heads")
    assert drop_references(str(repository.root), "run", ENVIRON) == ""
    left = repository.git("for-each-ref", "--format=%(refname)", "refs/agentforge").split()
    assert left == ["refs/agentforge/other/1", "refs/agentforge/run2/1"]
    assert repository.git("for-each-ref", "refs/heads") == before
    assert drop_references(str(repository.root), "never", ENVIRON) == ""


def test_what_prevents_the_removal_is_a_reason(repository: Repository, tmp_path: Path) -> None:
    (repository.root / ".git/packed-refs").symlink_to("/etc/passwd")
    assert "packed-refs" in drop_references(str(repository.root), "run", ENVIRON)
    assert drop_references(str(tmp_path), "run", ENVIRON) == ""


@pytest.mark.parametrize(
    "name", ["a..b", "x.lock", ".x", "x.", "", "a b", "x~1", "@{", "-x", "ä.ö", "a" * 300, "../../heads/main"]
)
def test_any_name_is_one_that_git_accepts(repository: Repository, name: str) -> None:
    reference = f"refs/agentforge/{reference_name(name)}"
    repository.git("check-ref-format", reference)
    assert ".." not in reference
    assert len(os.fsencode(reference)) < 250


def test_names_dont_collide() -> None:
    names = ["a..b", "a...b", "a-b", "a b", "x.lock", "x-lock"]
    assert len({reference_name(name) for name in names}) == len(names)
