"""Decides whether an attempt or a judge may start under the caps on spending, and what it reserves.

The bound of an attempt is its figure (`max_iteration_cost_usd`, `max_iteration_tokens`), else what its
provider is told to keep to. It starts only if its bound fits into what is left of every cap above it.
"""

from msgspec import Struct

from agentforge.engine.decide.cap_sums import Cap, cap_key
from agentforge.engine.decide.requests import Question, Ruling
from agentforge.engine.decide.stage_at import StageAt
from agentforge.model import facts as f
from agentforge.model.plan import Plan, ProviderChoice, StageNode
from agentforge.model.request import CANCEL, RESUME, RETRY
from agentforge.model.spending import SPENDING_CAP, UNITS, Amount, Unit, plus, shown
from agentforge.model.state import RunState, TaskState

# Theory of operation
#
# A cap holds if no attempt starts whose bound doesn't fit. Between the start of an attempt and its outcome,
# what it may spend counts as spent: branches share a cap without knowing of each other. An attempt that
# doesn't fit only because of what others have reserved waits for them. One that doesn't fit into what is
# left when they have spent nothing more is a breach, about which a person is asked once for each cap.
#
# A provider that keeps to a budget needs no figure: it gets what is left, in a block an equal part of it, so
# that branches needn't wait for each other. One that was stopped at its budget continues with as much again,
# while there is as much; with twice as much if it spent nothing, or it would be stopped there for ever.

ITERATION = "iteration_"
"""Before the unit: the cap on an attempt of a node."""


class Spender(Struct, frozen=True):
    """An attempt or a judge that is about to start."""

    here: StageAt
    by: ProviderChoice
    what: str
    """`the next attempt`"""
    before: TaskState | None
    """The latest try of the same."""

    @property
    def name(self) -> str:
        return f"{self.here.who}{self.what} of stage {self.here.node.id!r}"

    def had(self, unit: Unit) -> float | None:
        """What the latest try could spend, if it was stopped at that."""
        last = self.before
        is_at_cap = last is not None and last.is_at_cap and not last.excused
        return last.reserved.of(unit) if last and last.reserved and is_at_cap else None

    def needs(self, unit: Unit) -> float:
        """What it needs at least, as far as that is known, if its provider keeps to a budget."""
        again = 2 if self.before and self.before.spent_nothing else 1
        return again * (self.had(unit) or 0.0)


def reserve(start: Spender) -> Amount | Ruling | None:
    """What it may spend, if that is bounded; or that it waits, or a question."""
    here, found = start.here, Amount()
    caps = [cap for cap in here.sums.caps if cap.place.has(here.place.path)]
    for unit in UNITS:
        bound = _bound(start, unit, [cap for cap in caps if cap.unit == unit])
        if isinstance(bound, Ruling):
            return bound
        found = found.with_unit(unit, bound)
    return found if any(found.known) else None


def _bound(start: Spender, unit: Unit, caps: list[Cap]) -> float | Ruling | None:
    here, had = start.here, start.had(unit)
    figure = here.node.per_attempt.of(unit)
    if figure is not None:
        key = cap_key(f"{ITERATION}{unit}", here.place.path)
        figure = plus(figure, here.state.granted.get(key, 0.0))
        if had is not None and had >= figure:
            return _figure_reached(start, unit, key, figure)
    if not caps:
        return figure
    if figure is None and unit not in start.by.bounds:
        return unbounded(start, caps[0].key, unit)
    needed = start.needs(unit) if figure is None else figure
    at_most = [cap.left_at_most for cap in caps]
    for cap, most in zip(caps, at_most, strict=True):
        if most <= 0 or needed > most:
            return _breach(start, cap, needs_text(unit, needed))
    left = min(cap.left for cap in caps)
    if left <= 0 or needed > left:
        return Ruling()
    if figure is not None:
        return figure
    part = min(at_most) / here.sharing
    return max(needed, min(left, max(1, part // 1) if unit == "tokens" else plus(part) or left))


def _figure_reached(start: Spender, unit: Unit, key: str, figure: float) -> Ruling:
    most = f"{shown(unit, figure)}, the most that it may spend (`max_iteration_{unit}`)"
    text = f"before {start.name}: the last one was stopped at {most}. Try once more with as much ({RETRY}),"
    text += f" allow a further amount (a number), or cancel the run ({CANCEL})?"
    return _asked(text, (RETRY, RESUME, CANCEL), key, unit)


def unbounded(start: Spender, cap: str, unit: Unit) -> Ruling:
    """No further amount would be enough. Such a run is refused before it starts."""
    text = f"nothing bounds what {start.name} with {start.by.type} may spend below a cap. Set"
    text += f" `max_iteration_{unit}` and resume with `--recompile`, or cancel the run ({CANCEL})?"
    return Ruling(question=Question(SPENDING_CAP, text, (RESUME, CANCEL), scope="run", subject=cap))


def needs_text(unit: Unit, amount: float) -> str:
    return f"needs up to {shown(unit, amount)}" if amount else "needs more"


def _breach(start: Spender, cap: Cap, why: str) -> Ruling:
    spent, limit = shown(cap.unit, cap.spent), shown(cap.unit, cap.limit)
    held = f", {shown(cap.unit, cap.reserved)} reserved" if cap.reserved else ""
    return breach(
        f"{cap.place.name} is at its cap: {spent} of {limit} spent{held}; {start.name} {why}",
        cap.key,
        cap.unit,
    )


def breach(text: str, cap: str, unit: Unit) -> Ruling:
    text += f". Allow a further amount (a number), or cancel the run ({CANCEL})?"
    return _asked(text, (RESUME, CANCEL), cap, unit)


def _asked(text: str, options: tuple[str, ...], cap: str, unit: Unit) -> Ruling:
    return Ruling(question=Question(SPENDING_CAP, text, options, scope="run", subject=cap, grants=unit))


def cap_in_plan(plan: Plan, key: str) -> float:
    """The cap, without what people granted; 0 if the plan has no such cap."""
    found = {cap_key(unit, place.path): cap for place in plan.caps for unit, cap in place.caps.known}
    for path, stage in plan.by_path.items():
        if isinstance(stage, StageNode):
            found |= {cap_key(f"{ITERATION}{unit}", path): most for unit, most in stage.per_attempt.known}
    return found.get(key, 0)


def warn(plan: Plan, state: RunState) -> f.SpendingWarned | None:
    """The notice that the run has spent a certain amount, once."""
    limit, spent = plan.pipeline.warn_usd, state.spending.counted("cost_usd")
    if limit is None or state.warned or spent < limit:
        return None
    return f.SpendingWarned(spent, limit)
