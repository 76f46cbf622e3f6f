"""The open requests of all runs of a project; answering one, once, and continuing its run."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import NoReturn

from msgspec import Struct

from agentforge.app.redaction import references_of_answers
from agentforge.app.runs.context import RunContext
from agentforge.app.runs.lookup import Runs, is_answered
from agentforge.app.runs.program_parts import lacks_parts
from agentforge.app.runs.resume import reopen_to_work
from agentforge.app.runs.runner import drive, recovered, reopen
from agentforge.model import facts as f
from agentforge.model.errors import (
    AgentForgeError,
    AlreadyAnswered,
    ForeignRequest,
    InvalidAnswer,
    InvalidRequest,
    RequestClosed,
    RunActive,
    UnknownRequest,
)
from agentforge.model.names import session_argument
from agentforge.model.plan import Plan
from agentforge.model.request import Request
from agentforge.model.state import RunState
from agentforge.model.status import RunStatus, status_text
from agentforge.runtime.answers import (
    MAX_TEXT_BYTES,
    Answer,
    give_answer,
    has_invalid_answer,
    hidden,
    offered,
    record_due,
    take_answers,
)
from agentforge.runtime.journal import Journal
from agentforge.views.results import RunResult, ShownStatus

RELEASE_SECONDS = 10.0


class OpenRequest(Struct, frozen=True):
    """A request of a run that is not answered yet."""

    session: str
    status: ShownStatus
    """Of the run."""
    request: Request
    stage: str
    """The stage or block that asked; empty if the whole run did."""
    branch: str | None = None
    """The provider whose branch asked, inside a parallel block."""
    is_own: bool = True
    """Whether the run was started here; others are answered only after they are trusted."""


class Response(Struct, frozen=True):
    """What someone says to a request."""

    answer: str
    request: str | None = None
    """None: the only one that is open."""
    text: str = ""
    by: str = "person"
    as_agent: bool = False


async def respond(
    context: RunContext, session: str, response: Response, *, then_drive: bool
) -> RunResult | None:
    info = context.runs.info(session)
    state = info.state
    context.caller.refuse_own_agent(state, "answer")
    context.trust.refuse_untrusted(session)
    request = _request_to_answer(context.runs, session, state, response.request)
    given = _answer(context, state, request, response)
    layout = context.runs.layout(session)
    await _make_way(context, session, state.run_id, request)
    # The file decides which answer is the first. From now on the request is answered, whatever becomes of
    # this process: each engine that opens the run takes the answer from there.
    if (first := give_answer(layout, given)) is not None:
        _refuse_answered(session, request.id, first.by, first.answer, first.at, pending=True)
    context.wake(session)
    if lacks_parts(context, info.plan, state.settings):
        # The program that has them continues the run; until then, the log shows the answer.
        open_requests(context, session)
        return None
    journal = await _open_waiting(context, session, request.id) if then_drive else None
    return await drive(context, journal) if journal else None


def _answer(context: RunContext, state: RunState, request: Request, response: Response) -> Answer:
    """The answer as it is stored. Raises the reason why it isn't accepted."""
    by_agent = response.as_agent or context.caller.is_agent
    if by_agent:
        context.caller.refuse_answer(state.session, request)
    given = Answer(
        request.id,
        response.answer,
        "agent" if by_agent and response.by == "person" else response.by,
        state.run_id,
        # The time of the log may be ahead of the clock.
        max(context.clock.now(), request.opened_at),
        response.text,
    )
    given = hidden(given, references_of_answers(context.environ))
    if not request.accepts(response.answer):
        raise InvalidAnswer(
            f"{response.answer!r} is not an option of request {request.id!r}",
            hint=f"use one of: {offered(request)}",
        )
    if request.needs_reason(response.answer) and not response.text.strip():
        raise InvalidAnswer(
            f"{response.answer!r} requires a reason, which is recorded in the log",
            hint=f"agentforge answer --reason TEXT {session_argument(state.session)} {response.answer}",
        )
    if given.size > MAX_TEXT_BYTES:
        raise InvalidAnswer(
            f"an answer must have at most {MAX_TEXT_BYTES} bytes, got {given.size}",
            hint="put the text into a file of the project and name the file instead",
        )
    return given


# -- the request


def _request_to_answer(runs: Runs, session: str, state: RunState, id: str | None) -> Request:
    """The open request with that id, or the only one. Raises the reason why it can't be answered."""
    found = [request for request in state.open_requests if id in (None, request.id)]
    if len(found) > 1:
        ids = ", ".join(request.id for request in found)
        raise InvalidRequest(
            f"session {session!r} has several open requests: {ids}", hint="name the one to answer by its id"
        )
    if found:
        return found[0]
    asked = id or next((request.id for request in state.requests), None) or _last_answered(runs, session)
    if asked is not None:
        _refuse_closed(runs, session, state, asked)
    if id is not None:
        _refuse_foreign(runs, session, id)
    what = f"request {id!r}" if id else "requests"
    open_ids = ", ".join(request.id for request in state.open_requests)
    raise UnknownRequest(
        f"session {session!r} has no open {what}",
        hint=f"open requests: {open_ids}"
        if open_ids
        else f"`agentforge status {session_argument(session)}` shows its status",
    )


