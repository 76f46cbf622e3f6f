"""Everything that is folded from a run's events, in one value: the state, the counters, the latest past."""

from collections.abc import Iterable

from msgspec import Struct, field

from agentforge.engine.evolve import evolve
from agentforge.model.event import Event
from agentforge.model.facts import SessionStarted
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.views.history import History, remember
from agentforge.views.summary import Summary, fold


class RunView(Struct, frozen=True):
    plan: Plan | None = None
    state: RunState | None = None
    summary: Summary = field(default_factory=Summary)
    history: History = field(default_factory=History)


def see(view: RunView, event: Event) -> RunView:
    """The view after one more event."""
    fact = event.fact
    return RunView(
        plan=fact.plan if isinstance(fact, SessionStarted) else view.plan,
        state=evolve(view.state, event),
        summary=fold(view.summary, event),
        history=remember(view.history, event),
    )


def see_all(events: Iterable[Event], view: RunView | None = None) -> RunView:
    view = view or RunView()
    for event in events:
        view = see(view, event)
    return view
