"""Real SIGKILL around the ledger of the day: at the end of the run it has the sum of what ran, and nothing is
reserved."""

import sys
from pathlib import Path

import pytest
from tests.sampling import one_in

from .case import Case, play
from .checks import violations
from .points import baseline

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


@pytest.mark.parametrize("kill", one_in(3, KILLS))
def test_ledger_has_the_sum_of_what_ran(kill: str, tmp_path: Path) -> None:
    story = play(tmp_path / "run", Case.parse(f"daily {KILLS[kill]}")).story
    assert violations(story, baseline("daily").state) == []
    assert story.killed
