"""Who calls: a person, an agent of some run, or an agent of the run itself."""

from agentforge.app.runs.context import RunContext
from agentforge.model.errors import NotPermitted
from agentforge.model.state import RunState
from agentforge.model.task import MARK


def is_agent(context: RunContext) -> bool:
    """Whether this process, or one that started it, is an agent of a run."""
    return bool(_marks(context))


def refuse_own_agent(context: RunContext, state: RunState, verb: str) -> None:
    """A run's own agents must not act for a person."""
    if any(mark.startswith(f"{state.run_id}/") for mark in _marks(context)):
        raise NotPermitted(
            f"an agent of session {state.session!r} must not {verb} it",
            hint=f"{verb} it outside the run",
        )


def _marks(context: RunContext) -> frozenset[str]:
    """The marks of agents in the environment of this process and of those that started it."""
    marks = {context.runs.environ.get(MARK, ""), *context.processes.inherited(MARK)}
    return frozenset(marks - {""})
