"""The files of a repository that decide what git executes, in every kind of repository."""

from pathlib import Path

import pytest

from agentforge.system.repository import git_files, redirections


def repository(place: Path) -> Path:
    place.mkdir(parents=True)
    (place / "HEAD").write_text("ref: refs/heads/main\n")
    return place


def names(folder: Path) -> list[str]:
    return sorted(str(Path(path).relative_to(folder)) for path in git_files(str(folder)).all)


def test_a_repository(tmp_path: Path) -> None:
    place = repository(tmp_path / ".git")
    assert names(tmp_path) == [".git/config", ".git/hooks"]
    (place / "config.worktree").write_text("")
    assert names(tmp_path) == [".git/config", ".git/config.worktree", ".git/hooks"]


@pytest.mark.parametrize("exists", [True, False])
def test_no_repository(tmp_path: Path, exists: bool) -> None:
    if exists:
        (tmp_path / ".git").mkdir()
    assert names(tmp_path) == [".git"]
    assert git_files(str(tmp_path)).folders == (f"{tmp_path}/.git",)


def test_submodules_inside_submodules(tmp_path: Path) -> None:
    outer = repository(tmp_path / ".git") / "modules/libs/outer"
    repository(repository(outer) / "modules/inner")
    (tmp_path / ".git/modules/libs/loop").symlink_to("..")
    assert {name for name in names(tmp_path) if name.endswith("hooks")} == {
        ".git/hooks",
        ".git/modules/libs/outer/hooks",
        ".git/modules/libs/outer/modules/inner/hooks",
    }


def test_a_worktree(tmp_path: Path) -> None:
    place = repository(tmp_path / "main/.git") / "worktrees/tree"
    place.mkdir(parents=True)
    (place / "commondir").write_text("../..\n")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/.git").write_text(f"gitdir: {place}\n")
    found = set(git_files(str(tmp_path / "tree")).all)
    assert found == {
        f"{tmp_path}/tree/.git",
        f"{place}/commondir",
        f"{tmp_path}/main/.git/hooks",
        f"{tmp_path}/main/.git/config",
    }
    assert f"{place}/commondir" in git_files(str(tmp_path / "main")).all


@pytest.mark.parametrize("content", ["", "nonsense", "gitdir:", "\0"])
def test_an_unreadable_git_file_is_protected_itself(tmp_path: Path, content: str) -> None:
    (tmp_path / ".git").write_text(content)
    assert f"{tmp_path}/.git" in git_files(str(tmp_path)).files


def test_redirections_are_found_where_only_worktrees_have_them(tmp_path: Path) -> None:
    assert redirections(str(tmp_path)) == []
    place = repository(tmp_path / ".git")
    module = repository(place / "modules/sub")
    tree = place / "worktrees/tree"
    tree.mkdir(parents=True)
    (tree / "commondir").write_text("../..\n")
    assert redirections(str(tmp_path)) == []
    for folder in (place, module):
        (folder / "commondir").write_text("/elsewhere\n")
    assert redirections(str(tmp_path)) == [f"{place}/commondir", f"{module}/commondir"]
