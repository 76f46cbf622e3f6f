"""Control runs without a display: the engine of such commands, and what they print."""

from agentforge import SyncEngine
from agentforge.cli.invocation import Invocation
from agentforge.cli.log_output import set_up_logs


def open_engine(call: Invocation) -> SyncEngine:
    set_up_logs(call)
    return SyncEngine(call.root)


def pause_text(session: str, *, driven: bool, now: bool = False) -> str:
    """What was asked for. `driven`: whether the run has an engine."""
    if not driven:
        return f"Session '{session}' has no active engine; it will pause as soon as it is recovered."
    return f"Session '{session}' will pause {'now' if now else 'after its current iteration'}."


def cancel_text(session: str, *, cancelled: bool) -> str:
    if cancelled:
        return f"Cancelled session '{session}'."
    return f"Cancelling session '{session}': its engine is stopping the agent."
