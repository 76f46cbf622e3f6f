"""Why an engine in the background stopped: kept until the next engine drives the run."""

from pathlib import Path

import pytest
from tests.sdk.projects import ENVIRON, engine, node, pipeline, run

from agentforge import Background, InvalidRequest, RunActive, Runs, StorageFailed, UnknownRun
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import crashes

FAILED = StorageFailed("disk full", hint="free some space")


def test_failure_before_the_log_exists_is_shown_by_the_next_command(tmp_path: Path) -> None:
    runs = Runs(tmp_path, ENVIRON)
    Background(runs).record_failure("s", FAILED)
    with pytest.raises(UnknownRun, match="session 's' did not start: disk full") as raised:
        runs.info("s")
    assert raised.value.hint == "free some space"
    assert [(found.session, found.code) for found in runs.stopped()] == [("s", "storage_failed")]
    folder = tmp_path / ".claude" / "pipeline-runs" / "s"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").touch()
    with pytest.raises(UnknownRun, match="did not start: disk full"):
        runs.info("s")


def test_reason_is_part_of_the_status_until_the_run_is_resumed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engine(tmp_path, ScriptedProvider([crashes(), crashes()])) as at:
            await at.run(pipeline(node(retry={"max_attempts": 1})), session="s")
            Background(at.runs).record_failure("s", FAILED)
            stopped = at.status("s").stopped
            assert stopped is not None
            assert stopped.message == "disk full"
            await at.resume("s")
            assert at.status("s").stopped is None
            assert at.runs.stopped() == []

    run(scenario())


def test_engine_that_finds_the_run_driven_by_another_leaves_no_reason(tmp_path: Path) -> None:
    runs = Runs(tmp_path, ENVIRON)
    Background(runs).record_failure("s", RunActive("already running"))
    assert runs.stopped() == []


def test_secrets_are_hidden_and_odd_files_are_skipped(tmp_path: Path) -> None:
    key = "sk-test-0123456789abcdef"
    runs = Runs(tmp_path, {**ENVIRON, "OPENAI_API_KEY": key})
    Background(runs).record_failure("s", InvalidRequest(f"no account for {key}"))
    (found,) = runs.stopped()
    assert found.message == "no account for [secret]"
    locks = tmp_path / ".claude" / "locks"
    (locks / "s.stopped").write_text("{")
    (locks / "-.stopped").symlink_to("s.stopped")
    (locks / "bad name.stopped").touch()
    assert runs.stopped() == []
