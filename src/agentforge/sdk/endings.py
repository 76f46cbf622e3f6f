"""What is told about a single-stage run that ended: a line in a file for tools, a notification for people."""

import asyncio
import logging
from collections.abc import Mapping

from agentforge.adapters.desktop import notify
from agentforge.model.errors import StorageFailed
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.runtime.loop_completions import Completion, add_completion, completion_of

log = logging.getLogger("agentforge.run")

TITLE = "Loop Agent"


async def tell_ended(project: str, plan: Plan, state: RunState, environ: Mapping[str, str]) -> None:
    """The run is over and recorded: whatever goes wrong here doesn't change that."""
    ended = note_ended(project, plan, state)
    if ended is not None:
        text = f"{ended.type} {ended.session}: {ended.status}"
        await asyncio.to_thread(notify, TITLE, text, environ)


def note_ended(project: str, plan: Plan, state: RunState) -> Completion | None:
    """What was noted; nothing if it is known already or isn't to be told."""
    ended = completion_of(plan, state)
    try:
        return ended if ended is not None and add_completion(project, ended) else None
    except StorageFailed as error:
        log.warning("the end of session %r isn't noted: %s", state.session, error.message)
        return None
