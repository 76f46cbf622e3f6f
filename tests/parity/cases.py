"""The location of the recorded cases of agent-pipelines."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CASES = Path(os.environ.get("PARITY_CASES") or REPOSITORY.parent / "shared" / "parity")

needs_cases = pytest.mark.skipif(
    not CASES.is_dir(), reason="no recorded cases beside this repository; PARITY_CASES names another folder"
)
