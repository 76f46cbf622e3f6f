"""An agent that isn't one: fixtures instead of a model, inside the engine's own process.

Where it stands in for another provider (`MOCK_MODE=true`), that one's config means nothing to it.
"""

import asyncio
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from agentforge.adapters.cli_agents.settings import ConfigReader
from agentforge.model.errors import InvalidRequest, ProviderUnusable, StorageFailed
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.result import Result, Signals
from agentforge.ports.provider import Capabilities, ExecuteRequest, ExecuteResult
from agentforge.system import files

JUDGE = "judge"
"""How the engine names the provider when it asks for a judgment."""
JUDGMENT = '{"stop": false, "reason": "Mock judgment - no fixture found", "confidence": 0.0}\n'
RESPONSE = """Mock response - no fixture found.

Completed mock iteration.

## Status
Written to result.json with plateau_suspected: false
"""
_NOTES = "Mock execution - more work simulated"


class MockConfig(Struct, frozen=True):
    fixtures_dir: str = ""
    delay: float = 0.0
    """How long an iteration pretends to work, in seconds."""
    responses: dict[int, str] = field(default_factory=dict)
    """Texts by iteration, above any fixture."""
    provider: str = ""
    """The provider that the mock stands in for."""


_PLAIN = MockConfig()


def mock_response(iteration: int, config: MockConfig = _PLAIN) -> str:
    """What the agent says."""
    if iteration in config.responses:
        return config.responses[iteration]
    fixture = _first(config, f"iteration-{iteration}.txt", "default.txt")
    if fixture is not None:
        return fixture
    return JUDGMENT if config.provider == JUDGE else RESPONSE


def write_mock_status(path: str, iteration: int, config: MockConfig = _PLAIN) -> None:
    """The status fixture as it stands, or one that says continue."""
    fixture = _status(config, iteration)
    files.replace(path, (_default_status(iteration) if fixture is None else fixture).encode())


def write_mock_result(path: str, iteration: int, config: MockConfig = _PLAIN) -> None:
    """The result fixture as it stands, or one without work."""
    fixture = _result(config, iteration)
    files.replace(path, (_default_result(iteration) if fixture is None else fixture).encode())


def write_mock_outcome(
    status_path: str, result_path: str, iteration: int, config: MockConfig = _PLAIN
) -> None:
    """One of the two, as an agent would: a status only where there is a status fixture and no result."""
    if _result(config, iteration) is None and _status(config, iteration) is not None:
        write_mock_status(status_path, iteration, config)
    else:
        write_mock_result(result_path, iteration, config)


def _result(config: MockConfig, iteration: int) -> str | None:
    return _first(config, f"result-{iteration}.json", "result.json")


def _status(config: MockConfig, iteration: int) -> str | None:
    return _first(config, f"status-{iteration}.json", "status.json")


def _first(config: MockConfig, *names: str) -> str | None:
    if not config.fixtures_dir:
        return None
    root = config.fixtures_dir
    # A name such as `../x` would lead out of the fixtures.
    is_plain = config.provider and "/" not in config.provider and not config.provider.startswith(".")
    own = [os.path.join(root, config.provider)] if is_plain else []
    for folder in filter(os.path.isdir, (*own, root)):
        for name in names:
            if (found := files.read_text(os.path.join(folder, name))) is not None:
                return found
    return None


def _default_result(iteration: int) -> str:
    result = Result(summary=f"Mock iteration {iteration} completed", signals=Signals(notes=_NOTES))
    return msgspec.json.encode(result).decode() + "\n"


def _default_status(iteration: int) -> str:
    status = {
        "decision": "continue",
        "reason": _NOTES,
        "summary": f"Mock iteration {iteration} completed",
        "work": {"items_completed": [], "files_touched": []},
        "errors": [],
    }
    return msgspec.json.encode(status).decode() + "\n"


class MockProvider:
    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        *,
        name: str = "mock",
        config: MockConfig | None = None,
    ) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self.name = name
        self._own = config or MockConfig()
        self._config = ConfigReader(name, MockConfig, msgspec.structs.asdict(self._own))

    async def init(self) -> None:
        """Nothing to set up."""

    async def shutdown(self) -> None:
        """Nothing to release."""

    def capabilities(self) -> Capabilities:
        return Capabilities(supports_tools=True, supports_reasoning_control=True, uses_files=True)

    def validate(self) -> None:
        folder = self._own.fixtures_dir or self._environ.get("MOCK_FIXTURES_DIR", "")
        if folder and not Path(folder).is_dir():
            raise ProviderUnusable(
                f"mock fixtures folder {folder} doesn't exist", hint="create it, or correct MOCK_FIXTURES_DIR"
            )

    def validate_settings(self, model: str, config: Mapping[str, Any]) -> None:  # noqa: ARG002 - the port's
        self._config.read(config)

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:
        began = time.monotonic()
        told = request.environment
        config = self._settings(request)
        iteration = int(told.get("MOCK_ITERATION") or request.iteration)
        if config.delay:
            await asyncio.sleep(config.delay)
        try:
            write_mock_outcome(
                told.get("MOCK_STATUS_FILE") or request.status_path,
                told.get("MOCK_RESULT_FILE") or request.result_path,
                iteration,
                config,
            )
            output = mock_response(iteration, config)
        except StorageFailed as error:
            failure = Failure(FailureKind.PROVIDER_CRASHED, f"mock iteration {iteration}: {error.message}")
            return ExecuteResult(exit_code=1, failure=failure)
        return ExecuteResult(output=output, duration_ms=round((time.monotonic() - began) * 1000))

    def _settings(self, request: ExecuteRequest) -> MockConfig:
        environ = {**self._environ, **request.environment}
        config = self._own if is_mock_mode(environ) else self._config.read(request.config)
        return msgspec.structs.replace(
            config,
            fixtures_dir=config.fixtures_dir or environ.get("MOCK_FIXTURES_DIR", ""),
            provider=config.provider or request.environment.get("MOCK_PROVIDER", ""),
        )


def is_mock_mode(environ: Mapping[str, str]) -> bool:
    """Whether every provider is to be replaced by the mock."""
    return environ.get("MOCK_MODE", "").strip().lower() == "true"


def mock_delay(environ: Mapping[str, str]) -> float:
    """Seconds between two iterations in mock mode, instead of the stage's own delay."""
    written = environ.get("MOCK_DELAY", "").strip() or "0"
    try:
        seconds = float(written)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InvalidRequest(
            f"MOCK_DELAY is {written!r}, which is no number of seconds",
            hint="set it to 0 or more, or unset it",
        )
    return seconds
