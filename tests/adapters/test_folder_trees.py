"""Trees of a folder without git: the ids that git would give, and only the trees are kept."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.adapters.repository import Repository, taken
from tests.security.trapped_repository import ENVIRON

from agentforge.adapters.host.git_trees import GitTrees
from agentforge.adapters.host.tree_scan import FolderTrees, TreeLimits
from agentforge.model.secrets import Redactor
from agentforge.ports.host import NoTree, TakenTree

LIMITS = TreeLimits()


def folder_trees(
    root: Path, store: Path, limits: TreeLimits = LIMITS, redactor: Redactor | None = None
) -> FolderTrees:
    return FolderTrees(str(root), str(store), redactor or Redactor(()), limits)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "plain"
    for name in ("README.md", "src/a.py", "src/deep/b.py", "ä ü\n.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "run.sh").write_text("run")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("/etc/passwd")
    (root / "folder").symlink_to("src")
    return root


@pytest.fixture
def trees(project: Path, tmp_path: Path) -> FolderTrees:
    return folder_trees(project, tmp_path / "run" / "trees")


def test_the_id_is_the_one_that_git_gives_the_same_files(
    project: Path, trees: FolderTrees, tmp_path: Path
) -> None:
    assert trees.is_possible()
    found = taken(trees)
    (tmp_path / "git").mkdir()
    repository = Repository(tmp_path / "git")
    shutil.rmtree(repository.root)
    shutil.copytree(project, repository.root, symlinks=True)
    repository.git("init", "-q")
    assert found == taken(repository.trees()) == repository.by_git()


def test_the_engines_files_caches_and_nested_repositories_are_left_out(
    project: Path, trees: FolderTrees
) -> None:
    first = taken(trees)
    names = [".claude/pipeline-runs/s/events.jsonl", ".agentforge/x", ".agentforge-outbox/x"]
    names += [
        "src/__pycache__/a.pyc",
        "node_modules/b/c.js",
        ".venv/bin/python",
        ".coverage",
        "nested/.git/HEAD",
    ]
    for name in names:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("new")
    assert taken(trees) == first
    (project / "nested/file.txt").write_text("new")
    assert trees.changed(first, taken(trees), 10) == ("nested/file.txt",)


def test_changes_are_named_also_by_a_new_engine(project: Path, trees: FolderTrees, tmp_path: Path) -> None:
    first = taken(trees)
    (project / "src/a.py").write_text("changed")
    (project / "link").unlink()
    second = taken(folder_trees(project, tmp_path / "run" / "trees"))
    assert folder_trees(project, tmp_path / "run" / "trees").changed(first, second, 10) == (
        "link",
        "src/a.py",
    )


def test_a_change_that_leaves_size_and_time_is_seen(project: Path, trees: FolderTrees) -> None:
    first, path = taken(trees), project / "src/a.py"
    seen = path.stat()
    path.write_text("SRC/A.PY")
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert taken(trees) != first


def test_content_is_not_kept(project: Path, trees: FolderTrees, tmp_path: Path) -> None:
    taken(trees)
    kept = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(kept) == 3, "the trees of three folders"


def test_no_link_is_followed_and_nothing_is_waited_for(
    project: Path, trees: FolderTrees, tmp_path: Path
) -> None:
    first = taken(trees)
    os.mkfifo(project / "pipe")
    assert taken(trees) == first
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/a.py").write_text("secret")
    shutil.rmtree(project / "src")
    (project / "src").symlink_to(tmp_path / "secret")
    linked = taken(trees)
    assert linked != first
    (tmp_path / "secret/a.py").write_text("changed")
    assert taken(trees) == linked


def test_secrets_are_not_hashed(project: Path, tmp_path: Path) -> None:
    redactor = Redactor(["sesame-open-1"])
    found = [tmp_path / "one", tmp_path / "two"]
    ids = []
    for store, text in zip(found, ("key=sesame-open-1", "key=[secret]"), strict=True):
        (project / "conf.txt").write_text(text)
        ids.append(taken(folder_trees(project, store, redactor=redactor)))
    (project / "sesame-open-1.txt").write_text("named by it")
    assert {taken(folder_trees(project, tmp_path / "one", redactor=redactor)), *ids} == {ids[0]}


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (TreeLimits(files=2), "the project has more than 2 files"),
        (TreeLimits(files=5), "the project has more than 5 files"),
        (TreeLimits(seconds=-1.0), " longer than -1 s"),
    ],
)
def test_too_much_is_a_reason(project: Path, tmp_path: Path, limits: TreeLimits, reason: str) -> None:
    found = folder_trees(project, tmp_path / "trees", limits).take()
    assert isinstance(found, NoTree)
    assert reason in found.reason


def test_large_files_are_counted(project: Path, tmp_path: Path) -> None:
    found = folder_trees(project, tmp_path / "trees", TreeLimits(file_bytes=5)).take()
    assert isinstance(found, TakenTree)
    assert found.omitted == 4


def test_a_missing_folder_is_a_reason(tmp_path: Path) -> None:
    trees = folder_trees(tmp_path / "none", tmp_path / "trees")
    assert not trees.is_possible()
    assert isinstance(trees.take(), NoTree)


def test_what_needs_git_says_so(trees: FolderTrees) -> None:
    kept = trees.keep(taken(trees), "run/1")
    assert isinstance(kept, NoTree)
    assert "not a git repository" in kept.reason


@pytest.mark.parametrize("count", [1000, pytest.param(20_000, marks=pytest.mark.soak)])
def test_many_files_with_and_without_git(tmp_path: Path, count: int) -> None:
    root = tmp_path / "many"
    for number in range(count // 200):
        (root / f"d{number % 10}" / f"e{number}").mkdir(parents=True)
        for inner in range(200):
            (root / f"d{number % 10}" / f"e{number}" / f"f{inner}").write_text(f"{number}/{inner}")
    plain = folder_trees(root, tmp_path / "plain-trees", TreeLimits(seconds=250))
    first = taken(plain)
    subprocess.run(["git", "init", "-q", str(root)], check=True, env=ENVIRON)
    git = GitTrees(str(root), str(tmp_path / "git-trees"), ENVIRON, Redactor(()), TreeLimits(seconds=250))
    assert taken(git) == first
    (root / "d0/e0/f0").write_text("changed")
    second = taken(git)
    assert taken(plain) == second
    assert git.changed(first, second, 10) == plain.changed(first, second, 10) == ("d0/e0/f0",)
