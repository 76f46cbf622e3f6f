"""`--force` over a run whose agent is still running, killed during it: the complete old run is archived,
its agent is ended, and the new run isn't affected."""

import json
import sys
import time
from pathlib import Path

import pytest
from tests.sampling import one_in

from .case import CrashRun, Cut, PlannedKill
from .checks import violations
from .points import baseline
from .scenarios import SCENARIOS, SESSION

BEGIN = SCENARIOS["plain"].command

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]

FORCED = (*BEGIN, "--force")
OLD_AGENT_SECONDS = "30"


def orphaned(tmp_path: Path) -> tuple[CrashRun, bytes]:
    """A run whose engine was killed while its agent is running, and its log."""
    run = CrashRun(tmp_path / "run", SCENARIOS["plain"])
    env = run.environment(1) | {"AGENT_SECONDS": OLD_AGENT_SECONDS}
    engine = run.start("engine", BEGIN, env)
    until = time.monotonic() + 60
    while not run.story.notes() and time.monotonic() < until:
        time.sleep(0.01)
    engine.kill()
    engine.wait()
    run.turns = 1
    log = run.story.log.read_bytes()
    run.story.ledger = run.story.base / "ledger of the new run"
    return run, log


def archived_runs(run: CrashRun) -> list[Path]:
    return sorted(run.story.run_dir.parent.glob(f"{SESSION}.*"))


def expect_new_run_and_archived_old_one(run: CrashRun, old_log: bytes, old_notes: Path) -> None:
    assert violations(run.story, baseline("plain").state) == []
    first = (archived_runs(run)[0] / "events.jsonl").read_bytes()
    assert first.startswith(old_log)
    assert json.loads(first.splitlines()[-1])["type"] == "session_aborted"
    assert [json.loads(line)["what"] for line in old_notes.read_text().splitlines()] == ["start"]


def test_force_ends_the_agent_of_an_interrupted_run_and_archives_the_run(tmp_path: Path) -> None:
    run, log = orphaned(tmp_path)
    run.turn(FORCED)
    assert len(archived_runs(run)) == 1
    expect_new_run_and_archived_old_one(run, log, run.story.base / "ledger")


PLANNED_KILLS = [
    Cut("engine", "signal", 1, "before", "engine"),
    Cut("engine", "append", 2, "during", "engine"),
    Cut("engine", "rename", 3, "before", "engine"),
    Cut("engine", "rename", 4, "after", "engine"),
    Cut("engine", "append", 5, "after", "engine+supervisor+agent"),
]


@pytest.mark.parametrize("planned_kill", one_in(2, PLANNED_KILLS), ids=str)
def test_engine_killed_during_force(tmp_path: Path, planned_kill: PlannedKill) -> None:
    run, log = orphaned(tmp_path)
    run.turn(FORCED, planned_kill)
    assert run.story.killed, "no process was killed"
    run.story.logs.clear()  # The log is archived by the next --force.
    run.story.killed.clear()
    run.story.ledger = run.story.base / "ledger of the third run"
    run.turn(FORCED)
    expect_new_run_and_archived_old_one(run, log, run.story.base / "ledger")
