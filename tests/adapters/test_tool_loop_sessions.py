"""Conversations on disk: resumed, repaired after an interruption, started over if they are lost."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.adapters.api_tasks import KEY, WORK, Ran, task

from agentforge.testing.model_server import Fault, ModelServer, Script, Turn
from agentforge.tool_loop.task import SessionBegun, Warned


def test_session_is_resumed(model_server: ModelServer, wire_format: str, tmp_path: Path) -> None:
    """The first try ends in the middle; the second has the whole conversation before it."""
    failing = replace(WORK, faults=(Fault(401, after=1, times=1),))
    work = task(model_server, failing, wire_format, tmp_path)
    first = Ran(work).outcome
    assert first.failure is not None
    second = Ran(replace(work, resume=first.session))
    assert second.outcome.failure is None
    assert second.outcome.session == first.session
    assert second.of(SessionBegun)[0].resumed
    asked = model_server.requests("t")[-1]
    assert asked.results == ("wrote hello.txt (6 bytes)",)
    assert asked.prompts[0].endswith("Do the work.")
    assert "You were interrupted" in asked.prompts[-1]
    assert sum("Do the work." in prompt for prompt in asked.prompts) == 1


def test_another_prompt_follows_in_the_same_session(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    work = task(model_server, Script((Turn("First."),)), wire_format, tmp_path)
    first = Ran(work).outcome
    Ran(replace(work, prompt="And now this.", resume=first.session))
    assert "And now this." in model_server.requests("t")[-1].prompts[-1]


def test_session_interrupted_within_a_tool_closes_the_open_call(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    work = task(model_server, WORK, wire_format, tmp_path)
    first = Ran(work).outcome
    path = tmp_path / f"iteration/api-sessions/{first.session}.json"
    kept = json.loads(path.read_text())
    # As it is while the first tool runs: the model has called, and nothing has answered.
    kept["messages"] = kept["messages"][:2]
    path.write_text(json.dumps(kept))
    second = Ran(replace(work, resume=first.session)).outcome
    assert second.failure is None
    assert len(model_server.requests("t")[-1].results) == 1


@pytest.mark.parametrize("damage", ["gone", "torn", "hostile name"])
def test_missing_session_starts_a_new_one_with_a_warning(
    model_server: ModelServer, tmp_path: Path, damage: str
) -> None:
    work = task(model_server, WORK, "openai", tmp_path)
    first = Ran(work).outcome.session
    path = tmp_path / f"iteration/api-sessions/{first}.json"
    if damage == "torn":
        path.write_bytes(path.read_bytes()[:50])
    elif damage == "gone":
        path.unlink()
    again = Ran(replace(work, resume=first if damage != "hostile name" else f"../api-sessions/{first}"))
    assert again.outcome.failure is None
    assert again.outcome.session != first
    assert "not found: starting a new one" in again.of(Warned)[0].message


def test_key_is_sent_and_kept_nowhere(model_server: ModelServer, wire_format: str, tmp_path: Path) -> None:
    Ran(task(model_server, WORK, wire_format, tmp_path))
    headers = model_server.requests("t")[0].headers
    assert any(KEY in value for value in headers.values())
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes()
