"""Everything that is folded from a run's events, in one place: the state, the counters, the latest past."""

from collections.abc import Iterable

from agentforge.engine.evolve import evolve
from agentforge.model.event import Event
from agentforge.model.facts import LogAdopted, PlanChanged, SessionStarted
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.views.history import History
from agentforge.views.summary import Summary, fold

BRINGS_A_PLAN = (SessionStarted, PlanChanged, LogAdopted)


class RunView:
    """How the run stands as of the last event seen."""

    def __init__(
        self, plan: Plan | None = None, state: RunState | None = None, summary: Summary | None = None
    ) -> None:
        self.plan = plan
        self.state = state
        self.summary = summary or Summary()
        self.history = History()

    def see(self, event: Event) -> None:
        """Take in one more event."""
        if isinstance(event.fact, BRINGS_A_PLAN):
            self._take_plan(event.fact)
        self.state = evolve(self.state, event)
        self.summary = fold(self.summary, event)
        self.history.take(event)

    def _take_plan(self, fact: SessionStarted | PlanChanged | LogAdopted) -> None:
        if isinstance(fact, PlanChanged):
            self.history.move(fact.paths)
        self.plan = fact.plan


def see_all(events: Iterable[Event], view: RunView | None = None) -> RunView:
    view = view or RunView()
    see = view.see
    for event in events:
        see(event)
    return view
