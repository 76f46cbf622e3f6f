"""Control of a run by a person: pause, cancel, steer, restart of a stage."""

import uuid
from typing import Any

from msgspec.structs import replace

from agentforge.app.redaction import references, stored_text
from agentforge.app.runs.context import RunContext
from agentforge.app.runs.resume import refuse_long_note, resume_run
from agentforge.app.runs.runner import drive, reopen, wait_until_released
from agentforge.engine.legal import refuse_cancel, refuse_note, refuse_pause, refuse_restart
from agentforge.model.errors import InvalidRequest, RunActive
from agentforge.model.run_options import ResumeOptions, completed
from agentforge.runtime.controls import Control, ControlAction, send_control, visit_name
from agentforge.views.results import RunResult


def pause(context: RunContext, session: str, reason: str, *, now: bool) -> None:
    context.caller.refuse_agent(pause=True)
    state = context.runs.info(session).state
    refuse_pause(state)
    _send(context, session, "pause", reason, now=now)


async def cancel(context: RunContext, session: str, reason: str) -> RunResult | None:
    context.caller.refuse_agent(cancel=True)
    state = context.runs.info(session).state
    refuse_cancel(state)
    context.trust.refuse_untrusted(session)
    # The engine that drives the run takes the control. Without one, this engine does: the lease decides.
    _send(context, session, "cancel", reason, now=True)
    await wait_until_released(context, session)
    try:
        journal = await reopen(context, session, accept_damage=True, to_work=False)
    except RunActive:
        return None
    return await drive(context, journal)


def steer(context: RunContext, session: str, text: str, *, by: str) -> None:
    context.caller.refuse_agent(steer=True)
    state = context.runs.info(session).state
    refuse_note(state)
    context.trust.refuse_untrusted(session)
    if not text.strip():
        raise InvalidRequest("the text is empty", hint="pass a text for the next iterations")
    said = references(context.environ, "the text")
    hidden = said.hide(text)
    refuse_long_note(hidden.text, "the text")
    control = Control("steer", hidden.text, by=by, id=_new_id(context))
    _hand_over(context, session, replace(control, secrets=said.proofs(hidden.secrets, control.signed)))


async def restart_stage(
    context: RunContext, session: str, reason: str, *, provider: str | None, by: str
) -> RunResult | None:
    context.caller.refuse_agent(restart_stage=True)
    info = context.runs.info(session)
    refuse_restart(info.state, provider)
    # A running run is restarted by its engine: a second one could not get the lease.
    if info.status == "running":
        _send_restart(context, session, reason, provider=provider, by=by)
        return None
    hidden = stored_text(reason, context.environ, "the reason")
    how = completed(ResumeOptions, ResumeOptions(restart_stage=True, provider=provider, by=by))
    try:
        return await resume_run(context, session, how, reason=hidden)
    except RunActive:
        # Another engine has continued it in the meantime.
        _send_restart(context, session, reason, provider=provider, by=by)
        return None


def _send_restart(context: RunContext, session: str, reason: str, *, provider: str | None, by: str) -> None:
    state = context.runs.info(session).state
    refuse_restart(state, provider)
    context.trust.refuse_untrusted(session)
    stage = state.stage(provider)
    visit = visit_name(stage.path, stage.run) if stage else ""
    _send(context, session, "restart", reason, provider=provider, by=by, visit=visit)


def _send(context: RunContext, session: str, action: ControlAction, reason: str, **more: Any) -> None:
    """`more`: other fields of the control."""
    hidden = stored_text(reason, context.environ, "the reason")
    _hand_over(context, session, Control(action, hidden, id=_new_id(context), **more))


def _new_id(context: RunContext) -> str:
    return f"{context.clock.now():%Y%m%dT%H%M%S%f}-{uuid.uuid4().hex[:8]}"


def _hand_over(context: RunContext, session: str, control: Control) -> None:
    send_control(context.runs.layout(session), control)
    context.wake(session)
