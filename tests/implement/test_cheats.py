"""Agents that cheat: no run of theirs is completed, and the evidence names what they did."""

import pytest
from tests.implement.slugs import Slugs

ASKED = 22


@pytest.mark.parametrize(
    ("cheat", "says"),
    [
        ("passes", "1 of 1 test passed, but none may"),
        ("claims", "No progress: the same failures on the same files"),
        ("breaks", "1 failed, 2 passed"),
    ],
)
def test_work_that_is_not_done_is_not_believed(slugs: Slugs, cheat: str, says: str) -> None:
    done, id = slugs.pipeline_of("implement", "Add slugify", cheat=cheat)
    assert done.code == ASKED, done
    assert says in done.out
    assert "Pipeline completed" not in done.out
    assert slugs.git("log", "--format=%s").split("\n") == ["Start", ""]
    shown = slugs.call("show", id, "--evidence").out
    missing = "fail before" if cheat == "passes" else "pass after"
    assert f"Not established: No tests were seen to {missing} the change." in shown
