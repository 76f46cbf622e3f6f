"""A look at a stopped run whose files are outdated, killed while it repairs them."""

import sys
from pathlib import Path

import pytest

from .case import CrashRun, Cut
from .checks import violations
from .points import baseline
from .scenarios import SCENARIOS, SESSION

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]

CUTS = ("rename:1:after", "rename:2:before", "unlink:1:before")


def test_killed_while_it_repairs_the_files_of_a_completed_run(tmp_path: Path) -> None:
    """The next look completes the repair; the log stays as it is."""
    run = CrashRun(tmp_path / "run", SCENARIOS["stage"])
    run.turn(SCENARIOS["stage"].command)
    story = run.story
    log, state = story.log.read_bytes(), story.run_dir / "state.json"
    lock = story.project / ".claude" / "locks" / f"{SESSION}.lock"
    for cut in CUTS:
        state.unlink()
        lock.write_text("{")
        kind, n, when = cut.split(":")
        run.turn(("status", SESSION), Cut("engine", kind, int(n), when, "engine"))
        assert run.was_killed, cut
        run.turn(("list",))
        assert not run.was_killed
        assert violations(story, baseline("stage").state) == [], cut
        assert story.log.read_bytes() == log
