"""What tests of the provider api share, and those of trees."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.adapters.api_tasks import FORMATS
from tests.adapters.repository import Repository

from agentforge.testing.model_server import ModelServer


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    with ModelServer(keep_bodies=True) as server:
        yield server


@pytest.fixture(params=FORMATS)
def wire_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.fixture
def with_submodules(repository: Repository, tmp_path: Path) -> Repository:
    """One that contains another, and one that is not checked out."""
    for name in ("inner", "outer"):
        (tmp_path / name).mkdir()
    inner, outer = Repository(tmp_path / "inner"), Repository(tmp_path / "outer")
    outer.add_submodule(inner.root, "inner")
    repository.add_submodule(inner.root, "modules/absent")
    repository.add_submodule(outer.root, "modules/outer")
    repository.git("-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init", "--recursive")
    repository.git("submodule", "deinit", "-q", "modules/absent")
    return repository
