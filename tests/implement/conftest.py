from collections.abc import Iterator

import pytest
from tests.implement.slugs import Slugs


@pytest.fixture
def slugs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slugs]:
    """On the disk, as the agents are confined."""
    project = Slugs(tmp_path_factory.mktemp("implement"))
    yield project
    project.end_agents()
