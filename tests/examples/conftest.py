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


@pytest.fixture
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    """Of the example in EXAMPLE of the test's module."""
    project = Project(tmp_path)
    shutil.copytree(ROOT / "examples" / request.module.EXAMPLE, project.root, dirs_exist_ok=True)
    code = f"import sys; sys.path[:0] = {sys.path!r}; sys.argv[0] = 'agentforge'"
    put_cli(tmp_path / "bin", "agentforge", f"{code}\nfrom agentforge.cli.main import main\nmain()")
    project.env["PATH"] = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["git", "init", "-q"], cwd=project.root, env=project.env, check=True)
    yield project
    project.end_agents()
