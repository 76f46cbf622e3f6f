"""Which outcome belongs to which work, and what a past run recorded: the outcomes of its own work, and the
answers to its requests."""

# An outcome belongs to a task by its kind, node, iteration and attempt, and not by its position in the log:
# the branches of a block run at the same time, so that their events are in another order in every run. Nodes
# are compared by their keys (kinds and ids), as paths change with the plan. The same call of a hook and the
# same request can come more than once, so theirs are queues.

from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.decide.task_kinds import KINDS
from agentforge.engine.nodes import NodeKey
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.failure import FailureKind
from agentforge.model.request import Request
from agentforge.model.task import HookTask, StartedTask, Task, Wait, Work

OUTCOMES = frozenset({f.TimerFired, *(fact for kind in KINDS.values() for fact in kind.outcomes)})
AnswerKey = tuple[str, NodeKey, int, int, str]
"""The task's kind, node, iteration and attempt; of a check, its name."""
CallKey = tuple[NodeKey, int, int, str]
"""Where a hook was called (node, iteration and attempt), and the hook."""
RUN = NodeKey("")
"""The run as a whole."""
MAX_DIGITS = 9
RequestKey = tuple[NodeKey, int, int, str, str]
"""Where a request was opened (node, iteration and attempt), its reason and its subject."""


class PastReply(Struct, frozen=True):
    """What was answered to a request, and what the person skipped with it."""

    answer: f.RequestAnswered
    waived: tuple[f.Waived, ...] = ()

    @property
    def facts(self) -> tuple[f.AnyFact, ...]:
        return (*self.waived, self.answer)


class Answers:
    """The recorded outcomes and people's answers of a past run, retrievable in any order."""

    def __init__(self, recorded: "Iterable[tuple[NodeKey | None, Event]]" = ()) -> None:
        self._facts: dict[AnswerKey, Event] = {}
        self._calls: dict[CallKey, deque[Event]] = {}
        self._opened: dict[str, RequestKey] = {}
        self._replies: dict[RequestKey, deque[PastReply]] = {}
        self._waived: tuple[f.Waived, ...] = ()
        """By the person whose answer comes next."""
        for place, event in recorded:
            self.add(place, event)

    def add(self, place: NodeKey | None, event: Event) -> None:
        fact, cursor = event.fact, event.cursor
        match fact:
            case f.RequestOpened() if asked := request_key(fact, place, cursor):
                self._opened[fact.id] = asked
            case f.RequestAnswered() if about := self._opened.get(fact.id):
                self.add_reply(about, PastReply(fact, self._waived))
                self._waived = ()
            case f.Waived():
                self._waived = (*self._waived, fact)
            case f.SessionResumed() | f.SessionRecovered():
                self._waived = ()
            case f.HookFact() if isinstance(fact, f.TaskOutcome) and (here := _somewhere(place, cursor)):
                call = here, cursor.iteration if cursor else 0, fact.attempt, fact.hook
                self._calls.setdefault(call, deque()).append(event)
        key = _answer_key(fact, place, cursor)
        if key is not None:
            self._facts.setdefault(key, event)

    def take(self, task: Task, place: NodeKey | None) -> Event | None:
        if isinstance(task, HookTask):
            called = _somewhere(place, task.at)
            known = self._calls.get((called, task.iteration, task.attempt, task.hook.id)) if called else None
            return known.popleft() if known else None
        if place is None:
            return None
        return self._facts.pop((task.KIND, place, task.iteration, task.attempt, task.label), None)

    def add_reply(self, key: RequestKey, reply: PastReply) -> None:
        self._replies.setdefault(key, deque()).append(reply)

    def reply(self, request: Request, place: NodeKey | None) -> tuple[f.AnyFact, ...]:
        """What was answered to the same request, if anything. It is removed."""
        key = request_key(request, place, request.at)
        known = self._replies.get(key) if key else None
        given = known.popleft() if known else None
        if given is None or not request.accepts(given.answer.answer):
            return ()
        return replace(given, answer=replace(given.answer, id=request.id)).facts


def request_key(
    asked: Request | f.RequestOpened, place: NodeKey | None, at: Cursor | None
) -> RequestKey | None:
    here = _somewhere(place, at)
    if here is None:
        return None
    return here, at.iteration if at else 0, attempt_of(asked), asked.reason, asked.subject


def _somewhere(place: NodeKey | None, at: Cursor | None) -> NodeKey | None:
    """The place, or the run as a whole; None if a damaged log names another node."""
    return RUN if at is None else place


def attempt_of(asked: Request | f.RequestOpened) -> int:
    """The number of the task that the request is about, or 0."""
    number = asked.key.rpartition("/")[2] if "@" in asked.key else ""
    return int(number) if number.isdecimal() and len(number) <= MAX_DIGITS else 0


def work_for(works: Sequence[Work], fact: f.AnyFact, here: Cursor | None) -> Work | None:
    """The running work that has this fact as its outcome, or None."""
    for work in works:
        if isinstance(work, Wait):
            is_there = work.cursor is None or work.cursor == here
            fits = isinstance(fact, f.TimerFired) and fact.timer == work.timer and is_there
        else:
            fits = type(fact) in KINDS[work.KIND].outcomes and work.recorded_at == here
            if isinstance(fact, f.TaskOutcome) and work.attempt:
                fits = fits and (work.attempt, work.label) == (fact.attempt, fact.label)
        if fits:
            return work
    return None


def addressed(fact: f.AnyFact, work: object) -> f.AnyFact:
    """The outcome of a past task, as that of the work: at another place, the call of a hook has another
    delivery."""
    if isinstance(work, StartedTask) and isinstance(fact, f.TaskOutcome):
        return replace(fact, **work.names)
    return fact


def _answer_key(fact: f.AnyFact, place: NodeKey | None, cursor: Cursor | None) -> AnswerKey | None:
    if place is None or cursor is None:
        return None
    match fact:
        case f.ErrorOccurred(attempt=0, kind=kind):
            task = "queue" if kind is FailureKind.QUEUE_UNREADABLE else "prepare"
            return task, place, cursor.iteration, 0, ""
        case f.IterationStarted():
            return "prepare", place, cursor.iteration, 0, ""
        case f.QueueChecked():
            return "queue", place, cursor.iteration, 0, ""
        case f.JudgeCompleted(status="skipped") | f.HookFact():
            return None
        case f.TaskOutcome():
            return fact.KIND, place, cursor.iteration, fact.attempt, fact.label
        case _:
            return None
