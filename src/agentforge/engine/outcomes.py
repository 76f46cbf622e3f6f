"""Which outcome belongs to which work, and what a past run recorded as the outcomes of its own."""

from collections.abc import Iterable, Sequence

from agentforge.engine.node_keys import NodeKey
from agentforge.model import facts as f
from agentforge.model.event import Cursor, Event
from agentforge.model.failure import FailureKind
from agentforge.model.work import (
    CheckQueue,
    End,
    EndJudge,
    Execute,
    Judge,
    Prepare,
    Wait,
    Work,
    WriteManifest,
)

OUTCOME_OF: dict[type, tuple[type, ...]] = {
    f.IterationStarted: (Prepare,),
    f.IterationCompleted: (Execute, End),
    f.ErrorOccurred: (Execute, End, Prepare, CheckQueue),
    f.AttemptLost: (Execute, End),
    f.AttemptCancelled: (Execute, End),
    f.JudgeCompleted: (Judge, EndJudge),
    f.JudgeLost: (Judge, EndJudge),
    f.QueueChecked: (CheckQueue,),
    f.ManifestWritten: (WriteManifest,),
    f.TimerFired: (Wait,),
}
AnswerKey = tuple[str, NodeKey, int, int]
"""What kind of work, where, at which iteration, which attempt."""


_KINDS: dict[type, str] = {
    Prepare: "prepare",
    Execute: "execute",
    End: "execute",
    Judge: "judge",
    EndJudge: "judge",
    CheckQueue: "queue",
    WriteManifest: "manifest",
    Wait: "wait",
}


class Answers:
    """What a past run recorded as the outcomes of its work, to be asked for in any order."""

    def __init__(self, recorded: "Iterable[tuple[NodeKey | None, Event]]" = ()) -> None:
        self._facts: dict[AnswerKey, Event] = {}
        for place, event in recorded:
            self.add(place, event)

    def add(self, place: NodeKey | None, event: Event) -> None:
        key = _answer_key(event.fact, place, event.cursor)
        if key is not None:
            self._facts.setdefault(key, event)

    def take(self, work: Work, place: NodeKey | None) -> Event | None:
        if place is None or work.cursor is None:
            return None
        attempt = work.attempt if isinstance(work, Execute | End | Judge | EndJudge) else 0
        return self._facts.pop((_KINDS[type(work)], place, work.cursor.iteration, attempt), None)


def wanted(works: Sequence[Work], fact: f.AnyFact, here: Cursor | None) -> Work | None:
    """The work whose outcome the fact is, if it should be running."""
    for work in works:
        if not isinstance(work, OUTCOME_OF[type(fact)]):
            continue
        if isinstance(work, Wait):
            is_it = isinstance(fact, f.TimerFired) and fact.timer == work.timer and _meet(work.cursor, here)
        elif isinstance(work, Execute | End | Judge | EndJudge):
            is_it = work.cursor == here and work.attempt == getattr(fact, "attempt", work.attempt)
        else:
            is_it = work.cursor == here
        if is_it:
            return work
    return None


def _meet(wait: Cursor | None, here: Cursor | None) -> bool:
    return wait is None or wait == here


def _answer_key(fact: f.AnyFact, place: NodeKey | None, cursor: Cursor | None) -> AnswerKey | None:
    if place is None or cursor is None:
        return None
    match fact:
        case f.ErrorOccurred(attempt=0, kind=kind):
            work = "queue" if kind is FailureKind.QUEUE_UNREADABLE else "prepare"
            return work, place, cursor.iteration, 0
        case f.IterationStarted():
            return "prepare", place, cursor.iteration, 0
        case f.IterationCompleted() | f.ErrorOccurred() | f.AttemptLost() | f.AttemptCancelled():
            return "execute", place, cursor.iteration, fact.attempt
        case f.JudgeCompleted(status="skipped"):
            return None
        case f.JudgeCompleted() | f.JudgeLost():
            return "judge", place, cursor.iteration, fact.attempt
        case f.QueueChecked():
            return "queue", place, cursor.iteration, 0
        case _:
            return None
