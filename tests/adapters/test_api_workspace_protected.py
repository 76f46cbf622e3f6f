"""What a model's tools may not write, by whatever path it is named, and its neighbours, which they may."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge.adapters.sandboxes.mounts import is_within
from agentforge.tool_loop.workspace import ToolError, WorkspaceFolder, below


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = (tmp_path / "project").resolve()
    for name in (".git/hooks", "src", "runs/run/iterations/001", "runs/run-2"):
        (folder / name).mkdir(parents=True)
    (folder / "link").symlink_to(".git")
    (folder / "src" / "up").symlink_to("../.git/hooks")
    (folder / "src" / "whole").symlink_to(folder / ".git")
    return folder


@pytest.fixture
def workspace(root: Path) -> Iterator[WorkspaceFolder]:
    made = WorkspaceFolder(str(root), (str(root / "runs/run"),), (str(root / "runs/run/iterations/001"),))
    yield made
    made.close()


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        "./.git/config",
        "././.git/./config",
        "src/../.git/config",
        "link/config",
        "src/up/pre-commit",
        "src/whole/config",
        "{root}/.git/config",
        "{root}/./.git/config",
        ".git//config",
        "src/.git/hooks/pre-commit",
        "src/.git",
        ".GIT/hooks/pre-commit",
        "src/.Git/config",
        ".g\u200cit/config",
        "．git/config",
        ".git./config",
        ".git /config",
        "src/.git::$INDEX_ALLOCATION/config",
    ],
)
def test_git_s_own_files_are_not_written(workspace: WorkspaceFolder, root: Path, path: str) -> None:
    before = sorted(root.rglob("*"))
    with pytest.raises(ToolError, match="git's own files"):
        workspace.write(path.format(root=root), b"x")
    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize("path", [".gitignore", "src/.git-notes", "sub/.github/config", "git/config"])
def test_what_only_looks_like_them_is(workspace: WorkspaceFolder, root: Path, path: str) -> None:
    workspace.write(path, b"x")
    assert (root / path).read_bytes() == b"x"


@pytest.mark.parametrize(
    ("path", "may"),
    [
        ("runs/run/events.jsonl", False),
        ("./runs/run/events.jsonl", False),
        ("Runs/RUN/events.jsonl", False),
        ("runs/run./events.jsonl", False),
        ("runs/run/iterations/001/output.md", True),
        ("runs/run/iterations/0011/output.md", False),
        ("runs/run-2/notes.md", True),
        ("runs/runner.py", True),
    ],
)
def test_a_name_that_begins_like_a_protected_one_is_another(
    workspace: WorkspaceFolder, root: Path, path: str, may: bool
) -> None:
    if may:
        workspace.write(path, b"x")
        assert (root / path).read_bytes() == b"x"
    else:
        with pytest.raises(ToolError, match="belongs to the pipeline"):
            workspace.write(path, b"x")


def test_folders_are_compared_by_whole_names() -> None:
    assert below("a/run/x", ("a/run",)) == below("a/run", ("a/run",)) == len("a/run")
    assert below("a/run-2", ("a/run",)) == 0
    assert is_within("/a/run/x", "/a/run")
    assert is_within("/a/run", "/a/run")
    assert is_within("/a", "/")
    assert not is_within("/a/run-2", "/a/run")
