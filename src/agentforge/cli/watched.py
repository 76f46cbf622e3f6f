"""A run as the display sees it: the fold of its events, begun from where the run stands."""

from agentforge.engine.evolve import evolve
from agentforge.model.event import Event
from agentforge.model.facts import PlanChanged, SessionStarted
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.sdk.runs import Runs
from agentforge.views.summary import Summary, fold


class Watched:
    def __init__(self, runs: Runs, session: str) -> None:
        self._runs = runs
        self.session = session
        self.plan: Plan | None = None
        self.state: RunState | None = None
        self.summary = Summary()

    def take(self, event: Event) -> Plan:
        """Fold one more event; the plan that it belongs to."""
        if isinstance(event.fact, SessionStarted | PlanChanged):
            self.plan = event.fact.plan
        if self.plan is None or (self.state is None and not isinstance(event.fact, SessionStarted)):
            # The run began in another process: everything up to about now is taken from its files.
            info = self._runs.info(self.session)
            self.plan, self.state, self.summary = info.plan, info.state, info.summary
        if self.state is None or event.seq > self.state.seq:
            self.state = evolve(self.state, event)
            self.summary = fold(self.summary, event)
        return self.plan
