"""The read model of a run that an engine keeps, and that `status` and the live display read. Serialisable.

It is bounded, because an engine folds every event into it for as long as the run lasts, and because
state.json contains the state and the summary (`views/files/state.py`), so that `status` reads only the end of
the log. All that grows with the iterations is in the record (`views/record.py`), or, as its latest part, in
the history.
"""

from collections.abc import Iterable
from typing import get_args

from msgspec import Struct, field
from msgspec.structs import replace

from agentforge.engine.evolve.run import evolve
from agentforge.model.event import Event
from agentforge.model.facts import LogImported, PlanChanged, SessionStarted
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.views.history import History
from agentforge.views.summary import Summary, fold
from agentforge.views.visits import JudgedFact, latest_visits

CARRIES_PLAN = (SessionStarted, PlanChanged, LogImported)
CHANGES_VISITS = frozenset((*get_args(JudgedFact), PlanChanged))
RARE = CHANGES_VISITS | {*CARRIES_PLAN}


class RunModel(Struct):
    """A run as of the last applied event. Its spending is part of the state, where `decide` reads it."""

    plan: Plan | None = None
    state: RunState | None = None
    summary: Summary = Summary()
    history: History = field(default_factory=History)

    def apply(self, event: Event) -> None:
        before, self.state = self.state, evolve(self.state, event)
        self.summary = fold(self.summary, event)
        self.history.apply(event)
        # Of a struct, `isinstance` is slow if it is false, as it is for nearly all of many events.
        if type(event.fact) in RARE:
            self._apply_rare(event, before)

    def _apply_rare(self, event: Event, before: RunState | None) -> None:
        fact = event.fact
        if isinstance(fact, CARRIES_PLAN):
            self.plan = fact.plan
        if type(fact) in CHANGES_VISITS:
            provider = event.cursor.provider if event.cursor else None
            # The end of a node is about a stage that the state after it no longer has.
            stage = before.stage(provider) if before else None
            visits = latest_visits(self.summary.visits, self.plan, event, stage)
            self.summary = replace(self.summary, visits=visits)

    def catch_up(self, event: Event) -> None:
        """Apply an event, unless the state that the model started from already includes it."""
        if self.state is None or event.seq > self.state.seq:
            self.apply(event)


def fold_events(events: Iterable[Event], model: RunModel | None = None) -> RunModel:
    model = model or RunModel()
    apply = model.apply
    for event in events:
        apply(event)
    return model
