"""The scripted provider of the test kit is a provider like any other."""

from typing import Any

import pytest

from agentforge.ports.provider import ExecuteRequest, ExecuteResult, Provider
from agentforge.testing import ScriptedProvider
from agentforge.testing.provider_contract import LeaveArtifacts, ProviderContract
from agentforge.testing.scripted_provider import says


class AsConfigured(ScriptedProvider):
    """Takes as long as the request's config says."""

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:
        self._seconds = request.config.get("seconds", 0)  # Read before anything else runs.
        return await super().execute(request)


class TestScriptedContract(ProviderContract):
    @pytest.fixture
    def provider(self) -> Provider:
        return AsConfigured([says("hello")])

    @pytest.fixture
    def slow_config(self) -> dict[str, Any]:
        return {"seconds": 300}

    @pytest.fixture
    def leaving(self) -> LeaveArtifacts:
        return lambda *artifacts: (AsConfigured([says("left", artifact=one) for one in artifacts]), {})


class TestOneCallAtATimeContract(TestScriptedContract):
    @pytest.fixture
    def provider(self) -> Provider:
        return AsConfigured([says("hello")], concurrent=False)


class TestLateContract(TestScriptedContract):
    @pytest.fixture
    def provider(self) -> Provider:
        return AsConfigured([says("hello")], late=True)
