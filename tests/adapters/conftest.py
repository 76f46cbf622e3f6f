"""What tests of the provider api share."""

from collections.abc import Iterator

import pytest
from tests.adapters.api_tasks import FORMATS

from agentforge.testing.model_server import ModelServer


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    with ModelServer(keep_bodies=True) as server:
        yield server


@pytest.fixture(params=FORMATS)
def wire_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)
