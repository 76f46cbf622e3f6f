"""The hooks that a run is calling, or that wait for a person: what `status` and the live display name."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from agentforge.model.facts import RequestOpened
from agentforge.model.hook import CALL_POINTS, HookAction, HookPoint
from agentforge.model.plan import Plan
from agentforge.model.request import Request
from agentforge.model.state import HookCall, HookProgress, RunState
from agentforge.model.status import RunStatus, TaskStatus

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
