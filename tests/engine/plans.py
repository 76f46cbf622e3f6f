"""Plans and events without files, for tests of the pure layers."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.hook import Hook
from agentforge.model.plan import (
    Branch,
    Fixed,
    Guardrails,
    Mode,
    NestedNode,
    Node,
    Overrides,
    ParallelNode,
    PipelineInfo,
    Plan,
    PlanSession,
    PlanSource,
    ProviderChoice,
    StageNode,
)
from agentforge.model.state import RunSettings

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
SESSION = "auth"
RUN_ID = "0af7651916cd43dd"


def stage(name: str = "plan", runs: int = 1, **changes: Any) -> StageNode:
    """A stage without a delay; its path is set by `plan_of`."""
    given: dict[str, Any] = {
        "termination": Fixed(runs),
        "delay": 0.0,
        "prompt": "do it",
        "provider": ProviderChoice("claude", "opus"),
    }
    return StageNode(path="0", id=name, runs=runs, inputs={}, **{"stage": name, **given, **changes})


def block(providers: str, *stages: StageNode, id: str = "duel") -> ParallelNode:
    """Every provider does the same stages, each with itself as the agent."""
    branches = tuple(
        Branch(name, tuple(replace(stage, provider=ProviderChoice(name, "opus")) for stage in stages))
        for name in providers.split()
    )
    return ParallelNode("0", id, tuple(providers.split()), (), {}, branches)


def nested(id: str, *nodes: Node, runs: int = 1) -> NestedNode:
    return NestedNode("0", id, runs, {}, plan_of(*nodes), f"{id}.yaml")


def plan_of(
    *nodes: Node,
    mode: Mode = "pipeline",
    max_runtime: float | None = None,
    passes: int = 1,
    hooks: tuple[Hook, ...] = (),
) -> Plan:
    placed = tuple(_at(node, str(index)) for index, node in enumerate(nodes))
    rails = Guardrails(max_runtime) if max_runtime is not None else None
    return Plan(
        mode=mode,
        compiled_at=NOON,
        source=PlanSource("refine.yaml", "0" * 64),
        session=PlanSession(SESSION, NOON),
        pipeline=PipelineInfo("refine", Overrides(), {}, guardrails=rails, hooks=hooks),
        dependencies={},
        nodes=placed,
        passes=passes,
    )


def started(plan: Plan, settings: RunSettings | None = None) -> f.SessionStarted:
    return f.SessionStarted(
        plan.mode, RUN_ID, plan, "0.1.0", settings=settings or RunSettings(), format=f.LOG_FORMAT
    )


def event(seq: int, fact: f.AnyFact, cursor: Cursor | None = None, after: float = 0.0) -> Event:
    return Event(seq, NOON + timedelta(seconds=after), SESSION, RUN_ID, fact, cursor)


def _at(node: Node, path: str) -> Node:
    if not isinstance(node, ParallelNode):
        return replace(node, path=path)
    branches = tuple(
        Branch(b.provider, tuple(replace(s, path=f"{path}.{n}") for n, s in enumerate(b.stages)))
        for b in node.branches
    )
    return replace(node, path=path, branches=branches)
