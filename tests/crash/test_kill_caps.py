"""Real SIGKILL below a cap on spending. The oracle is the agents' own ledger: what they have spent isn't more
than the log says, and that isn't more than the cap with what people granted."""

import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.sampling import one_in

from .case import Case, CrashRun, Cut, Moment, play
from .checks import final_state, violations
from .points import SUBSETS, baseline
from .scenarios import COST, SCENARIOS, SESSION, crowd

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]

ALL = "engine+supervisor+agent"
KILLS = {
    "before the reservation": f"engine:append=attempt_start:1:before:{ALL}",
    "in the middle of the reservation": "engine:append=attempt_start:1:during:engine",
    "between the reservation and the start of the agent": f"engine:append=attempt_start:1:after:{ALL}",
    "before the second agent runs": "engine:spawn:2:before:engine",
    "while agents run": "agent:note:1:after:engine",
    "while agents run, with them": f"agent:note:2:after:{ALL}",
    "when an agent has spent, with it": f"agent:note:4:after:{ALL}",
    "before the outcome": "engine:append=iteration_complete:1:before:engine",
    "in the middle of the outcome": "engine:append=iteration_complete:1:during:engine",
    "after the outcome": "engine:append=iteration_complete:1:after:engine",
    "after the outcome that says nothing": "engine:append=error:1:after:engine",
    "in the middle of the question": "engine:append=request_opened:1:during:engine",
    "while an answer is given": "- engine:link:1:before:engine",
    "after the answer": "- engine:append=request_answered:1:after:engine",
    "when the run continues": "- engine:append=session_continued:1:after:engine",
    "before the grant": "- engine:append=request_resolved:1:before:engine",
    "in the middle of the grant": "- engine:append=request_resolved:1:during:engine",
    "after the grant": "- engine:append=request_resolved:1:after:engine",
    "while the judge runs": f"- engine:append=judge_start:1:after:{ALL}",
    "after the judge has answered": "- engine:append=judge_complete:1:before:engine",
}


@pytest.mark.parametrize("kill", one_in(5, KILLS))
def test_killed(kill: str, tmp_path: Path) -> None:
    story = play(tmp_path / "run", Case.parse(f"capped {KILLS[kill]}")).story
    assert violations(story, baseline("capped").state) == []
    assert story.killed


@pytest.mark.parametrize("when", one_in(3, ["after", "during", "before"]))
def test_killed_while_a_resume_sets_another_cap(when: str, tmp_path: Path) -> None:
    """The command is given again, as a person would: what was set before doesn't count twice."""
    crashed = CrashRun(tmp_path / "run", SCENARIOS["capped"])
    story, raised = crashed.story, ("resume", SESSION, "--max-cost", "3.5")
    crashed.turn(story.scenario.command)
    crashed.turn(raised, Cut("engine", "append=plan_changed", 1, when, "engine"))
    crashed.turn(raised)
    assert violations(story, baseline("capped").state) == []
    assert story.killed == [("engine", "")]
    effects = [event["data"]["effect"] for event in story.events() if event["type"] == "request_resolved"]
    assert effects == ["reset"], "nothing was granted"


NAMES = [f"p{number:02d}" for number in range(1, 17)]
CROWD = replace(SCENARIOS["capped"], nodes=crowd(*NAMES), agent={"AGENT_COSTS": str(COST)})


@pytest.mark.parametrize("seed", one_in(6, range(6)))
def test_sixteen_branches_that_are_killed_at_random_spend_no_more_than_the_cap(
    seed: int, tmp_path: Path
) -> None:
    dice = random.Random(seed)
    crashed = CrashRun(tmp_path / "run", CROWD)
    story = crashed.play(tuple(Moment(dice.uniform(0.3, 2.5), dice.choice(SUBSETS)) for _ in range(4)))
    assert violations(story, final_state(story)) == []
    paid = [note["attempt"] for note in story.notes() if note["what"] == "paid"]
    assert {attempt.split("/")[0] for attempt in paid} == {f"0.0@{name}" for name in NAMES}
