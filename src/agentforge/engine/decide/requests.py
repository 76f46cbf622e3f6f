"""Questions to people: how one is opened, and what follows from its answer."""

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
    """Why a person is needed before anything more is spent."""

    reason: str
    text: str
    options: tuple[str, ...] = (RESUME, CANCEL)
    scope: RequestScope = "branch"
    """`run`: the answer is for the whole run, so it is asked once, whichever branch comes to it first."""
    at: Cursor | None = None
    number: int = 0
    """Of the task that it is about, if it is about one."""

    @property
    def key(self) -> str:
        """What the question is about: the same question is open once."""
        if self.scope == "run" or self.at is None:
            return self.reason
        return f"{self.reason}@{task_place(self.at, self.number)}"


class Ruling(Struct, frozen=True):
    facts: tuple[Draft, ...] = ()
    work: tuple[Work, ...] = ()
    done: str | None = None
    """Why the stage is complete."""
    failure: Failure | None = None
    """Why the stage can't go on."""
    question: Question | None = None


APPROVALS = frozenset({"approval", "checkpoint", "question"})
TIMER = "request:"
"""Before the id of the request that a timer is for."""


def opened(state: RunState, question: Question, before: Sequence[Draft] = ()) -> Draft | None:
    """The request, or None where it is open already. `before`: the facts that are recorded first."""
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
    """For requests whose default counts at a recorded time."""
    timed = (request for request in state.open_requests if not request.overdue)
    return tuple(Wait(f"{TIMER}{r.id}", r.due_at) for r in timed if r.due_at and r.default is not None)


def defaults(state: RunState) -> tuple[Draft, ...]:
    """The answers of requests that nobody answered in time."""
    return tuple(
        Draft(f.RequestAnswered(request.id, request.default, "default"), request.at or state.cursor)
        for request in state.open_requests
        if request.is_overdue and request.default is not None
    )


def consequences(plan: Plan, state: RunState, request: Request) -> tuple[Draft, ...]:
    """What the answer means. The request is closed last, so that a crash in between loses nothing: what is
    recorded already isn't decided again."""
    at = request.at or state.cursor
    if request.answer == CANCEL:
        cancel = f.CancelRequested(f"answered by {request.answered_by}")
        return Draft(cancel, at), Draft(f.RequestResolved(request.id, "cancel"), at)
    if request.answer == SUCCEEDED and request.reason == AT_MOST_ONCE:
        done = _done(plan, state, request)
        return (*done, Draft(f.RequestResolved(request.id, "succeeded"), at))
    return (Draft(f.RequestResolved(request.id, "continue"), at),)


def stage_asked_about(state: RunState, at: Cursor | None) -> StageState | None:
    """The stage in whose iteration a request was opened, as long as it is there."""
    stage = state.stage(at.provider) if at else None
    if stage is None or at is None or (stage.path, stage.run) != (at.node_path, at.node_run):
        return None
    number = stage.iteration.number if stage.iteration else stage.completed
    return stage if number == at.iteration else None


def _done(plan: Plan, state: RunState, request: Request) -> tuple[Draft, ...]:
    """The iteration counts as complete, because a person says that its work was done."""
    stage = stage_asked_about(state, request.at)
    iteration = stage.iteration if stage else None
    attempt = iteration.attempt if iteration else None
    node = plan.stage(request.at.node_path, request.at.provider) if request.at else None
    if node is None or attempt is None or not attempt.came_to_nothing:
        return ()
    said = f"{request.answered_by} confirmed that attempt {attempt.number} succeeded"
    result = Result(summary=said, reason=said)
    done = f.IterationCompleted(
        stage=node.name or node.id,
        attempt=attempt.number,
        decision=Decision.CONTINUE,
        reason=said,
        result_file="",
        result=result,
        duration_ms=0,
    )
    return (Draft(done, request.at),)
