from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.surface.terminal import Project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    made.end_agents()
