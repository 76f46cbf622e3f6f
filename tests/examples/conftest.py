"""A new git repository with the files of an example, and `agentforge` on its path."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.adapters.fake_clis import put_cli
from tests.code_blocks import ROOT
from tests.surface.terminal import Project
from tests.surface.warm_program import put_command

KILLED = "run"
"""The command whose engine is killed in an example: it has to be the process that the shell started."""


def put_program(folder: Path) -> None:
    code = f"import sys; sys.path[:0] = {sys.path!r}; sys.argv[0] = 'agentforge'"
    own = put_cli(folder, "own-process", f"{code}\nfrom agentforge.cli.main import main\nmain()")
    put_command(forked := folder / "forked", "")
    program = folder / "agentforge"
    program.write_text(f'#!/bin/sh\ncase "$1" in {KILLED}) exec {own} "$@";; *) exec {forked} "$@";; esac\n')
    program.chmod(0o755)


@pytest.fixture
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    """Of the example in EXAMPLE of the test's module."""
    project = Project(tmp_path)
    shutil.copytree(ROOT / "examples" / request.module.EXAMPLE, project.root, dirs_exist_ok=True)
    put_program(tmp_path / "bin")
    project.env["PATH"] = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["git", "init", "-q"], cwd=project.root, env=project.env, check=True)
    yield project
    project.end_agents()
