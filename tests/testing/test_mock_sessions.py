"""The shipped test helpers: they pass when it is so, and say what is wrong when it isn't."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentforge import testing
from agentforge.testing import (
    MockSession,
    assert_event_sequence,
    assert_iteration_count,
    assert_state_status,
    mock_session,
)

TWO = {"name": "two", "nodes": [{"id": "plan", "prompt": "x", "runs": 2}, {"id": "build", "prompt": "y"}]}


@pytest.fixture
def session(tmp_path: Path) -> MockSession:
    session = mock_session(
        tmp_path,
        {
            "iteration-1.txt": "the first answer",
            "default.txt": "another answer",
            "result-2.json": {"summary": "second", "decision": "stop"},
        },
    )
    session.run(TWO)
    return session


def rewrite_status(session: MockSession, status: str) -> None:
    (session.run_dir / "state.json").write_text(json.dumps(session.state_file() | {"status": status}))


def test_mock_session_runs_a_pipeline_on_its_fixtures(session: MockSession) -> None:
    here = session.run_dir / "stage-00-plan" / "iterations"
    assert (here / "001" / "output.md").read_text() == "the first answer\n"
    assert (here / "002" / "output.md").read_text() == "another answer\n"
    assert session.state_file()["history"][1]["summary"] == "second"


def test_mock_session_is_isolated(
    session: MockSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_PIPELINE_CONTEXT", "leaked")
    (tmp_path / "other").mkdir()
    other = mock_session(tmp_path / "other")
    other.run({"nodes": [{"id": "a", "prompt": "${CONTEXT}!"}]})
    assert (other.run_dir / "stage-00-a/iterations/001/prompt.md").read_text() == "!"
    assert other.project != session.project
    assert_iteration_count(other, 1)


def test_mock_session_takes_a_folder_of_fixtures_and_resumes(tmp_path: Path) -> None:
    folder = tmp_path / "canned"
    folder.mkdir()
    (folder / "result-1.json").write_text('{"decision": "error", "reason": "stuck"}')
    session = mock_session(tmp_path, folder, name="mine")
    assert session.run(TWO).error == "Agent reported error: stuck"
    assert_state_status(session, "failed")
    (folder / "result-1.json").unlink()
    assert session.resume("go on").completed
    assert_state_status(session, "completed")


def test_assert_iteration_count(session: MockSession) -> None:
    assert_iteration_count(session, 3)
    with pytest.raises(AssertionError, match=r"completed 3 iterations instead of 4: \[\('0', 1\)"):
        assert_iteration_count(session, 4)


def test_assert_state_status(session: MockSession) -> None:
    assert_state_status(session, "completed")
    with pytest.raises(AssertionError, match="'mock' is completed instead of failed: no reason given"):
        assert_state_status(session, "failed")


def test_assert_state_status_detects_another_status_in_the_state_file(session: MockSession) -> None:
    rewrite_status(session, "x")
    with pytest.raises(AssertionError, match=r"state\.json of session 'mock' has x instead of completed"):
        assert_state_status(session, "completed")


def test_assert_state_status_of_an_interrupted_run(session: MockSession) -> None:
    log = session.run_dir / "events.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    rewrite_status(session, "running")
    assert_state_status(session, "interrupted")


ITERATION = ["iteration_start", "attempt_start", "iteration_complete"]
ALL = [
    "session_start",
    "node_start",
    *ITERATION,
    *ITERATION,
    "node_complete",
    "node_start",
    *ITERATION,
    "node_complete",
    "session_complete",
]


@pytest.mark.parametrize(
    "types",
    [
        ALL,
        [...],
        ["session_start", ..., "session_complete"],
        [..., "node_complete", "node_start", ...],
        [..., *ITERATION, ..., "session_complete"],
        ["session_start", ..., *ITERATION, "node_complete", ..., "node_complete", "session_complete"],
        [..., *ALL, ...],
    ],
)
def test_assert_event_sequence(session: MockSession, types: list[object]) -> None:
    assert_event_sequence(session, types)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "types",
    [
        [],
        ALL[:-1],
        ALL[1:],
        [*ALL, "session_complete"],
        ["session_start", ..., "error", ...],
        [..., "node_start"],
        [..., "node_start", "node_start", ...],
        ["node_start", ...],
    ],
)
def test_assert_event_sequence_reports_the_emitted_events(session: MockSession, types: list[object]) -> None:
    with pytest.raises(AssertionError, match="session_start, node_start, iteration_start"):
        assert_event_sequence(session, types)  # type: ignore[arg-type]


def test_names_that_the_kit_exports() -> None:
    acts = {"crashes", "fails", "raises", "returns", "says", "writes", "writes_nothing", "writes_status"}
    contracts = {
        "ClockContract",
        "EventLogContract",
        "LeaveArtifacts",
        "LogHarness",
        "MakeRequest",
        "ProcessProviderContract",
        "ProviderContract",
    }
    sessions = {"Fixtures", "MockSession", "ObservedSession", "mock_session"}
    assertions = {"assert_event_sequence", "assert_iteration_count", "assert_state_status"}
    others = {"Act", "FakeClock", "MemoryLog", "ScriptedProvider"}
    assert set(testing.__all__) == acts | contracts | sessions | assertions | others
    assert all(getattr(testing, name) for name in testing.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Contract'"):
        _ = testing.Contract


def test_the_kit_without_its_contracts_needs_no_pytest() -> None:
    program = "import sys, agentforge.testing; sys.exit('pytest' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
