"""What the controller of pipelines asks about a run: its state in the words of pipelines, from its log."""

import os
from contextlib import suppress
from typing import Any

from agentforge.app.runs.context import RunContext
from agentforge.model.errors import AgentForgeError
from agentforge.model.request import Request
from agentforge.runtime.escalations import resolution_file
from agentforge.runtime.pipeline_view import PipelineWriter
from agentforge.views.record import record_of


def pipeline_state(context: RunContext, session: str) -> dict[str, Any]:
    """As the state file has it. Files that are missing, changed or unreadable are written again, unless an
    engine drives the run, which does so itself."""
    writer = PipelineWriter(context.runs.layout(session), record_of(context.runs.events(session)))
    is_free = context.trust.is_own(session) and not context.runs.is_held(session)
    if is_free and context.runs.info(session).plan.pipeline.has_controller_view and writer.is_outdated():
        with suppress(AgentForgeError):  # Another engine has it now.
            context.leases.update(context.leases.open(session))
    return writer.document()


def resolution_of(context: RunContext, session: str, request: Request) -> str:
    """The file that answers the request, relative to the project."""
    run_id = context.runs.info(session).state.run_id
    return os.path.relpath(resolution_file(context.runs.layout(session), run_id, request), context.project)
