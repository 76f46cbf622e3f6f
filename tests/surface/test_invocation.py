"""The command that hints show: how the program was called, and for which project."""

import shlex
import sys
from pathlib import Path

import pytest
from tests.surface.terminal import Project

from agentforge.cli.invocation import Invocation, module_call


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "my tools" / "agentforge"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return path


def test_script_that_is_not_on_the_path_is_named_as_it_was_typed(script: Path) -> None:
    assert Invocation("agentforge", str(script)).program == shlex.quote(str(script))
    assert Invocation("agentforge", "my tools/agentforge").program == "'my tools/agentforge'"


def test_script_on_the_path_is_named_by_its_name(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
    assert Invocation("agentforge", str(script)).program == "agentforge"


def test_another_program_of_that_name_on_the_path_is_not_named(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "bin" / "agentforge"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    assert Invocation("agentforge", str(script)).program == shlex.quote(str(script))


@pytest.mark.parametrize("path", ["", "agentforge", "/somewhere/agentforge/__main__.py"])
def test_module_and_plain_name_are_the_name(script: Path, path: str) -> None:
    assert Invocation("agentforge", path).program == "agentforge"


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        (["python3", "-m", "agentforge", "run", "-m", "agentforge"], "python3 -m agentforge"),
        (["my python", "-I", "-m", "agentforge"], "'my python' -I -m agentforge"),
        (["python3", "-m", "pytest", "agentforge"], ""),
        (["agentforge"], ""),
    ],
)
def test_a_module_is_named_as_it_was_called(line: list[str], typed: str) -> None:
    assert module_call(line) == typed


def test_hints_name_the_module(project: Project) -> None:
    done = project.call_program(sys.executable, "-m", "agentforge", "status", "nosuch")
    assert f'start one with `{sys.executable} -m agentforge run "REQUEST"`' in done.err


def test_another_project_is_part_of_the_command(script: Path, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    call = Invocation()
    call.project = "a b"
    assert call.program == f"agentforge -C {shlex.quote(str(tmp_path / 'a b'))}"
