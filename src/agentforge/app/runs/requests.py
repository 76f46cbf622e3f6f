"""The open requests of all runs of a project."""

from collections.abc import Iterator
from contextlib import suppress

from agentforge.app.results import OpenRequest
from agentforge.app.runs.context import RunContext
from agentforge.app.runs.lookup import is_answered
from agentforge.model.errors import AgentForgeError
from agentforge.model.plan import Plan
from agentforge.model.request import Request
from agentforge.runtime.head_keeper import HeadKeeper
from agentforge.runtime.requests import record_due
from agentforge.runtime.state_writer import StateWriter


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
    if info.session != session:
        return  # Archived.
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
        layout = context.runs.layout(session)
        keeper = HeadKeeper(layout.root, context.runs.environ)
        keeper.check_head(journal.state.run_id, context.runs.log_file(session))
        record_due(journal, layout)
        journal.wait_for_disk()
        StateWriter(layout, journal, keeper).put()
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
