"""Questions to people: opening a request, and the consequences of its answer."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import assert_never

from msgspec import Struct

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Draft
from agentforge.model.failure import Failure
from agentforge.model.plan import Plan
from agentforge.model.request import (
    ABORT,
    ACCEPT,
    APPROVE,
    CANCEL,
    REJECT,
    RESUME,
    RETRY,
    SUCCEEDED,
    TIMER,
    Answerer,
    Request,
    RequestKind,
    RequestScope,
    granted,
)
from agentforge.model.result import Decision, Result
from agentforge.model.state import AT_MOST_ONCE, RunState
from agentforge.model.task import Wait, Work, task_place

# Theory of operation
#
# A gate asks with the same question for as long as its reason holds, in every step and after every crash.
# That it is asked once is due to its key: what it is about, where, and which task. So a gate needs no
# memory, and a question that arises again after its answer, about the next task, has another key and is
# another request. A key without the number of the task would let one answer count for all later ones.
#
# The answer is a fact, and what follows from it are others, which the engine decides. A person may answer
# while no engine runs, with a version that knows less, or twice: the process that takes an answer only
# stores it.
# The request is closed after its consequences, all in one step. Closed first, a crash in between would
# leave an answer of which nothing came.
#
# Times are compared with the latest event, never with a clock: the same log gives the same decision,
# whenever it is read. An overdue request takes its default through the same path, as one more answer.


class Question(Struct, frozen=True):
    """A question that must be answered before more work starts."""

    reason: str
    text: str
    options: tuple[str, ...] = (RESUME, RETRY, CANCEL)
    scope: RequestScope = "branch"
    """`run`: the answer applies to the whole run, so only the first branch asks."""
    at: Cursor | None = None
    number: int = 0
    """Number of the task that it is about, or 0."""
    kind: RequestKind = "escalation"
    answerers: tuple[Answerer, ...] = ("person",)
    timeout: float | None = None
    """After this number of seconds the default is the answer, if there is one."""
    default: str | None = None
    subject: str = ""
    grants: str = ""
    answer: str | None = None
    """Set if it is answered without asking, so that the log shows it."""
    answered_by: str = ""

    @property
    def key(self) -> str:
        """What the question is about; each question is open only once."""
        about = f"{self.reason}:{self.subject}" if self.subject else self.reason
        if self.scope == "run" or self.at is None:
            return about
        return f"{about}@{task_place(self.at, self.number)}"


class Ruling(Struct, frozen=True):
    facts: tuple[Draft, ...] = ()
    work: tuple[Work, ...] = ()
    done: str | None = None
    """Why the stage is complete."""
    failure: Failure | None = None
    """Why the stage can't continue."""
    question: Question | None = None


APPROVALS = frozenset({"approval", "checkpoint", "question"})


def opened(state: RunState, question: Question, before: Sequence[Draft] = ()) -> tuple[Draft, ...]:
    """The request, and its answer if that is known; empty if it is already open. `before`: facts that are
    recorded first."""
    asked = [draft.fact.key for draft in before if isinstance(draft.fact, f.RequestOpened)]
    known = next((request for request in state.requests if request.key == question.key), None)
    if question.key in asked:
        return ()
    if known is not None:
        return _answered(question, known.id) if known.is_open else ()
    request = _request(state, question, f"{question.reason}-{state.seq + 1 + len(before)}")
    return Draft(request, question.at), *_answered(question, request.id)


def _answered(question: Question, id: str) -> tuple[Draft, ...]:
    if question.answer is None:
        return ()
    return (Draft(f.RequestAnswered(id, question.answer, question.answered_by), question.at),)


def _request(state: RunState, question: Question, id: str) -> f.RequestOpened:
    due_at = None
    if question.timeout is not None:
        # A question is asked because of the latest event, so that is now.
        due_at = state.updated_at + timedelta(seconds=question.timeout)
    return f.RequestOpened(
        id=id,
        kind=question.kind,
        key=question.key,
        reason=question.reason,
        question=question.text,
        options=question.options,
        answerers=question.answerers,
        scope=question.scope,
        due_at=due_at,
        default=question.default,
        subject=question.subject,
        grants=question.grants,
    )


