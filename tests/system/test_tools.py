"""The engine's own tools are never taken from the project."""

import os
from pathlib import Path

import pytest

from agentforge.system.tools import find_tool, resolve_tools, tool_environment, why_refused


def program(folder: Path, name: str = "git") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / name
    made.write_text("#!/bin/sh\n")
    made.chmod(0o755)
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def test_one_in_the_project_is_skipped_for_one_outside(project: Path, tmp_path: Path) -> None:
    inside, outside = program(project / ".venv/bin"), program(tmp_path / "bin")
    environ = {"PATH": f"{inside.parent}:{outside.parent}"}
    assert find_tool("git", environ, str(project)) == str(outside)
    assert tool_environment(environ, str(project)) == {"PATH": str(outside.parent)}


def test_the_only_one_is_refused(project: Path) -> None:
    inside = program(project / "bin")
    environ = {"PATH": str(inside.parent)}
    assert find_tool("git", environ, str(project)) is None
    assert f"{inside} is not used" in why_refused("git", environ, str(project))
    assert why_refused("bd", environ, str(project)) == ""


@pytest.mark.parametrize("entry", ["", ".", "bin", "../project/bin"])
def test_relative_entries_are_skipped(project: Path, entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program(project)
    program(project / "bin")
    monkeypatch.chdir(project)
    assert find_tool("git", {"PATH": entry}, str(project)) is None


def test_links_into_the_project_and_links_to_the_project(project: Path, tmp_path: Path) -> None:
    inside = program(project / "bin")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").symlink_to(inside)
    (tmp_path / "folder").symlink_to(project / "bin")
    (tmp_path / "other").symlink_to(project)
    for entry in ("bin", "folder", "other/bin"):
        assert find_tool("git", {"PATH": str(tmp_path / entry)}, str(project)) is None


def test_tools_are_looked_up_together_at_the_start(project: Path, tmp_path: Path) -> None:
    first, second = program(tmp_path / "second/bin"), tmp_path / "first/bin"
    environ = {"PATH": f"{second}{os.pathsep}{first.parent}"}
    resolve_tools(environ, str(project))
    program(second)
    program(second, "bwrap")
    program(first.parent, "tmux")
    assert find_tool("git", environ, str(project)) == str(first)
    assert find_tool("bwrap", environ, str(project)) is None
    assert find_tool("tmux", environ, str(project)) is None
    assert "not on the PATH when the run started" in why_refused("tmux", environ, str(project))
    assert tool_environment(environ, str(project)) == {"PATH": str(first.parent)}
    resolve_tools(environ, str(project))
    assert find_tool("git", environ, str(project)) == str(second / "git")


def test_relative_entry_outside_the_project_is_not_searched(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin")
    monkeypatch.chdir(tmp_path)
    assert find_tool("git", {"PATH": "bin"}, str(project)) is None
    assert tool_environment({"PATH": "bin"}, str(project)) == {"PATH": ""}
