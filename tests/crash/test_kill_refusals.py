"""An invalid control whose engine was killed while refusing it is reported once, and moved aside."""

import sys
from pathlib import Path

import pytest

from .case import CrashRun, Cut
from .checks import violations
from .points import baseline
from .scenarios import SCENARIOS

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]

JUNK = "0.json"


@pytest.mark.parametrize(
    "kill", ["append:1:before", "append:1:during", "append:1:after", "rename:2:before", "rename:2:after"]
)
def test_it_is_reported_once_and_moved_aside(tmp_path: Path, kill: str) -> None:
    run = CrashRun(tmp_path / "run", SCENARIOS["pause"])
    run.turn(run.story.scenario.command, Cut("engine", "append", 1, "after", "engine"))
    control = run.story.run_dir / "control"
    control.mkdir(exist_ok=True)
    (control / JUNK).write_text("junk")
    kind, n, when = kill.split(":")
    run.turn(("recover",), Cut("engine", kind, int(n), when, "engine"))
    assert run.was_killed
    run.play(())
    refused = [event["data"]["moved_to"] for event in run.story.events() if event["type"] == "file_refused"]
    assert refused == [f"{JUNK}.refused"]
    assert (control / f"{JUNK}.refused").read_text() == "junk"
    assert violations(run.story, baseline("pause").state) == []
