"""A mock agent: fixtures instead of a model, in the engine's process.

When it replaces another provider (`MOCK_MODE=true`), it ignores that provider's config.
"""

import asyncio
import math
import os
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from agentforge.adapters.cli_agents.settings import ConfigReader
from agentforge.adapters.providers.schema_example import example_of
from agentforge.model.errors import InvalidRequest, ProviderUnusable, StorageFailed
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.result import Result, Signals
from agentforge.model.spending import NOTHING, UNITS
from agentforge.ports.provider import Capabilities, Endpoints, ExecuteRequest, ExecuteResult
from agentforge.system import files

JUDGE = "judge"
"""The provider name that the engine uses for a judgment."""
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
    """Simulated duration of an iteration, in seconds."""
    responses: dict[int, str] = field(default_factory=dict)
    """Texts by iteration; override the fixtures."""
    provider: str = ""
    """The provider that the mock replaces."""


_PLAIN = MockConfig()


def mock_response(iteration: int, config: MockConfig = _PLAIN) -> str:
    """The agent's output."""
    if iteration in config.responses:
        return config.responses[iteration]
    fixture = _first(config, f"iteration-{iteration}.txt", "default.txt")
    if fixture is not None:
        return fixture
    return JUDGMENT if config.provider == JUDGE else RESPONSE


def write_mock_status(path: str, iteration: int, config: MockConfig = _PLAIN) -> None:
    """Write the status fixture unchanged, or a default that continues."""
    fixture = _status(config, iteration)
    if fixture is None:
        status = {
            "decision": "continue",
            "reason": _NOTES,
            "summary": f"Mock iteration {iteration} completed",
            "work": {"items_completed": [], "files_touched": []},
            "errors": [],
        }
        fixture = msgspec.json.encode(status).decode() + "\n"
    files.replace(path, fixture.encode())


def write_mock_result(path: str, iteration: int, config: MockConfig = _PLAIN) -> None:
    """Write the result fixture unchanged, or a default without work."""
    fixture = _result(config, iteration)
    if fixture is None:
        result = Result(summary=f"Mock iteration {iteration} completed", signals=Signals(notes=_NOTES))
        fixture = msgspec.json.encode(result).decode() + "\n"
    files.replace(path, fixture.encode())


def write_mock_outcome(
    status_path: str, result_path: str, iteration: int, config: MockConfig = _PLAIN
) -> None:
    """Write one of the two, as an agent would: a status only if there is a status fixture and no result."""
    if _result(config, iteration) is None and _status(config, iteration) is not None:
        write_mock_status(status_path, iteration, config)
    else:
        write_mock_result(result_path, iteration, config)


def write_mock_artifact(request: ExecuteRequest, iteration: int, config: MockConfig = _PLAIN) -> None:
    """Write the artifact fixture unchanged, or the simplest object that matches the schema, if it is a simple
    one. A fixture can be for one stage, since each has a schema of its own, and for one attempt."""
    names = []
    for name in (f"artifact-{request.stage}", "artifact"):
        numbered = f"{name}-{iteration}"
        names += [f"{numbered}-attempt-{request.attempt}.json", f"{numbered}.json", f"{name}.json"]
    fixture = _first(config, *(name for name in names if "/" not in name))
    if fixture is None and request.schema is not None:
        example = example_of(request.schema)
        fixture = None if example is None else msgspec.json.encode(example).decode() + "\n"
    if fixture is not None:
        files.replace(request.artifact_path, fixture.encode())


def _result(config: MockConfig, iteration: int) -> str | None:
    return _first(config, f"result-{iteration}.json", "result.json")


def _status(config: MockConfig, iteration: int) -> str | None:
    return _first(config, f"status-{iteration}.json", "status.json")


def _first(config: MockConfig, *names: str) -> str | None:
    if not config.fixtures_dir:
        return None
    root = config.fixtures_dir
    # A name such as `../x` would escape the fixtures folder.
    is_plain = config.provider and "/" not in config.provider and not config.provider.startswith(".")
    own = [os.path.join(root, config.provider)] if is_plain else []
    for folder in (*own, root):
        for name in names:
            if (found := files.read_named(os.path.join(folder, name))) is not None:
                return found.decode("utf-8", "replace")
    return None


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

    def endpoints(self, model: str, config: Mapping[str, Any]) -> Endpoints:  # noqa: ARG002 - the port's
        return Endpoints()

    async def init(self) -> None:
        """Nothing to set up."""

    async def shutdown(self) -> None:
        """Nothing to release."""

    def capabilities(self) -> Capabilities:
        return Capabilities(
            supports_tools=True, supports_reasoning_control=True, uses_files=True, bounds=UNITS
        )

    def validate(self) -> None:
        folder = self._own.fixtures_dir or self._environ.get("MOCK_FIXTURES_DIR", "")
        if folder and not files.is_dir(os.path.realpath(folder)):
            raise ProviderUnusable(
                f"mock fixtures folder {folder} doesn't exist", hint="create it, or fix MOCK_FIXTURES_DIR"
            )

    def validate_settings(self, model: str, config: Mapping[str, Any]) -> list[str]:  # noqa: ARG002 - the port's
        return self._config.validate(config)

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:
        began = time.monotonic()
        given = request.environment
        used = NOTHING if request.budget else None
        config = self._settings(request)
        iteration = int(given.get("MOCK_ITERATION") or request.iteration)
        if config.delay:
            await asyncio.sleep(config.delay)
        try:
            write_mock_outcome(
                given.get("MOCK_STATUS_FILE") or request.status_path,
                given.get("MOCK_RESULT_FILE") or request.result_path,
                iteration,
                config,
            )
            if request.artifact_path:
                write_mock_artifact(request, iteration, config)
            output = mock_response(iteration, config)
        except StorageFailed as error:
            failure = Failure(FailureKind.PROVIDER_CRASHED, f"mock iteration {iteration}: {error.message}")
            return ExecuteResult(exit_code=1, failure=failure, usage=used)
        return ExecuteResult(output=output, duration_ms=round((time.monotonic() - began) * 1000), usage=used)

    def _settings(self, request: ExecuteRequest) -> MockConfig:
        environ = {**self._environ, **request.environment}
        # In mock mode, the request has the config of the provider that is replaced.
        config = self._own if is_mock_mode(environ) else self._config.read(request.config)
        return msgspec.structs.replace(
            config,
            fixtures_dir=config.fixtures_dir or environ.get("MOCK_FIXTURES_DIR", ""),
            provider=config.provider or request.environment.get("MOCK_PROVIDER", ""),
        )


def is_mock_mode(environ: Mapping[str, str]) -> bool:
    """Whether the mock replaces all providers."""
    return environ.get("MOCK_MODE", "").strip().lower() == "true"


def mock_delay(environ: Mapping[str, str]) -> float:
    """Seconds between two iterations in mock mode; overrides the stage's delay."""
    written = environ.get("MOCK_DELAY", "").strip() or "0"
    try:
        seconds = float(written)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InvalidRequest(
            f"MOCK_DELAY must be a number of seconds, got {written!r}",
            hint="set it to 0 or more, or unset it",
        )
    return seconds
