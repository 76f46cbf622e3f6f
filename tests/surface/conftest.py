import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scratch import folder_in_memory
from tests.surface.terminal import Project
from tests.surface.tmux_server import TmuxServer

__all__ = ["folder_in_memory"]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    made.end_agents()


@pytest.fixture
def tmux(project: Project) -> Iterator[TmuxServer]:
    """A server for the runs of the project. Agents that wait for the file `go` end with it."""
    with tempfile.TemporaryDirectory(prefix="af-tmux-") as folder:
        server = TmuxServer(Path(folder))
        project.env |= server.env
        yield server
        (project.root / "go").touch()
        project.end_background(server)
