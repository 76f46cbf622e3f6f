"""What a notification says: a run needs a person, failed, completed or was cancelled."""

import uuid

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.decide.termination import MAX_ITERATIONS
from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.hook import Occasion
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.views.answers import answer_command
from agentforge.views.spending import cap_of_run, cap_views
from agentforge.views.text import one_line, reason_text

TEXT_COLUMNS = 400


class Notice(Struct, frozen=True, omit_defaults=True):
    """Its encoding is what webhooks and commands receive."""

    session: str
    event: Occasion
    title: str
    text: str
    notification: str
    """Its key: the same event of a run has the same key."""
    run_id: str
    request: str = ""
    """The id of the open request."""
    command: str = ""
    """The command that answers the request."""


def notice_of(event: Event, plan: Plan, state: RunState) -> Notice | None:
    """The notice about an event, or None. `state` is the state after it."""
    match event.fact:
        case f.RequestOpened(id=id, question=question):
            said = _notice("request", f"needs an answer: {question}", event, plan, state)
            requests = state.open_requests
            request = next(request for request in requests if request.id == id)
            command = answer_command(state.session, request, "agentforge", only=len(requests) == 1)
            return replace(said, request=id, command=command)
        case f.SessionFailed(message=message):
            return _notice("failed", f"failed: {message}", event, plan, state)
        case f.SessionCompleted():
            is_limit = plan.mode == "loop" and state.completion_reason == MAX_ITERATIONS
            return _notice("completed", MAX_ITERATIONS if is_limit else "complete", event, plan, state)
        case f.SessionAborted(reason=reason):
            status = f"cancelled: {reason_text(reason)}" if reason else "cancelled"
            return _notice("cancelled", status, event, plan, state)
        case _:
            return None


def _notice(occasion: Occasion, status: str, event: Event, plan: Plan, state: RunState) -> Notice:
    is_loop = plan.mode == "loop"
    name = plan.only_stage.stage if is_loop else plan.pipeline.name
    return Notice(
        session=state.session,
        event=occasion,
        title="Loop Agent" if is_loop else "AgentForge",
        text=one_line(f"{name} {state.session}: {status}{_spent(plan, state)}", TEXT_COLUMNS),
        notification=notification_key(state.run_id, event.seq),
        run_id=state.run_id,
    )


def _spent(plan: Plan, state: RunState) -> str:
    """`; $0.90 of $1.00`: below a cap, what it has spent. The question of a run at its cap says it, too."""
    cap = cap_of_run(cap_views(plan, state), "cost_usd")
    return f"; {cap.text}" if cap and not state.open_requests else ""


def notification_key(run_id: str, seq: int) -> str:
    """The key by which a receiver recognises a notification that it has seen."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"agentforge:{run_id}:notification:{seq}"))
