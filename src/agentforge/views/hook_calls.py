"""The deliveries of a run, each call of a hook with its tries and its answer, as far as it got; and what the
run waits for."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.facts import RequestOpened
from agentforge.model.hook import CALL_POINTS, HookAction, HookOutcome, HookPoint
from agentforge.model.plan import Plan
from agentforge.model.request import Request
from agentforge.model.state import HookCall, HookProgress, RunState
from agentforge.model.status import RunStatus, TaskStatus

TryStatus = Literal["running", "completed", "failed", "timed_out", "lost"]
DeliveryStatus = Literal["running", "waiting", "completed", "failed", "timed_out", "lost", "skipped"]


class HookTry(Struct, frozen=True):
    number: int
    started_at: datetime
    status: TryStatus = "running"
    ended_at: datetime | None = None
    duration_seconds: float | None = None
    """None while it is running, and of a try that was lost."""
    returned: int | None = None
    """The HTTP status, or the exit status of a script."""
    message: str = ""
    """Why it failed or was lost."""


class Delivery(Struct, frozen=True):
    """One call of a hook at one place, as far as it got; or a hook that was not called."""

    hook: str
    point: HookPoint
    key: str | None
    """The same for every try; None if the hook was not called."""
    action: HookAction | None
    """What the hook does; None if it was not called."""
    stage: str = ""
    """The id of the stage or block; empty for the run as a whole."""
    branch: str | None = None
    path: str | None = None
    visit: int | None = None
    iteration: int | None = None
    subject: str = ""
    """The request or the resume that it is about."""
    outcome: HookOutcome | None = None
    """What the hook returned."""
    reason: str = ""
    """What the hook gave as its reason."""
    context: str = ""
    answer: str = ""
    text: str = ""
    due_at: datetime | None = None
    """When the next try starts."""
    skipped: str | None = None
    """Why the run continues without its answer."""
    request: str | None = None
    """The id of the request that asked a person because of it."""
    decision: str | None = None
    """What the person answered."""
    decided_by: str = ""
    tries: tuple[HookTry, ...] = ()

    @property
    def status(self) -> DeliveryStatus:
        # Before its tries: a call is also skipped after a try that failed.
        if self.skipped is not None:
            return "skipped"
        if self.due_at is not None:
            return "waiting"
        return self.tries[-1].status if self.tries else "running"


TryFact = f.HookCompleted | f.HookFailed | f.HookTimedOut | f.HookLost | f.HookRetryScheduled


def begun_delivery(fact: f.HookStarted | f.HookSkipped, plan: Plan | None, at: Cursor | None) -> Delivery:
    key, action = (fact.delivery, fact.action) if isinstance(fact, f.HookStarted) else (None, None)
    begun = Delivery(fact.hook, fact.point, key, action, subject=fact.subject)
    if at is None:
        return begun
    node = plan.by_path.get(at.node_path) if plan else None
    return replace(
        begun,
        stage=node.id if node else at.node_path,
        branch=at.provider,
        path=at.node_path,
        visit=at.node_run,
        iteration=at.iteration or None,
    )


def delivered(one: Delivery, when: datetime, fact: TryFact) -> Delivery:
    """The delivery after its latest try ended, or another was planned."""
    match fact:
        case f.HookCompleted():
            said = replace(
                one,
                outcome=fact.action,
                reason=fact.reason,
                context=fact.context,
                answer=fact.answer,
                text=fact.text,
            )
            return _tried(said, when, "completed", fact.duration_ms, returned=fact.status)
        case f.HookFailed():
            return _tried(one, when, "failed", fact.duration_ms, message=fact.message, returned=fact.status)
        case f.HookTimedOut():
            return _tried(one, when, "timed_out", fact.duration_ms)
        case f.HookLost():
            why = "" if fact.started else "it had not started"
            return _tried(one, when, "lost", None, message=why)
        case f.HookRetryScheduled():
            return replace(one, due_at=fact.due_at)
        case _:
            assert_never(fact)


def _tried(
    one: Delivery, when: datetime, status: TryStatus, milliseconds: int | None, **more: Any
) -> Delivery:
    seconds = None if milliseconds is None else milliseconds / 1000
    last = replace(one.tries[-1], status=status, ended_at=when, duration_seconds=seconds, **more)
    return replace(one, tries=(*one.tries[:-1], last))


ENDED = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.ABORTED})
OVER = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.CANCELLED})
HookCallStatus = Literal["running", "waiting", "asking"]


class HookCallView(Struct, frozen=True):
    hook: str
    point: HookPoint
    action: HookAction | None
    """None if the plan has no such hook anymore."""
    stage: str
    """The id of the stage or block; empty for the run as a whole."""
    branch: str | None
    status: HookCallStatus
    """`waiting`: for the next try; `asking`: for a person's answer."""
    key: str
    attempt: int
    since: datetime
    """When the try started."""
    until: datetime | None
    """When the try times out, or the next one starts."""
    message: str = ""
    """Why the previous try failed."""


def asks_about_hook(request: Request | RequestOpened) -> bool:
    """Whether its subject is a hook."""
    return request.kind == "pause" or request.reason == "hook_restarts"


def hook_calls(plan: Plan, state: RunState) -> Iterator[HookCallView]:
    for progress in state.hooks if state.status not in ENDED else ():
        call, at = progress.call, progress.at
        status = _status(state, progress, call) if call else None
        if call is None or status is None:
            continue
        path = at.node_path if at else ""
        hooks = plan.hooks(progress.point, "" if progress.point in CALL_POINTS else path)
        hook = next((known for known in hooks if known.id == call.hook), None)
        until = call.due_at if status == "waiting" else None
        if status == "running" and hook is not None and hook.seconds is not None:
            until = call.started_at + timedelta(seconds=hook.seconds)
        node = plan.by_path.get(path)
        yield HookCallView(
            hook=call.hook,
            point=progress.point,
            action=hook.action if hook else None,
            stage=node.id if node else path,
            branch=at.provider if at else None,
            status=status,
            key=call.delivery,
            attempt=call.number,
            since=call.started_at,
            until=until,
            message=call.message,
        )


def _status(state: RunState, progress: HookProgress, call: HookCall) -> HookCallStatus | None:
    """None if nothing is awaited."""
    # First: a call that has ended may be what a person is asked about.
    for request in state.open_requests:
        if asks_about_hook(request) and (request.subject, request.at) == (call.hook, progress.at):
            return "asking"
    if call.status in OVER:
        return None
    return "waiting" if call.status is TaskStatus.WAITING else "running"
