from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scratch import folder_in_memory
from tests.surface.terminal import Project

__all__ = ["folder_in_memory"]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    made.end_agents()
