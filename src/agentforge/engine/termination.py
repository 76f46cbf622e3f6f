"""When a stage is done."""

from agentforge.model.plan import Fixed, Termination
from agentforge.model.result import Decision
from agentforge.model.state import NodeState


def end_of(termination: Termination, at: NodeState) -> str:
    """Why the stage ends after the iterations it has completed; empty while it goes on."""
    if at.completed == 0:
        return ""
    if at.last_decision is Decision.STOP:
        return f"Agent requested stop at iteration {at.completed}"
    match termination:
        case Fixed(max=limit):
            return f"Completed {at.completed} iterations (max: {limit})" if at.completed >= limit else ""
