"""The read model of a run: one fold of its events that every view and surface reads. Serialisable."""

from collections.abc import Iterable

from msgspec import Struct, field

from agentforge.engine.evolve.run import evolve
from agentforge.model.event import Event
from agentforge.model.facts import LogImported, PlanChanged, SessionStarted
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.views.history import History
from agentforge.views.summary import Summary, fold

BRINGS_A_PLAN = (SessionStarted, PlanChanged, LogImported)


class RunModel(Struct):
    """A run as of the last event seen. What it spent is part of its state, where `decide` reads it."""

    plan: Plan | None = None
    state: RunState | None = None
    summary: Summary = Summary()
    history: History = field(default_factory=History)

    def see(self, event: Event) -> None:
        """Take in one more event."""
        if isinstance(event.fact, BRINGS_A_PLAN):
            self.plan = event.fact.plan
        self.state = evolve(self.state, event)
        self.summary = fold(self.summary, event)
        self.history.take(event)

    def catch_up(self, event: Event) -> None:
        """Take in an event, unless the model was begun from a state that has seen it."""
        if self.state is None or event.seq > self.state.seq:
            self.see(event)


def see_all(events: Iterable[Event], model: RunModel | None = None) -> RunModel:
    model = model or RunModel()
    see = model.see
    for event in events:
        see(event)
    return model
