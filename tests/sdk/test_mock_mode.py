"""Mock mode end to end: no provider needed, no delays, and remembered by the run."""

from pathlib import Path

import pytest
from tests.sdk.projects import ENVIRON, load

from agentforge.model.errors import InvalidRequest, ProviderUnusable
from agentforge.sdk.sync import SyncEngine
from agentforge.testing import FakeClock, assert_iteration_count, assert_state_status, mock_session

LOOP = {
    "nodes": [{"id": "plan", "prompt": "x", "runs": 3, "delay": 60, "provider": "claude", "model": "opus"}]
}


def test_single_stage_pipeline_runs_n_iterations_without_any_agent_installed(tmp_path: Path) -> None:
    session = mock_session(tmp_path, {"default.txt": "said"})
    assert session.run(LOOP).completed
    assert_state_status(session, "completed")
    assert_iteration_count(session, 3)
    for number in (1, 2, 3):
        here = session.run_dir / "stage-00-plan" / "iterations" / f"{number:03d}"
        assert sorted(path.name for path in here.iterdir()) == [
            "context.json",
            "output.md",
            "prompt.md",
            "result.json",
        ]
        assert load(here / "result.json")["summary"] == f"Mock iteration {number} completed"


@pytest.mark.parametrize(("delay", "waits"), [(None, []), ("0", []), ("7", [7.0, 7.0])])
def test_mock_mode_skips_delays_and_mock_delay_overrides(
    tmp_path: Path, delay: str | None, waits: list[float]
) -> None:
    clock = FakeClock()
    environ = {**ENVIRON, "MOCK_MODE": "true", **({"MOCK_DELAY": delay} if delay else {})}
    with SyncEngine(tmp_path, environ=environ, clock=clock) as sdk:
        assert sdk.run(LOOP, session="s").completed
    assert clock.waits == waits


def test_mock_delay_that_is_not_a_number_is_refused(tmp_path: Path) -> None:
    environ = {**ENVIRON, "MOCK_MODE": "true", "MOCK_DELAY": "soon"}
    with SyncEngine(tmp_path, environ=environ) as sdk, pytest.raises(InvalidRequest, match="MOCK_DELAY"):
        sdk.run(LOOP, session="s")


def test_fixtures_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    session = mock_session(tmp_path, tmp_path / "nowhere")
    with pytest.raises(ProviderUnusable, match="nowhere doesn't exist"):
        session.run(LOOP)


def test_run_started_in_mock_mode_stays_in_it(tmp_path: Path) -> None:
    """What the environment decided when a run began decides a resume too."""
    session = mock_session(tmp_path, {"result-2.json": {"decision": "error", "reason": "stuck"}})
    assert session.run(LOOP).error_type == "agent_error"
    environ = {**ENVIRON, "XDG_STATE_HOME": session.environ["XDG_STATE_HOME"]}
    with SyncEngine(session.project, environ=environ) as without:
        assert without.resume(session.name).completed
    assert_iteration_count(session, 3)


def test_mock_fixtures_of_the_replaced_provider_come_first(tmp_path: Path) -> None:
    session = mock_session(tmp_path, {"default.txt": "of anybody"})
    (session.fixtures / "claude").mkdir()
    (session.fixtures / "claude" / "iteration-1.txt").write_text("of claude")
    session.run(LOOP)
    outputs = [
        (session.run_dir / f"stage-00-plan/iterations/{number:03d}/output.md").read_text()
        for number in (1, 2)
    ]
    assert outputs == ["of claude\n", "of anybody\n"]
