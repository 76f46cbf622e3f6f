"""The contract of providers, on the real CLIs."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.agents.clis import programs
from tests.agents.trial import PATIENCE, Trial

from agentforge.app.providers.offers import BUILTIN
from agentforge.ports.provider import Provider
from agentforge.testing.model_server import Script, Turn
from agentforge.testing.provider_contract import ProcessProviderContract

pytestmark = pytest.mark.agents
SAYS = Script((Turn("Hello."),))
HANGS = Script((Turn("Never said."),), hang="before")


class TestRealAgents(ProcessProviderContract):
    @pytest.fixture
    def provider(self, trial: Trial) -> Provider:
        # Without a model gemini asks one which to take, in a way that a scripted model doesn't understand.
        environ = {**trial.environ(SAYS), "GEMINI_MODEL": "gemini-2.5-pro"}
        if trial.cli.name == "opencode":
            # Several of them at once in a home without its database get in each other's way.
            listing = [str(programs() / "opencode"), "session", "list"]
            subprocess.run(
                listing, env=environ, cwd=trial.project, capture_output=True, check=True, timeout=PATIENCE
            )
        return BUILTIN[trial.cli.name](environ)

    @pytest.fixture
    def config(self) -> dict[str, Any]:
        return {"timeout": PATIENCE}

    @pytest.fixture
    def slow_config(self, trial: Trial, tmp_path: Path) -> dict[str, Any]:
        """The same agent with another home, whose model never answers."""
        home = tmp_path / "slow-home"
        home.mkdir()
        url = trial.server.url(HANGS, trial.name)
        return {"env": {"HOME": str(home), **trial.cli.configure(home, url)}}
