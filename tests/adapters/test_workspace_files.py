"""Which files of a workspace count, and how a change is detected."""

import os
import subprocess
from pathlib import Path

import pytest

from agentforge.adapters.host.project_files import WorkspaceFiles

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
OURS = (
    ".claude/pipeline-runs/s/events.jsonl",
    ".claude/locks/s.lock",
    ".claude/loop-completions.json",
    ".agentforge/config.yaml",
)
THEIRS = ("README.md", "src/a.py", ".claude/stages/plan/stage.yaml", "ä/ü.txt", ".agentforgery")


def fill(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True, env=ENVIRON)


@pytest.fixture(params=["plain", "git", "git below"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    if request.param != "plain":
        git(tmp_path if request.param == "git below" else root, "init", "-q")
    return root


def stamped(root: Path) -> set[str]:
    return set(WorkspaceFiles(str(root), ENVIRON).stamps() or {})


def test_what_belongs_to_the_engine_or_to_git_does_not_count(workspace: Path) -> None:
    fill(workspace, *OURS, *THEIRS)
    assert stamped(workspace) == set(THEIRS)


def test_what_git_ignores_does_not_count_and_what_it_tracks_does(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    fill(tmp_path, "kept.log", "new.txt", "build/out", "b.log")
    git(tmp_path, "add", "kept.log")
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n")
    assert stamped(tmp_path) == {"kept.log", "new.txt", ".gitignore"}
    (tmp_path / "kept.log").unlink()
    assert stamped(tmp_path) == {"new.txt", ".gitignore"}


def test_a_repositorys_own_programs_are_not_run(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "core.fsmonitor", f"touch {tmp_path}/struck; false")
    fill(tmp_path, "a.txt")
    assert stamped(tmp_path) == {"a.txt"}


def test_links_and_folders_are_not_files_of_the_workspace(workspace: Path) -> None:
    fill(workspace, "a.txt")
    (workspace / "link").symlink_to("a.txt")
    (workspace / "away").symlink_to("/etc")
    os.mkfifo(workspace / "pipe")
    assert stamped(workspace) == {"a.txt"}
    assert WorkspaceFiles(str(workspace), ENVIRON).read("link", 100) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text("other"),
        lambda path: path.write_text("A.TXT"),
        lambda path: path.chmod(0o755),
        lambda path: os.replace(path.with_name("b.txt"), path),
    ],
    ids=["content", "content of the same size", "mode", "another file"],
)
def test_a_change_is_seen(tmp_path: Path, change) -> None:  # type: ignore[no-untyped-def]
    fill(tmp_path, "a.txt", "b.txt")
    os.utime(tmp_path / "a.txt", ns=(1, 1))
    files = WorkspaceFiles(str(tmp_path), ENVIRON)
    before = files.stamp("a.txt")
    change(tmp_path / "a.txt")
    assert files.stamp("a.txt") != before
    assert files.stamp("none.txt") is None


def test_only_so_much_is_read_and_listed(tmp_path: Path) -> None:
    fill(tmp_path, "a", "b", "c")
    files = WorkspaceFiles(str(tmp_path), ENVIRON, max_files=2)
    assert files.stamps() is None
    (tmp_path / "big").write_bytes(b"x" * 10)
    assert files.read("big", 10) == b"x" * 10
    assert files.read("big", 9) is None
    assert files.read("none", 9) is None


def test_without_git_the_folder_is_walked_through(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    fill(tmp_path, "a.tmp")
    (tmp_path / ".gitignore").write_text("*.tmp\n")
    assert set(WorkspaceFiles(str(tmp_path), {"PATH": ""}).stamps() or {}) == {"a.tmp", ".gitignore"}
