"""Applies the outcome of an attempt or a judge to what the run has spent, and grants to what it may spend."""

from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.request import Request
from agentforge.model.spending import Spending, plus
from agentforge.model.state import RunState

# What an attempt may spend is reserved by its start, and is open while it is in flight: the sum of what is
# reserved is a sum over tasks, not a counter that a lost event could leave wrong. Its outcome settles it at
# what was used. What is unknown counts as used in full, or a provider that reports nothing could spend
# without end.


def settled(state: RunState, at: Cursor | None, fact: f.TaskOutcome) -> RunState:
    task = state.task(fact.KIND, fact.about, at.provider if at else None) if at else None
    reserved = task.reserved if task is not None and task.in_flight and fact.started else None
    if fact.usage is None and reserved is None:
        return state
    spent = replace(state, spending=state.spending.settled(fact.usage, reserved))
    if at is None:
        return spent
    part = state.spent.get(at.node_path, Spending()).settled(fact.usage, reserved)
    return replace(spent, spent={**state.spent, at.node_path: part})


def granted(state: RunState, request: Request, amount: float) -> RunState:
    """The subject of the request is the cap."""
    more = plus(state.granted.get(request.subject, 0.0), amount)
    return replace(state, granted={**state.granted, request.subject: more})
