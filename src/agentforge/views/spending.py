"""What a run has spent, of what it may spend: for people, and as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from agentforge.engine.decide.cap_sums import caps_of
from agentforge.model.plan import Judgment, Plan
from agentforge.model.spending import Amount, Spending, Unit, plus, shown
from agentforge.model.state import RunState
from agentforge.views.text import cost, counted, one_line

NO_CAP = "no cap"


class CapView(Struct, frozen=True):
    """A cap, as it stands."""

    of: str
    """`the run`, or a node: `stage 'build'`."""
    path: str
    """Of the node; empty: the run; `*`: all runs of a day, as it was when the run last asked."""
    unit: Unit
    limit: float
    """With what people granted."""
    spent: float
    """What counts: with what was assumed for attempts whose usage is unknown."""
    reserved: float

    @property
    def text(self) -> str:
        """`$0.90 of $1.00, $0.30 reserved`."""
        spent, limit = shown(self.unit, self.spent), shown(self.unit, self.limit)
        held = f", {shown(self.unit, self.reserved)} reserved" if self.reserved else ""
        return f"{spent.removesuffix(' tokens')} of {limit}{held}"


def cap_views(plan: Plan, state: RunState) -> tuple[CapView, ...]:
    """Those of the whole run first, that of the day last."""
    found = [
        CapView(cap.place.name, cap.place.path, cap.unit, cap.limit, cap.spent, cap.reserved)
        for cap in caps_of(plan, state)
    ]
    asked = [stage.ledger for _, stage in state.under_way() if stage.ledger]
    if reply := max(asked, key=lambda one: one.at, default=None):
        day = reply.answer
        name, held = f"{day.day}, all runs", plus(day.reserved_usd, day.granted_usd)
        found.append(CapView(name, "*", "cost_usd", day.cap_usd, day.spent_usd, held))
    return tuple(found)


def cap_of_run(caps: Sequence[CapView], unit: Unit) -> CapView | None:
    return next((cap for cap in caps if not cap.path and cap.unit == unit), None)


def cost_text(spent: Spending, cap: CapView | None = None) -> str:
    """`$0.90 of $1.00, $0.30 reserved`, or without a cap what was spent; empty if nothing was."""
    if cap is None:
        more = f"{shown('cost_usd', spent.assumed_usd)} assumed" if spent.assumed_usd else ""
        return " + ".join(filter(None, (cost(spent.cost_usd, spent.unpriced), more)))
    assumed = f"; {shown('cost_usd', spent.assumed_usd)} of it assumed" if spent.assumed_usd else ""
    models = ", ".join(one_line(model, 40) for model in spent.unpriced)
    unpriced = f" ({models} reported no cost, which counts as reserved)" if models else ""
    return f"{cap.text}{assumed}{unpriced}"


def overrun_text(spent: Spending) -> str:
    """How much more than they had reserved attempts used; empty if none did."""
    if not spent.overruns:
        return ""
    more = f", {shown('cost_usd', spent.overrun_usd)} in all" if spent.overrun_usd else ""
    return f"{counted(spent.overruns, 'attempt')} used more than reserved{more}"


def caps_line(plan: Plan) -> str:
    """`at most $5.00, 2,000,000 tokens`, or `no cap`."""
    run = next((place.caps for place in plan.caps if not place.path), Amount())
    limits = [shown(unit, value) for unit, value in run.known]
    day = plan.pipeline.daily_usd
    limits += [f"{shown('cost_usd', day)} a day by all runs"] if day is not None else []
    others = sum(bool(place.path) for place in plan.caps)
    nodes = [f"caps on {counted(others, 'node')}"] if others else []
    return ", ".join([f"at most {', '.join(limits)}"] * bool(limits) + nodes) or NO_CAP


def unenforced(plan: Plan) -> Iterator[str]:
    """The stages below a cap that hold because of a figure which their provider doesn't keep to."""
    for (path, _), stage in plan.placed.items():
        units = plan.capped_units(path)
        judges = (plan.judge_of(stage),) if isinstance(stage.termination, Judgment) else ()
        for choice in (*stage.chain, *judges):
            if units.difference(choice.bounds):
                yield f"{one_line(stage.id)} ({one_line(choice.type)})"


def usage_json(spent: Spending) -> dict[str, Any]:
    return {
        # Null if no agent reported its cost.
        "cost_usd": spent.cost_usd or None,
        "unpriced_models": spent.unpriced,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
    }


def spending_json(spent: Spending, caps: Sequence[CapView]) -> dict[str, Any]:
    return {
        **usage_json(spent),
        "assumed_usd": spent.assumed_usd,
        "assumed_tokens": spent.assumed_tokens,
        "overruns": spent.overruns,
        "overrun_usd": spent.overrun_usd,
        "caps": caps,
    }
