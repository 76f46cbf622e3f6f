"""The workers of one test run share the uninterrupted runs that they compare with; all runs are in memory."""

import os

import pytest
from tests.scratch import folder_in_memory

from . import points

__all__ = ["folder_in_memory"]


@pytest.fixture(scope="session", autouse=True)
def shared_baselines(tmp_path_factory: pytest.TempPathFactory) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        points.shared_folder = tmp_path_factory.getbasetemp().parent / "baselines"
