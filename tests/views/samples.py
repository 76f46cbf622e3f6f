"""A plan of two stages, and events of a run of it."""

from datetime import UTC, datetime, timedelta

from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.facts import AnyFact
from agentforge.model.plan import (
    Fixed,
    Overrides,
    PipelineInfo,
    Plan,
    PlanSession,
    PlanSource,
    ProviderChoice,
    StageNode,
)

NOON = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


def plan(*, mode: str = "pipeline") -> Plan:
    def node(path: str, id: str, most: int) -> StageNode:
        return StageNode(path, id, id, most, Fixed(most), {}, ProviderChoice("command", "opus"))

    nodes = (node("0", "plan", 2), node("1", "build", 3))
    return Plan(
        mode=mode,  # type: ignore[arg-type]
        compiled_at=NOON,
        source=PlanSource("p.yaml", "0" * 64),
        session=PlanSession("auth", NOON),
        pipeline=PipelineInfo("ship", Overrides(), {}),
        dependencies={},
        nodes=nodes if mode == "pipeline" else nodes[:1],
    )


def event(fact: AnyFact, cursor: Cursor | None = None, *, seq: int = 1, after: float = 0.0) -> Event:
    return Event(seq, NOON + timedelta(seconds=after), "auth", "run-1", fact, cursor)


def history(*facts: tuple[AnyFact, Cursor | None]) -> list[Event]:
    """One second apart."""
    return [event(fact, at, seq=n + 1, after=float(n)) for n, (fact, at) in enumerate(facts)]
