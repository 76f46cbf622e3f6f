"""The example of caps: the commands of its README, as a reader runs them."""

from tests.code_blocks import code_blocks
from tests.surface.terminal import Project

EXAMPLE = "caps"
PLAN, START, GRANT, SHOW, KILL = (block.text for block in code_blocks("examples/caps/README.md", "sh"))
AT_CAP = (
    "the run is at its cap: $0.90 of $1.00 spent; west: the next attempt of stage 'propose' needs up to $0.30"
)
ASKS = 22


def test_three_branches_run_the_run_asks_and_a_grant_starts_the_fourth(repository: Project) -> None:
    planned = repository.call_program("bash", "-ec", PLAN)
    assert planned.code == 0, planned
    assert "Cap: the run may spend at most $1.00" in planned.out
    assert "Not enforced: stage 'propose' with paid: an attempt may spend more than its figure" in planned.out
    asked = repository.call_program("bash", "-c", START)
    assert asked.code == ASKS, asked
    assert AT_CAP in asked.out
    assert (repository.root / "bills.txt").read_text() == "0.30\n" * 3
    done = repository.call_program("bash", "-ec", GRANT)
    assert done.code == 0, done
    assert "Completed: 4 iterations" in done.out
    assert "Cost: $1.20 of $1.50" in done.out
    assert "the agents have spent $1.20" in done.out
    shown = repository.call_program("bash", "-ec", SHOW)
    assert shown.code == 0, shown
    assert "waits for other attempts" in shown.out
    assert "waits for an answer" in shown.out
    picture = (repository.root / "names.svg").read_text()
    assert "waits for an answer" in picture
    assert "<script" not in picture


def test_a_run_whose_engine_is_killed_between_two_branches_has_the_same_sum(repository: Project) -> None:
    (repository.root / "bills.txt").touch()
    done = repository.call_program("bash", "-c", KILL)
    assert done.code == 0, done
    assert AT_CAP in done.out
    assert "cost $1.20 of $1.50" in done.out
    assert "the agents have spent $1.20" in done.out
