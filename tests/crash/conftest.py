"""The workers of one test run share the uninterrupted runs that they compare with."""

import os

import pytest

from . import points


@pytest.fixture(scope="session", autouse=True)
def shared_baselines(tmp_path_factory: pytest.TempPathFactory) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        points.shared_folder = tmp_path_factory.getbasetemp().parent / "baselines"
