"""When the tree of the files is recorded, and what an outcome carries of it."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge.adapters.host.tree_scan import FolderTrees, TreeLimits
from agentforge.model import facts as f
from agentforge.model.failure import FailureKind
from agentforge.model.secrets import Redactor
from agentforge.ports.host import NoTree, TakenTree
from agentforge.runtime.tasks.agent import FRESH_SECONDS, TreeRecord
from agentforge.testing import FakeClock

LOST = f.AttemptLost(1, "died", started=True)


class HeldTrees(FolderTrees):
    """The trees of a folder with a file for an agent; a test can hold up the taking of one."""

    def __init__(self, root: Path) -> None:
        limits = TreeLimits(files=2, file_bytes=9)
        super().__init__(str(root / "project"), str(root / "trees"), Redactor(()), limits)
        self.project = root / "project"
        self.held = threading.Event()
        self.held.set()
        self.begun = threading.Event()
        self.asked = 0

    def write(self, content: str, name: str = "file") -> str:
        """Returns the id of the tree then."""
        self.project.mkdir(exist_ok=True)
        (self.project / name).write_text(content)
        found = super().take()
        return found.id if isinstance(found, TakenTree) else ""

    def take(self) -> TakenTree | NoTree:
        self.asked += 1
        self.begun.set()
        self.held.wait(30)
        return super().take()


@pytest.fixture
def trees(tmp_path: Path) -> HeldTrees:
    return HeldTrees(tmp_path)


class Reported:
    """What a task reported."""

    def __init__(self) -> None:
        self.facts: list[f.AnyFact] = []

    def __call__(self, fact: f.AnyFact) -> None:
        self.facts.append(fact)


async def of_attempt(
    record: TreeRecord, report: Reported, number: int = 1, work: Callable[[], object] = lambda: None
) -> f.AnyFact:
    await record.before(number, report)
    work()
    return await record.after(number, LOST, report)


def test_the_tree_before_is_recorded_and_the_outcome_has_the_tree_after(trees: HeldTrees) -> None:
    async def main() -> None:
        report = Reported()
        trees.write("too large to be in a tree", "large")
        first, found = trees.write("a"), list[str]()
        record = TreeRecord(trees, FakeClock())
        outcome = await of_attempt(record, report, work=lambda: found.append(trees.write("b")))
        assert outcome == f.AttemptLost(1, "died", started=True, tree=found[0])
        assert report.facts == [f.TreeTaken(1, tree=first, omitted=1)]
        assert trees.changed(first, found[0], 9) == ("file",)

    asyncio.run(main())


def test_a_recent_tree_is_that_before_the_next_attempt(trees: HeldTrees) -> None:
    async def main() -> None:
        clock, report = FakeClock(), Reported()
        record = TreeRecord(trees, clock)
        trees.write("a")
        await of_attempt(record, report, 1, lambda: trees.write("b"))
        assert trees.asked == 2
        await of_attempt(record, report, 2, lambda: trees.write("c"))
        assert trees.asked == 3
        clock.advance(FRESH_SECONDS)
        await record.before(3, report)
        assert trees.asked == 4
        assert len(report.facts) == 1, "nothing else changed the files"
        record.forget()
        last = trees.write("d")
        await record.before(4, report)
        assert report.facts[1:] == [f.TreeTaken(4, tree=last)]

    asyncio.run(main())


def test_why_there_is_no_tree_is_recorded_once(trees: HeldTrees) -> None:
    async def main() -> None:
        report = Reported()
        record = TreeRecord(trees, FakeClock())
        trees.write("a")
        (trees.project / "second").touch()
        assert await of_attempt(record, report, work=(trees.project / "third").touch) == LOST
        assert await of_attempt(record, report, 2) == LOST
        assert report.facts[1:] == [f.TreeTaken(1, "after", problem="the project has more than 2 files")]

    asyncio.run(main())


@pytest.mark.parametrize("outcome", [f.TimerFired("delay"), f.AttemptLost(1, "died", started=False)])
def test_what_did_not_run_has_no_tree(trees: HeldTrees, outcome: f.AnyFact) -> None:
    trees.write("a")
    assert asyncio.run(TreeRecord(trees, FakeClock()).after(1, outcome, Reported())) is outcome
    assert trees.asked == 0


def test_without_a_folder_nothing_is_taken(trees: HeldTrees) -> None:
    report = Reported()
    assert asyncio.run(of_attempt(TreeRecord(trees, FakeClock()), report)) is LOST
    assert (trees.asked, report.facts) == (0, [])


def test_an_outcome_is_not_lost_when_the_engine_stops_waiting_for_its_tree(trees: HeldTrees) -> None:
    async def main() -> None:
        failed = f.ErrorOccurred(FailureKind.AGENT_ERROR, "no", "plan", 1)
        trees.write("a")
        trees.held.clear()
        task = asyncio.create_task(TreeRecord(trees, FakeClock()).after(1, failed, Reported()))
        await asyncio.to_thread(trees.begun.wait, 30)
        task.cancel()
        assert await task == failed
        trees.held.set()

    asyncio.run(main())
