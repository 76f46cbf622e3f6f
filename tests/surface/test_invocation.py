"""The command that hints show: how the program was called, and for which project."""

import shlex
from pathlib import Path

import pytest

from agentforge.cli.invocation import Invocation


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


def test_another_project_is_part_of_the_command(script: Path, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    call = Invocation()
    call.project = "a b"
    assert call.program == f"agentforge -C {shlex.quote(str(tmp_path / 'a b'))}"
