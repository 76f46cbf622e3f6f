"""Questions to people: opening a request, and the consequences of its answer."""

from collections.abc import Sequence

from msgspec import Struct

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Draft
from agentforge.model.failure import Failure
from agentforge.model.plan import Plan
from agentforge.model.result import Decision, Result
from agentforge.model.state import AT_MOST_ONCE, Request, RequestScope, RunState, StageState
from agentforge.model.task import Wait, Work, task_place

RESUME, CANCEL, SUCCEEDED = "resume", "cancel", "succeeded"


class Question(Struct, frozen=True):
    """A question that a person must answer before more work starts."""

    reason: str
    text: str
    options: tuple[str, ...] = (RESUME, CANCEL)
    scope: RequestScope = "branch"
    """`run`: the answer applies to the whole run, so only the first branch asks."""
    at: Cursor | None = None
    number: int = 0
    """Number of the task that it is about, or 0."""

    @property
    def key(self) -> str:
        """The subject of the question; each question is open only once."""
        if self.scope == "run" or self.at is None:
            return self.reason
        return f"{self.reason}@{task_place(self.at, self.number)}"


class Ruling(Struct, frozen=True):
    facts: tuple[Draft, ...] = ()
    work: tuple[Work, ...] = ()
    done: str | None = None
    """Why the stage is complete."""
    failure: Failure | None = None
    """Why the stage can't continue."""
    question: Question | None = None


APPROVALS = frozenset({"approval", "checkpoint", "question"})
TIMER = "request:"
"""Prefix of a timer's name, before the request id."""


def opened(state: RunState, question: Question, before: Sequence[Draft] = ()) -> Draft | None:
    """The request, or None if it is already open. `before`: facts that are recorded first."""
    asked = [draft.fact.key for draft in before if isinstance(draft.fact, f.RequestOpened)]
    if question.key in asked or any(request.key == question.key for request in state.requests):
        return None
    request = f.RequestOpened(
        id=f"{question.reason}-{state.seq + 1 + len(before)}",
        kind="escalation",
        key=question.key,
        reason=question.reason,
        question=question.text,
        options=question.options,
        scope=question.scope,
    )
    return Draft(request, question.at)


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


def consequences(plan: Plan, state: RunState, request: Request) -> tuple[Draft, ...]:
    """The consequences of an answer. The request is closed last, so that a crash in between loses nothing:
    recorded facts aren't decided again."""
    at = request.at or state.cursor
    if request.answer == CANCEL:
        cancel = f.CancelRequested(f"answered by {request.answered_by}")
        return Draft(cancel, at), Draft(f.RequestResolved(request.id, "cancel"), at)
    if request.answer == SUCCEEDED and request.reason == AT_MOST_ONCE:
        done = _done(plan, state, request)
        return (*done, Draft(f.RequestResolved(request.id, "succeeded"), at))
    return (Draft(f.RequestResolved(request.id, "continue"), at),)


def stage_of_request(state: RunState, at: Cursor | None) -> StageState | None:
    """The stage whose iteration opened the request, or None if that iteration is over."""
    stage = state.stage(at.provider) if at else None
    if stage is None or at is None or (stage.path, stage.run) != (at.node_path, at.node_run):
        return None
    number = stage.iteration.number if stage.iteration else stage.completed
    return stage if number == at.iteration else None


def _done(plan: Plan, state: RunState, request: Request) -> tuple[Draft, ...]:
    """Complete the iteration, because a person confirmed that its work was done."""
    stage = stage_of_request(state, request.at)
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
    return (Draft(done, request.at),)
