"""Plans and events without files, for tests of the pure layers."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.event import Cursor, Event
from agentforge.model.plan import (
    Fixed,
    Guardrails,
    Mode,
    Overrides,
    PipelineInfo,
    Plan,
    PlanSession,
    PlanSource,
    ProviderChoice,
    StageNode,
)

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
SESSION = "auth"
RUN_ID = "0af7651916cd43dd"


def stage(name: str = "plan", runs: int = 1, **changes: Any) -> StageNode:
    """A stage without a delay; its path is set by `plan_of`."""
    given: dict[str, Any] = {"delay": 0.0, "prompt": "do it", "provider": ProviderChoice("claude", "opus")}
    return StageNode("0", name, name, runs, Fixed(runs), {}, **{**given, **changes})


def plan_of(*nodes: StageNode, mode: Mode = "pipeline", max_runtime: float | None = None) -> Plan:
    placed = tuple(_at(node, str(index)) for index, node in enumerate(nodes))
    rails = Guardrails(max_runtime) if max_runtime is not None else None
    return Plan(
        mode=mode,
        compiled_at=NOON,
        source=PlanSource("refine.yaml", "0" * 64),
        session=PlanSession(SESSION, NOON),
        pipeline=PipelineInfo("refine", Overrides(), {}, guardrails=rails),
        dependencies={},
        nodes=placed,
    )


def started(plan: Plan, settings: f.Settings | None = None) -> f.SessionStarted:
    return f.SessionStarted(plan.mode, RUN_ID, plan, "0.1.0", settings=settings or f.Settings())


def event(seq: int, fact: f.AnyFact, cursor: Cursor | None = None, after: float = 0.0) -> Event:
    return Event(seq, NOON + timedelta(seconds=after), SESSION, RUN_ID, fact, cursor)


def _at(node: StageNode, path: str) -> StageNode:
    return replace(node, path=path)