def request_waits(state: RunState) -> tuple[Wait, ...]:
    """Timers of requests with a default answer."""
    timed = (request for request in state.open_requests if not request.overdue)
    return tuple(Wait(f"{TIMER}{r.id}", r.due_at) for r in timed if r.due_at and r.default is not None)


def defaults(state: RunState) -> tuple[Draft, ...]:
    """Default answers of requests that timed out."""
    return tuple(
        Draft(f.RequestAnswered(request.id, request.default, "default"), request.at or state.cursor)
        for request in state.open_requests
        if request.is_overdue and request.default is not None
    )


def withdrawn(requests: Iterable[Request]) -> tuple[Draft, ...]:
    return tuple(Draft(f.RequestResolved(request.id, "withdrawn"), request.at) for request in requests)


def consequences(plan: Plan, state: RunState, request: Request) -> tuple[Draft, ...]:
    """The consequences of an answer. The request is closed last, so that a crash in between loses nothing:
    recorded facts aren't decided again."""
    at = request.at or state.cursor
    before, resolved = _consequences(plan, state, request)
    return (*(Draft(fact, at) for fact in before), Draft(resolved, at))


def _consequences(
    plan: Plan, state: RunState, request: Request
) -> tuple[tuple[f.AnyFact, ...], f.RequestResolved]:
    answer, said = request.answer or "", request.text.strip()
    # A rejection without feedback gives the stage nothing to improve.
    is_plain_rejection = (
        request.kind == "approval" and answer == REJECT and not (said and _takes_feedback(plan, request))
    )
    if request.kind != "question" and (answer in (CANCEL, ABORT) or is_plain_rejection):
        verb = "rejected" if request.kind == "approval" else "answered"
        why = request.text if said else f"{verb} by {request.answered_by}"
        return (f.CancelRequested(why),), f.RequestResolved(request.id, "cancel")
    match request.kind:
        case "approval":
            return (), f.RequestResolved(request.id, "approved" if answer == APPROVE else "rejected")
        case "checkpoint":
            cleared = (f.CheckpointCleared(request.subject, request.answered_by),)
            is_new = request.subject not in state.cleared
            return cleared if is_new else (), f.RequestResolved(request.id, "cleared")
        case "question":
            return (), f.RequestResolved(request.id, "answered")
        case "pause":
            return (), f.RequestResolved(request.id, "retry" if answer == RETRY else "continue")
        case "escalation":
            return _after_escalation(plan, state, request, answer)
        case _:
            assert_never(request.kind)


def _takes_feedback(plan: Plan, request: Request) -> bool:
    node = plan.stage(request.at.node_path, request.at.provider) if request.at else None
    return node is None or node.approve is None or node.approve.feedback


def _after_escalation(
    plan: Plan, state: RunState, request: Request, answer: str
) -> tuple[tuple[f.AnyFact, ...], f.RequestResolved]:
    if answer == SUCCEEDED and request.reason == AT_MOST_ONCE:
        return _done(plan, state, request), f.RequestResolved(request.id, "succeeded")
    if answer == ACCEPT:
        return (), f.RequestResolved(request.id, "accepted")
    if answer == RESUME:
        return (), f.RequestResolved(request.id, "reset")
    if request.grants and (number := granted(answer, request.grants)):
        return (), f.RequestResolved(request.id, "granted", number)
    return (), f.RequestResolved(request.id, "continue")


def _done(plan: Plan, state: RunState, request: Request) -> tuple[f.AnyFact, ...]:
    """Complete the iteration, because a person confirmed that its work was done."""
    stage = state.stage_asking(request.at)
    iteration = stage.iteration if stage else None
    attempt = iteration.attempt if iteration else None
    node = plan.stage(request.at.node_path, request.at.provider) if request.at else None
    if node is None or attempt is None or not attempt.ended_without_result:
        return ()
    summary = f"{request.answered_by} confirmed that attempt {attempt.number} succeeded"
    result = Result(summary=summary, reason=summary)
    done = f.IterationCompleted(
        stage=node.label,
        attempt=attempt.number,
        decision=Decision.CONTINUE,
        reason=summary,
        result_file="",
        result=result,
        duration_ms=0,
    )
    return (done,)
