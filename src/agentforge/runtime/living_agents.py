"""Whether agents that an earlier engine started are still at work."""

from agentforge.model.layout import RunLayout
from agentforge.model.place import place_of
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.ports.process import Processes
from agentforge.runtime.exit_record import read_claim, read_exit


def has_living_agent(plan: Plan, state: RunState, layout: RunLayout, processes: Processes) -> bool:
    for provider, at in state.under_way():
        attempt = at.iteration.attempt if at.iteration else None
        if at.iteration is None or attempt is None or not attempt.in_flight:
            continue
        at_work = place_of(plan, state, provider, at)
        if at_work is None:
            continue
        place = layout.iteration(at_work.folder, at.iteration.number).attempt(attempt.number)
        claim = read_claim(place)
        if claim is not None and read_exit(place) is None and processes.is_alive(claim.identity):
            return True
    return False
