"""When the tree of the files is recorded, and what an outcome carries of it."""

import asyncio
import threading

import pytest

from agentforge.model import facts as f
from agentforge.model.failure import FailureKind
from agentforge.ports.tree import NoTree, TakenTree
from agentforge.runtime.tasks.tree_record import FRESH_SECONDS, TreeRecord
from agentforge.testing import FakeClock

LOST = f.AttemptLost(1, "died", started=True)


class FakeTrees:
    def __init__(self, *trees: TakenTree | NoTree, possible: bool = True) -> None:
        self._trees = list(trees)
        self._possible = possible
        self.held = threading.Event()
        self.held.set()
        self.begun = threading.Event()
        self.asked = 0

    def is_possible(self) -> bool:
        return self._possible

    def take(self) -> TakenTree | NoTree:
        self.asked += 1
        self.begun.set()
        self.held.wait(30)
        return self._trees.pop(0)


class Reported:
    """What a task reported."""

    def __init__(self) -> None:
        self.facts: list[f.AnyFact] = []

    def __call__(self, fact: f.AnyFact) -> None:
        self.facts.append(fact)


async def of_attempt(record: TreeRecord, report: Reported, number: int = 1) -> f.AnyFact:
    await record.before(number, report)
    return await record.after(number, LOST, report)


def test_the_tree_before_is_recorded_and_the_outcome_has_the_tree_after() -> None:
    async def main() -> None:
        report = Reported()
        record = TreeRecord(FakeTrees(TakenTree("a", 2), TakenTree("b")), FakeClock())
        assert await of_attempt(record, report) == f.AttemptLost(1, "died", started=True, tree="b")
        assert report.facts == [f.TreeTaken(1, tree="a", omitted=2)]

    asyncio.run(main())


def test_a_recent_tree_is_that_before_the_next_attempt() -> None:
    async def main() -> None:
        clock, report = FakeClock(), Reported()
        trees = FakeTrees(*(TakenTree(name) for name in "abccd"))
        record = TreeRecord(trees, clock)
        await of_attempt(record, report)
        assert trees.asked == 2
        await of_attempt(record, report, 2)
        assert trees.asked == 3
        clock.advance(FRESH_SECONDS)
        await record.before(3, report)
        assert trees.asked == 4
        assert len(report.facts) == 1, "nothing else changed the files"
        record.forget()
        await record.before(4, report)
        assert report.facts[1:] == [f.TreeTaken(4, tree="d")]

    asyncio.run(main())


def test_why_there_is_no_tree_is_recorded_once() -> None:
    async def main() -> None:
        report, none = Reported(), NoTree("too much")
        record = TreeRecord(FakeTrees(TakenTree("a"), none, none), FakeClock())
        assert await of_attempt(record, report) == LOST
        assert await of_attempt(record, report, 2) == LOST
        assert report.facts[1:] == [f.TreeTaken(1, "after", problem="too much")]

    asyncio.run(main())


@pytest.mark.parametrize("outcome", [f.TimerFired("delay"), f.AttemptLost(1, "died", started=False)])
def test_what_did_not_run_has_no_tree(outcome: f.AnyFact) -> None:
    trees = FakeTrees()
    assert asyncio.run(TreeRecord(trees, FakeClock()).after(1, outcome, Reported())) is outcome
    assert trees.asked == 0


def test_without_version_control_nothing_is_taken() -> None:
    trees, report = FakeTrees(possible=False), Reported()
    assert asyncio.run(of_attempt(TreeRecord(trees, FakeClock()), report)) is LOST
    assert (trees.asked, report.facts) == (0, [])


def test_an_outcome_is_not_lost_when_the_engine_stops_waiting_for_its_tree() -> None:
    async def main() -> None:
        failed = f.ErrorOccurred(FailureKind.AGENT_ERROR, "no", "plan", 1)
        trees = FakeTrees(TakenTree("a"))
        trees.held.clear()
        task = asyncio.create_task(TreeRecord(trees, FakeClock()).after(1, failed, Reported()))
        await asyncio.to_thread(trees.begun.wait, 30)
        task.cancel()
        assert await task == failed
        trees.held.set()

    asyncio.run(main())
