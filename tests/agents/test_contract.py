"""The contract of providers, on the real CLIs."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.agents.clis import programs
from tests.agents.trial import PATIENCE, Trial

from agentforge.app.providers.offers import BUILTIN
from agentforge.model.spending import Amount
from agentforge.ports.provider import Provider
from agentforge.testing.model_server import Rule, Script, Turn, Write
from agentforge.testing.provider_contract import MARK, LeaveArtifacts, ProcessProviderContract

pytestmark = pytest.mark.agents
BEGINS, HEALS = "\\[artifact=", "was not accepted"
"""What is in the prompt of the first attempt, and of one that corrects the artifact of another."""
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

    @pytest.fixture
    def small_budget(self) -> Amount:
        return Amount(0.00001)

    @pytest.fixture
    def leaving(self, trial: Trial) -> LeaveArtifacts:
        def scripted(*artifacts: Any) -> tuple[Provider, dict[str, Any]]:
            first, second = (writing(artifact) for artifact in (*artifacts, artifacts[-1])[:2])
            script = Script(rules=(Rule(HEALS, second), Rule(BEGINS, first)))
            config = {"timeout": PATIENCE, "env": {MARK: trial.name}}
            return BUILTIN[trial.cli.name](trial.environ(script)), config

        return scripted


def writing(artifact: Any) -> tuple[Turn, ...]:
    result = '{"summary": "left it", "decision": "stop", "reason": "done"}'
    return (
        Turn("The artifact.", (Write("{artifact}", json.dumps(artifact)),)),
        Turn("The result.", (Write("{result}", result),)),
        Turn("Both are written."),
    )
