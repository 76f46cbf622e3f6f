"""A folder with the name of a new run, but without a log: nothing in it counts for that run."""

from pathlib import Path

import pytest
from tests.sdk.projects import ENVIRON, load, node, pipeline, run, run_dir

from agentforge.sdk.engine import Engine
from agentforge.views.results import RunResult

WORKS = {"type": "command", "run": 'echo x >> worked; echo \'{"summary": "x"}\' > "$AGENTFORGE_RESULT"'}


def go(project: Path) -> RunResult:
    async def main() -> RunResult:
        async with Engine(project, environ=ENVIRON) as sdk:
            return await sdk.run(pipeline(node(provider=WORKS)), session="s")

    return run(main())


@pytest.mark.parametrize("left", ["no log", "an empty log"])
def test_folder_without_a_log_is_moved_aside_and_its_exit_records_do_not_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, left: str
) -> None:
    assert go(tmp_path).completed
    log = run_dir(tmp_path) / "events.jsonl"
    log.unlink() if left == "no log" else log.write_bytes(b"")
    assert go(tmp_path).completed
    assert (tmp_path / "worked").read_text() == "x\nx\n"
    (aside,) = run_dir(tmp_path).parent.glob("s.*")
    assert load(aside / "stage-00-plan/iterations/001/attempt-1/exit.json")["status"] == "exited"
    assert f"it was moved to {aside.name}" in caplog.text


def test_empty_folder_is_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run_dir(tmp_path).mkdir(parents=True)
    assert go(tmp_path).completed
    assert [entry.name for entry in run_dir(tmp_path).parent.iterdir() if entry.name[0] != "."] == ["s"]
    assert "moved" not in caplog.text
