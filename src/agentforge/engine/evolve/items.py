"""Applies events to the items of a stage."""

from msgspec.structs import replace

from agentforge.engine.evolve.node import in_stage
from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.place import visits_key
from agentforge.model.state import RunState, StageState


def evolve_items(state: RunState, event: Event, fact: f.AnyItemFact) -> RunState:
    at = event.cursor
    if at is None:
        return state
    key = visits_key(at.node_path, at.provider)
    items = state.items.get(key, {})
    if isinstance(fact, f.ItemsPlanned):
        items = {item.id: item for item in fact.items}
    elif fact.item in items:
        items = {**items, fact.item: replace(items[fact.item], status=fact.status)}
    return in_stage(replace(state, items={**state.items, key: items}), event, fact, _evolve)


def _evolve(at: StageState, _: Event, fact: f.AnyItemFact) -> StageState:
    if isinstance(fact, f.ItemsPlanned):
        return replace(at, planned=True)
    return replace(at, item="", item_tries=0)
