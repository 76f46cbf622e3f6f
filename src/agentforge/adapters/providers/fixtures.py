"""Canned answers for the mock provider: which file of a fixtures folder stands for an iteration.

The first that exists counts: `iteration-N.txt`, `default.txt` for the text; `result-N.json`,
`result.json`, `status-N.json`, `status.json` for the outcome. A folder named like the provider that the
mock stands in for is looked at first.
"""

import os

import msgspec
from msgspec import Struct, field

from agentforge.host import files
from agentforge.model.result import Result, Signals

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
