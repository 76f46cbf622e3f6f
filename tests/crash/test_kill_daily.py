"""Real SIGKILL around the ledger of the day: at the end of the run it has the sum of what ran, and nothing is
reserved."""

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests.sampling import one_in

from .case import MAX_TURNS, Case, CrashRun, Moment, play
from .checks import violations
from .points import any_moment, baseline
from .scenarios import FIGURE, SCENARIOS, SESSION

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]

ALL = "engine+supervisor+agent"
KILLS = {
    "before the reservation": f"engine:write=ledger.jsonl:1:before:{ALL}",
    "in the middle of the reservation": f"engine:write=ledger.jsonl:1:during:{ALL}",
    "before the reservation is on the disk": f"engine:sync=ledger.jsonl:1:before:{ALL}",
    "between the reservation and its event": "engine:append=daily_cap:1:before:engine",
    "in the middle of its event": "engine:append=daily_cap:2:during:engine",
    "between its event and the start of the agent": "engine:append=attempt_start:2:before:engine",
    "in the middle of the start": "engine:append=attempt_start:2:during:engine",
    "after the intent": f"engine:sync=attempt_start:1:after:{ALL}",
    "before the agent runs": "engine:spawn:1:before:engine",
    "while the agent runs": "agent:note:1:after:engine",
    "while the agent runs, with it": f"agent:note:1:after:{ALL}",
    "between the outcome and the settlement": "engine:write=ledger.jsonl:2:before:engine",
    "in the middle of the settlement": "engine:write=ledger.jsonl:2:during:engine",
    "between the settlement and its event": "engine:append=iteration_complete:1:before:engine",
    "in the middle of the event of a failure": "engine:append=error:1:during:engine",
    "while the judge runs": f"engine:append=judge_start:1:after:{ALL}",
    "between the settlement of the judge and its event": "engine:append=judge_complete:1:before:engine",
}


@pytest.mark.parametrize("kill", one_in(5, KILLS))
def test_ledger_has_the_sum_of_what_ran(kill: str, tmp_path: Path) -> None:
    story = play(tmp_path / "run", Case.parse(f"daily {KILLS[kill]}")).story
    assert violations(story, baseline("daily").state) == []
    assert story.killed


SHARED = 2.5
"""The cap of both runs together: for five of the eight attempts that they want."""


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_two_runs_that_are_killed_at_random_spend_no_more_than_the_day_allows(
    seed: int, tmp_path: Path
) -> None:
    dice = random.Random(seed)
    work = f"  - {{id: work, prompt: x, runs: 4, max_iteration_cost_usd: {FIGURE}}}\n"
    scenario = replace(
        SCENARIOS["daily"], nodes=work, agent={}, settings=f"limits: {{daily_usd: {SHARED}}}\n"
    )
    both = [CrashRun(tmp_path / name, scenario) for name in ("one", "other")]

    def drive(run: CrashRun, kills: list[Moment | None]) -> None:
        run.also = {"XDG_STATE_HOME": str(tmp_path / "state")}
        while run.turns < MAX_TURNS and not run.story.trouble:
            status = run.story.status()
            if status == "completed" or (status == "paused" and run.story.open_requests()):
                return
            commands = {"unborn": scenario.command, "running": ("recover", SESSION)}
            run.turn(commands.get(status, ("resume", SESSION)), kills.pop() if kills else None)

    plans = [[any_moment("daily", dice) for _ in range(3)] for _ in both]
    with ThreadPoolExecutor() as threads:
        list(threads.map(drive, both, plans))
    assert [run.story.trouble for run in both] == [[], []]
    # The agents' own ledgers tell how many began, whatever became of them.
    began = [note["attempt"] for run in both for note in run.story.notes() if note["what"] == "start"]
    assert len(began) * FIGURE <= SHARED
    asked = [request["reason"] for run in both for request in run.story.open_requests()]
    assert asked, "one of them needs a person"
    # One that is killed again and again while it waits for the other asks about that.
    assert {*asked} <= {"spending_cap", "recoveries_without_progress"}
