"""Each test of this folder runs once with every agent CLI that is installed."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agents.clis import CLIS, PROGRAMS, Cli, programs
from tests.agents.trial import Trial

from agentforge.testing.model_server import ModelServer


@pytest.fixture(scope="session")
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(params=CLIS)
def cli(request: pytest.FixtureRequest) -> Cli:
    found = CLIS[request.param]
    if not os.access(programs() / found.name, os.X_OK):
        from_npm = "npm-" if found.name in ("opencode", "gemini") else ""
        pytest.skip(f"{from_npm}agent: no {found.name} in {programs()} ({PROGRAMS}=DIR: elsewhere)")
    return found


@pytest.fixture
def trial(cli: Cli, server: ModelServer, tmp_path: Path) -> Iterator[Trial]:
    """Whatever happens in a test: its processes end, and none of them wanted to leave this machine."""
    made = Trial(cli, server, tmp_path)
    known = len(server.strays())
    yield made
    left = made.end_all()
    assert left == [], f"still running: {left}"
    assert set(server.strays()[known:]) <= cli.strays
