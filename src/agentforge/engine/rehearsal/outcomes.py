"""Which outcome belongs to which work, and what a past run recorded as the outcomes of its own."""

from collections.abc import Iterable, Sequence

from agentforge.engine.node_keys import NodeKey
from agentforge.engine.task_families import FAMILIES
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.failure import FailureKind
from agentforge.model.task import AnyTask, TaskKind, Wait, Work

OUTCOMES = frozenset({f.TimerFired, *(fact for family in FAMILIES.values() for fact in family.outcomes)})
AnswerKey = tuple[TaskKind, NodeKey, int, int]
"""The task's kind, node, iteration and attempt."""


class Answers:
    """The recorded outcomes of a past run, retrievable in any order."""

    def __init__(self, recorded: "Iterable[tuple[NodeKey | None, Event]]" = ()) -> None:
        self._facts: dict[AnswerKey, Event] = {}
        for place, event in recorded:
            self.add(place, event)

    def add(self, place: NodeKey | None, event: Event) -> None:
        key = _answer_key(event.fact, place, event.cursor)
        if key is not None:
            self._facts.setdefault(key, event)

    def take(self, task: AnyTask, place: NodeKey | None) -> Event | None:
        if place is None:
            return None
        return self._facts.pop((task.KIND, place, task.iteration, task.attempt), None)


def work_for(works: Sequence[Work], fact: f.AnyFact, here: Cursor | None) -> Work | None:
    """The running work that has this fact as its outcome, or None."""
    for work in works:
        if isinstance(work, Wait):
            fits = isinstance(fact, f.TimerFired) and fact.timer == work.timer and _matches(work.cursor, here)
        else:
            fits = type(fact) in FAMILIES[work.KIND].outcomes and work.cursor == here
            fits = fits and (not work.attempt or work.attempt == getattr(fact, "attempt", work.attempt))
        if fits:
            return work
    return None


def _matches(wait: Cursor | None, here: Cursor | None) -> bool:
    return wait is None or wait == here


def _answer_key(fact: f.AnyFact, place: NodeKey | None, cursor: Cursor | None) -> AnswerKey | None:
    if place is None or cursor is None:
        return None
    match fact:
        case f.ErrorOccurred(attempt=0, kind=kind):
            task: TaskKind = "queue" if kind is FailureKind.QUEUE_UNREADABLE else "prepare"
            return task, place, cursor.iteration, 0
        case f.IterationStarted():
            return "prepare", place, cursor.iteration, 0
        case f.IterationCompleted() | f.ErrorOccurred() | f.AttemptLost() | f.AttemptCancelled():
            return "agent", place, cursor.iteration, fact.attempt
        case f.JudgeCompleted(status="skipped"):
            return None
        case f.JudgeCompleted() | f.JudgeLost():
            return "judge", place, cursor.iteration, fact.attempt
        case f.QueueChecked():
            return "queue", place, cursor.iteration, 0
        case _:
            return None
