"""Real SIGKILL in every stage of the built-in loop: the visits are the same, no step is done twice, and the
files at the end are the same."""

import sys
from collections import Counter
from itertools import product
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
STAGES = {
    "planner": ("0/1", 3),
    "executor, second step": ("1/2", 7),
    "check before the verifier": ("2/0/check/test", 9),
    "verifier": ("2~2/1", 15),
    "reviewer": ("3/1", 17),
}
"""Where its agent works, and the note in the ledger with which it begins: all take two, and the check before
the first agent is one of them."""
PLACES = ("0/1", "1/1", "1/2", "1~2/1", "2~2/1", "3/1", "0~2/1", "1~3/1", "2~3/1", "3~2/1")
"""Of the agents in an uninterrupted run."""
FILES = {f"made/{step}.txt": f"done {step.replace('-', '/')}\n" for step in ("1-1", "1-2", "1~2-1", "1~3-1")}


KILLED = (*one_in(2, product(STAGES, ("engine",))), *one_in(5, product(STAGES, (ALL, f"{ALL}+power"))))


@pytest.mark.requirement("FR-016", "FR-055", "FR-056", "NFR-005", "NFR-006", "NFR-018", "NFR-019")
@pytest.mark.parametrize("killed", KILLED, ids=" ".join)
def test_run_takes_the_same_course_when_all_die_in_a_stage(killed: tuple[str, str], tmp_path: Path) -> None:
    stage, victims = killed
    place, note = STAGES[stage]
    story = play(tmp_path / "run", Case.parse(f"loop agent:note:{note}:after:{victims}")).story
    assert violations(story, baseline("loop").state) == []
    assert story.killed
    started = Counter(note["attempt"].rpartition("/")[0] for note in story.notes() if note["what"] == "start")
    agents = {at: count for at, count in started.items() if "check" not in at}
    again = {place: 2} if victims != "engine" and place in PLACES else {}
    assert agents == dict.fromkeys(PLACES, 1) | again
    made = {name: (story.project / name).read_text() for name in FILES}
    assert made == FILES
