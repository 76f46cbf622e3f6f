"""What an engine was killed at while refusing it is reported once, and moved aside."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.sampling import one_in

from .case import CrashRun, Cut
from .checks import violations
from .points import baseline
from .scenarios import SCENARIOS

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]

JUNK = "0.json"
KILLS = (
    *(f"append=file_refused:{when}" for when in ("before", "during", "after")),
    "aside:before",
    "aside:after",
)


def refused(run: CrashRun) -> list[str]:
    return [event["data"]["moved_to"] for event in run.story.events() if event["type"] == "file_refused"]


@pytest.mark.parametrize("kill", one_in(4, KILLS))
def test_an_invalid_control_is_reported_once_and_moved_aside(tmp_path: Path, kill: str) -> None:
    run = CrashRun(tmp_path / "run", SCENARIOS["pause"])
    run.turn(run.story.scenario.command, Cut("engine", "append", 1, "after", "engine"))
    control = run.story.run_dir / "control"
    control.mkdir(exist_ok=True)
    (control / JUNK).write_text("junk")
    kind, when = kill.split(":")
    run.turn(("recover",), Cut("engine", kind, 1, when, "engine"))
    assert run.was_killed
    run.play(())
    assert refused(run) == [f"{JUNK}.refused"]
    assert (control / f"{JUNK}.refused").read_text() == "junk"
    assert violations(run.story, baseline("pause").state) == []


@pytest.mark.parametrize("kill", one_in(4, KILLS))
def test_a_planted_folder_of_an_attempt_is_reported_once_and_moved_aside(tmp_path: Path, kill: str) -> None:
    scenario = SCENARIOS["retry"]
    run = CrashRun(tmp_path / "run", replace(scenario, agent={**scenario.agent, "AGENT_PLANTS": "0/1"}))
    kind, when = kill.split(":")
    run.play((Cut("engine", kind, 1, when, "engine"),))
    assert [role for role, _ in run.story.killed] == ["engine"]
    assert refused(run) == ["attempt-2.refused"]
    here = next(run.story.run_dir.glob("stage-00-*/iterations/001"))
    for name in ("claim", "exit.json", "output.log"):
        assert (here / "attempt-2.refused" / name).read_text() == "planted"
        own = here / "attempt-2" / name
        assert not own.exists() or own.read_text() != "planted"
    assert violations(run.story, baseline("retry").state) == []
