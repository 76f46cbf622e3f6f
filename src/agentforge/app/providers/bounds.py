"""What the providers of a plan keep to by themselves, and which of its attempts nothing bounds."""

from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from agentforge.model.errors import AgentForgeError, InvalidSettings, ProviderUnusable
from agentforge.model.plan import Judgment, Plan, ProviderChoice, StageNode
from agentforge.model.spending import CALLED, UNITS, Unit
from agentforge.ports.provider import KnowsPrices, Provider


def with_bounds(plan: Plan, known: Callable[[str], Provider | None]) -> Plan:
    """The plan with what each of its providers keeps to. `known`: the provider of a name, or None."""
    return _with(plan, lambda choice: _bounds(choice, known(choice.type)))


def _bounds(choice: ProviderChoice, provider: Provider | None) -> tuple[Unit, ...]:
    found = provider.capabilities().bounds if provider else ()
    if "cost_usd" in found and _missing_price(choice, provider) is not None:
        return tuple(unit for unit in found if unit != "cost_usd")
    return found


def _missing_price(choice: ProviderChoice, provider: Provider | None) -> str | None:
    """What to add so that the provider knows the price of its model; None: nothing is missing."""
    if not isinstance(provider, KnowsPrices):
        return None
    try:
        return provider.missing_price(choice.model, choice.config)
    except (ProviderUnusable, ImportError):
        return None  # What is wrong with it is a problem of its own.


def spends_nothing(plan: Plan) -> Plan:
    """The plan of a run whose agents are replaced by ones that spend nothing."""
    return _with(plan, lambda _: UNITS)


def _with(plan: Plan, bounds_of: Callable[[ProviderChoice], tuple[Unit, ...]]) -> Plan:
    def bounded(choice: ProviderChoice) -> ProviderChoice:
        return replace(choice, bounds=bounds_of(choice))

    def stage(node: StageNode) -> StageNode:
        judge = bounded(node.judge) if node.judge else None
        fallbacks = tuple(map(bounded, node.fallbacks))
        return replace(node, provider=bounded(node.provider), fallbacks=fallbacks, judge=judge)

    return replace(plan.with_stages(stage), judge=bounded(plan.judge))


def unbounded(
    plan: Plan, broken: Mapping[str, AgentForgeError], known: Callable[[str], Provider | None]
) -> Iterator[tuple[str, AgentForgeError]]:
    """Problems of providers that could spend any amount below a cap, with their names."""
    for (path, _), stage in plan.placed.items():
        units = plan.capped_units(path)
        judges = (plan.judge_of(stage),) if isinstance(stage.termination, Judgment) else ()
        for choice in (*stage.chain, *judges):
            for unit in sorted(units.difference(choice.bounds)):
                if stage.per_attempt.of(unit) is None and choice.type not in broken:
                    price = _missing_price(choice, known(choice.type)) if unit == "cost_usd" else None
                    yield choice.type, _problem(stage, choice, unit, price)


def _problem(stage: StageNode, choice: ProviderChoice, unit: Unit, price: str | None) -> InvalidSettings:
    model = f" / {choice.model}" if choice.model else ""
    why = "" if price is None else ": it knows no price of that model"
    hint = f"add `max_iteration_{unit}` to the stage, or for all stages to the top of the pipeline"
    return InvalidSettings(
        f"stage {stage.id!r} is below a cap on {CALLED[unit]}, and nothing bounds what an attempt with"
        f" {choice.type}{model} may spend{why}",
        hint=f"add {price} (US dollars for a million tokens); or {hint}" if price else hint,
    )
