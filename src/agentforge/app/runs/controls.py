"""Control of a run by a person: pause, cancel, and answers to its requests."""

import asyncio
import uuid
from contextlib import suppress
from typing import Literal

from agentforge.app.results import RunResult
from agentforge.app.runs.context import RunContext, refuse_own_agent, reopen
from agentforge.app.runs.resume import reopen_to_work
from agentforge.engine.legal import refuse_cancel, refuse_pause
from agentforge.model.errors import IllegalMove, InvalidRequest, RunActive
from agentforge.model.request import Request
from agentforge.model.state import RunState
from agentforge.runtime.controls import (
    Answer,
    Control,
    give_answer,
    given_answers,
    has_invalid_answer,
    send_control,
)
from agentforge.runtime.journal import Journal
from agentforge.runtime.refusals import take_answers

RELEASE_SECONDS = 2.0


def pause(context: RunContext, session: str, reason: str, *, now: bool) -> None:
    refuse_pause(context.runs.info(session).state)
    _send(context, session, "pause", reason, now=now)


async def cancel(context: RunContext, session: str, reason: str) -> RunResult | None:
    refuse_cancel(context.runs.info(session).state)
    context.trust.refuse_untrusted(session)
    _send(context, session, "cancel", reason, now=True)
    await context.runner.wait_until_released(session)
    try:
        journal = await reopen(context, session, accept_damage=True, to_work=False)
    except RunActive:
        return None
    return await context.runner.drive(journal)


async def answer(
    context: RunContext, session: str, text: str, *, request: str | None, by: str
) -> RunResult | None:
    state = context.runs.info(session).state
    refuse_own_agent(state, context.runs.environ, "answer")
    context.trust.refuse_untrusted(session)
    opened = _request_to_answer(state, request, text)
    layout = context.runs.layout(session)
    await _make_way(context, session, opened)
    first = next(given_answers(layout, (opened,)), None)
    given = first[1] if first else give_answer(layout, Answer(opened.id, text, by))
    if given.answer != text:
        raise IllegalMove(f"request {opened.id!r} was already answered by {given.by}: {given.answer}")
    context.runner.wake(session)
    journal = await _open_waiting(context, session, opened.id)
    return await context.runner.drive(journal) if journal else None


def _send(
    context: RunContext,
    session: str,
    action: Literal["pause", "cancel"],
    reason: str,
    *,
    now: bool,
) -> None:
    id = f"{context.clock.now():%Y%m%dT%H%M%S%f}-{uuid.uuid4().hex[:8]}"
    send_control(context.runs.layout(session), Control(id, action, reason, now))
    context.runner.wake(session)


def _request_to_answer(state: RunState, id: str | None, answer: str) -> Request:
    """The open request to answer. Raises InvalidRequest if there isn't exactly one, or if the answer isn't
    one of its options."""
    found = [request for request in state.open_requests if id in (None, request.id)]
    if not found:
        what = f"request {id!r}" if id else "requests"
        hint = f"`agentforge answer {state.session}` lists them" if state.open_requests else ""
        raise InvalidRequest(
            f"session {state.session!r} has no open {what}",
            hint=hint or f"`agentforge status {state.session}` shows its status",
        )
    if len(found) > 1:
        ids = ", ".join(request.id for request in found)
        raise InvalidRequest(
            f"session {state.session!r} has several open requests: {ids}", hint="choose one with --request ID"
        )
    if answer not in found[0].options:
        options = ", ".join(found[0].options)
        raise InvalidRequest(
            f"{answer!r} is not an option of request {found[0].id!r}", hint=f"use one of: {options}"
        )
    return found[0]


async def _make_way(context: RunContext, session: str, request: Request) -> None:
    """Have an invalid answer moved aside by the engine that owns the run, or here if no engine does."""
    layout, loop = context.runs.layout(session), asyncio.get_running_loop()
    until = loop.time() + RELEASE_SECONDS
    while has_invalid_answer(layout, request) and loop.time() < until:
        with suppress(RunActive):
            journal = await reopen(context, session, accept_damage=False, to_work=False)
            with context.leases.released_on_error(journal):
                take_answers(journal, layout, (request,))
            context.leases.release(journal)
        context.runner.wake(session)
        await asyncio.sleep(0.02)


def _waits_for(state: RunState, request: str) -> bool:
    """Whether the run is stopped until the request is answered."""
    return state.waits and any(known.id == request for known in state.open_requests)


async def _open_waiting(context: RunContext, session: str, request: str) -> Journal | None:
    """The journal of a run that waits for the request, or None. The engine that stopped the run may need a
    moment to release it."""
    loop = asyncio.get_running_loop()
    until = loop.time() + RELEASE_SECONDS
    while _waits_for(context.runs.info(session).state, request) and loop.time() < until:
        with suppress(RunActive):
            return await reopen_to_work(context, session, accept_damage=False)
        await asyncio.sleep(0.02)
    return None
