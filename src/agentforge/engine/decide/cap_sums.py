"""The caps on spending as they stand: what is spent and reserved below each, and what is left."""

from collections.abc import Iterable, Iterator
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.event import Draft
from agentforge.model.plan import CapPlace, Plan
from agentforge.model.spending import Amount, Unit, plus
from agentforge.model.state import RunState


class Cap(Struct, frozen=True):
    """A cap on a part of the run, as it stands."""

    unit: Unit
    place: CapPlace
    limit: float
    """With what people granted."""
    spent: float
    reserved: float

    @property
    def key(self) -> str:
        return cap_key(self.unit, self.place.path)

    @property
    def left(self) -> float:
        return plus(self.limit, -self.spent, -self.reserved)

    @property
    def left_at_most(self) -> float:
        """If what is reserved isn't used."""
        return plus(self.limit, -self.spent)


def cap_key(name: str, path: str) -> str:
    return f"{name}@{path}" if path else name


def caps_of(plan: Plan, state: RunState) -> Iterator[Cap]:
    """Those of the whole run first."""
    held = [*_reserved(state)] if plan.caps else []
    for place in plan.caps:
        inside = [part for path, part in state.spent.items() if place.has(path)] if place.path else []
        parts = inside if place.path else [state.spending]
        reserved = [amount for path, amount in held if place.has(path)]
        for unit, limit in place.caps.known:
            yield Cap(
                unit,
                place,
                plus(limit, state.granted.get(cap_key(unit, place.path), 0.0)),
                plus(*(part.counted(unit) for part in parts)),
                plus(*(amount.of(unit) or 0.0 for amount in reserved)),
            )


def _reserved(state: RunState) -> Iterator[tuple[str, Amount]]:
    """What attempts and judges in flight may spend, with the paths of their stages."""
    for _, stage in state.under_way():
        for _, task in stage.tasks:
            if task.in_flight and task.reserved is not None:
                yield stage.path, task.reserved


class CapSums:
    """The caps while a decision starts several attempts: what one reserves counts for the next."""

    def __init__(self, plan: Plan, state: RunState) -> None:
        self._plan = plan
        self._state = state

    @cached_property
    def caps(self) -> list[Cap]:
        # Most decisions start nothing, and need no sums.
        return list(caps_of(self._plan, self._state))

    def count(self, starting: Iterable[Draft]) -> None:
        for draft in starting:
            if isinstance(draft.fact, f.TaskStarted) and draft.fact.reserves and draft.cursor:
                reserved, path = draft.fact.reserves, draft.cursor.node_path
                self.caps = [_less(cap, reserved) if cap.place.has(path) else cap for cap in self.caps]


def _less(cap: Cap, reserved: Amount) -> Cap:
    return replace(cap, reserved=plus(cap.reserved, reserved.of(cap.unit) or 0.0))