def _last_answered(runs: Runs, session: str) -> str | None:
    """The request that a second answer is likely to be about."""
    facts = (event.fact for event in runs.events(session))
    return next(reversed([fact.id for fact in facts if isinstance(fact, f.RequestAnswered)]), None)


def _refuse_closed(runs: Runs, session: str, state: RunState, id: str) -> None:
    """Raise, with what became of it, if the run's log has the request."""
    is_known = False
    for event in runs.events(session):
        if isinstance(event.fact, f.RequestAnswered) and event.fact.id == id:
            pending = any(request.id == id for request in state.requests) and state.waits
            _refuse_answered(session, id, event.fact.by, event.fact.answer, event.at, pending=pending)
        is_known = is_known or (isinstance(event.fact, f.RequestOpened) and event.fact.id == id)
    if is_known:
        over = state.status in (RunStatus.COMPLETED, RunStatus.ABORTED)
        why = f"the session is {status_text(state.status)}" if over else "it was withdrawn"
        raise RequestClosed(
            f"request {id!r} of session {session!r} is closed: {why}",
            hint=f"`agentforge status {session_argument(session)}` shows its status",
        )


def _refuse_foreign(runs: Runs, session: str, id: str) -> None:
    for other in runs.sessions():
        with suppress(AgentForgeError):
            if other != session and any(id == r.id for r in runs.info(other).state.open_requests):
                break
    else:
        return
    raise ForeignRequest(
        f"request {id!r} belongs to session {other!r}, not to {session!r}",
        hint=f"answer it with session {other!r}",
    )


def _refuse_answered(session: str, id: str, by: str, answer: str, at: datetime, *, pending: bool) -> NoReturn:
    name = session_argument(session)
    raise AlreadyAnswered(
        f"request {id!r} of session {session!r} was already answered by {by}: {answer}"
        f" ({at:%Y-%m-%d %H:%M:%S} UTC)",
        hint=f"`agentforge recover {name}` continues a run whose answer was not applied"
        if pending
        else f"`agentforge status {name}` shows its status",
    )


# -- before and after


async def _make_way(context: RunContext, session: str, run_id: str, request: Request) -> None:
    """Have an invalid answer moved aside by the engine that owns the run, or here if no engine does."""
    layout, loop = context.runs.layout(session), asyncio.get_running_loop()
    until = loop.time() + RELEASE_SECONDS
    while has_invalid_answer(layout, run_id, request) and loop.time() < until:
        with suppress(RunActive):
            journal = await reopen(context, session, accept_damage=False, to_work=False)
            with context.leases.released_on_error(journal):
                take_answers(journal, layout, (request,))
            context.leases.release(journal)
        context.wake(session)
        await asyncio.sleep(0.02)


async def _open_waiting(context: RunContext, session: str, request: str) -> Journal | None:
    """The journal of a run that has no engine and waits for the request, or whose engine died; else None. The
    engine that stopped the run may need a moment to release it."""
    loop = asyncio.get_running_loop()
    until = loop.time() + RELEASE_SECONDS
    while _is_left_waiting(context.runs, session, request) and loop.time() < until:
        with suppress(RunActive):
            journal = await reopen_to_work(context, session, accept_damage=False)
            with context.leases.released_on_error(journal):
                if journal.state.status is RunStatus.RUNNING:
                    journal.record(recovered("recovery"), journal.state.cursor)
            return journal
        await asyncio.sleep(0.02)
    return None


def _is_left_waiting(runs: Runs, session: str, request: str) -> bool:
    info = runs.info(session)
    is_open = any(known.id == request for known in info.state.open_requests)
    return is_open and (info.state.waits or info.status == "interrupted")


def open_requests(context: RunContext, session: str | None) -> list[OpenRequest]:
    """Of one run, or of all: the oldest first. Answers that no engine applied and defaults that are due are
    recorded first."""
    if session is not None:
        found = list(_of_run(context, session))
    else:
        found = []
        for name in context.runs.sessions():
            with suppress(AgentForgeError):
                found += _of_run(context, name)
    return sorted(found, key=lambda each: each.request.opened_at)


def _of_run(context: RunContext, session: str) -> Iterator[OpenRequest]:
    info = context.runs.info(session)
    if info.is_archived:
        return
    is_own = context.trust.is_own(session)
    if is_own and is_answered(info.plan, info.state, context.runs.layout(session), context.clock.now()):
        with suppress(AgentForgeError):
            _record_due(context, session)
        info = context.runs.info(session)
    for request in info.state.open_requests:
        branch = request.at.provider if request.at else None
        yield OpenRequest(session, info.status, request, _stage(info.plan, request), branch, is_own)


def _record_due(context: RunContext, session: str) -> None:
    """Raises RunActive if an engine drives the run, which does the same."""
    journal = context.leases.open(session)
    try:
        if journal.writer.damage:
            return  # A person decides about the damage first.
        context.leases.check_head(journal)
        record_due(journal, context.runs.layout(session), references_of_answers(context.environ))
        context.leases.write_state(journal)
    finally:
        context.leases.release(journal)


def _stage(plan: Plan, request: Request) -> str:
    """The label of the stage, or the id of the block, that asked; empty if the whole run did."""
    if request.at is None:
        return ""
    stage = plan.stage(request.at.node_path, request.at.provider)
    if stage is not None:
        return stage.label
    step = plan.places.get(request.at.node_path)
    return step.node.id if step else ""
