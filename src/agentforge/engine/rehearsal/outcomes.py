"""Which outcome belongs to which work, and what a past run recorded: the outcomes of its own work, and the
answers to its requests."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from agentforge.engine.node_keys import NodeKey
from agentforge.engine.task_families import FAMILIES
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.failure import FailureKind
from agentforge.model.request import Request
from agentforge.model.task import AnyTask, TaskKind, Wait, Work

OUTCOMES = frozenset({f.TimerFired, *(fact for family in FAMILIES.values() for fact in family.outcomes)})
AnswerKey = tuple[TaskKind, NodeKey, int, int]
"""The task's kind, node, iteration and attempt."""
MAX_DIGITS = 9
RequestKey = tuple[NodeKey, int, int, str, str]
"""Where a request was opened (node, iteration and attempt), its reason and its subject."""


class Answers:
    """The recorded outcomes and people's answers of a past run, retrievable in any order."""

    def __init__(self, recorded: "Iterable[tuple[NodeKey | None, Event]]" = ()) -> None:
        self._facts: dict[AnswerKey, Event] = {}
        self._opened: dict[str, RequestKey] = {}
        self._replies: dict[RequestKey, f.RequestAnswered] = {}
        for place, event in recorded:
            self.add(place, event)

    def add(self, place: NodeKey | None, event: Event) -> None:
        if isinstance(event.fact, f.RequestOpened) and (
            asked := request_key(event.fact, place, event.cursor)
        ):
            self._opened[event.fact.id] = asked
        elif isinstance(event.fact, f.RequestAnswered) and (about := self._opened.get(event.fact.id)):
            self.add_reply(about, event.fact)
        key = _answer_key(event.fact, place, event.cursor)
        if key is not None:
            self._facts.setdefault(key, event)

    def take(self, task: AnyTask, place: NodeKey | None) -> Event | None:
        if place is None:
            return None
        return self._facts.pop((task.KIND, place, task.iteration, task.attempt), None)

    def add_reply(self, key: RequestKey, fact: f.RequestAnswered) -> None:
        self._replies.setdefault(key, fact)

    def reply(self, request: Request, place: NodeKey | None) -> f.RequestAnswered | None:
        """What was answered to the same request, or None. It is removed."""
        key = request_key(request, place, request.at)
        known = self._replies.pop(key, None) if key else None
        if known is None or not request.accepts(known.answer):
            return None
        return replace(known, id=request.id)


def request_key(
    asked: Request | f.RequestOpened, place: NodeKey | None, at: Cursor | None
) -> RequestKey | None:
    if place is None or at is None:
        return None
    return place, at.iteration, attempt_of(asked), asked.reason, asked.subject


def attempt_of(asked: Request | f.RequestOpened) -> int:
    """The number of the task that the request is about, or 0."""
    number = asked.key.rpartition("/")[2] if "@" in asked.key else ""
    return int(number) if number.isdecimal() and len(number) <= MAX_DIGITS else 0


def work_for(works: Sequence[Work], fact: f.AnyFact, here: Cursor | None) -> Work | None:
    """The running work that has this fact as its outcome, or None."""
    for work in works:
        if isinstance(work, Wait):
            fits = isinstance(fact, f.TimerFired) and fact.timer == work.timer and _matches(work.cursor, here)
        else:
            fits = type(fact) in FAMILIES[work.KIND].outcomes and work.recorded_at == here
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
