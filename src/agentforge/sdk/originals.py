"""Runs that agent-pipelines' own engine began: the plan that its files tell of, for looking at them."""

import os
from typing import Any

import msgspec
from msgspec.structs import replace

from agentforge.adapters import lease
from agentforge.host import files
from agentforge.model.errors import StorageFailed
from agentforge.model.facts import NodeStarted
from agentforge.model.layout import RunLayout, lock_file
from agentforge.model.plan import Branch, Fixed, Node, ParallelNode, Plan, ProviderChoice, StageNode
from agentforge.model.state import RunState
from agentforge.ports.event_log import EventLog


def is_original(state: RunState) -> bool:
    """Whether the run was begun by agent-pipelines' own engine and not yet imported."""
    return not state.run_id


def is_at_work(project: str, session: str) -> bool:
    """Whether that engine drives the run now: it locks the lock file."""
    try:
        return lease.is_held(lock_file(project, session))
    except OSError:
        return False


def sketched(layout: RunLayout, log: EventLog, plan: Plan, state: RunState) -> Plan:
    """The plan as far as plan.json and the log tell of it. Every node that the run has entered is there."""
    entered = _entered(log)
    if plan.mode == "loop":
        nodes: tuple[Node, ...] = (_loop_stage(layout, plan, state, entered.get(0)),)
    else:
        nodes = _nodes(read_json(layout.plan))
        missing = range(len(nodes), max(entered, default=-1) + 1)
        nodes += tuple(_entered_stage(index, entered.get(index)) for index in missing)
    return replace(plan, nodes=nodes)


def read_json(path: str) -> dict[str, Any]:
    """An object from one of the original's files; empty if there is none."""
    try:
        value = msgspec.json.decode(files.read_bytes(path) or b"{}")
    except (msgspec.DecodeError, StorageFailed):
        return {}
    return value if isinstance(value, dict) else {}


def loop_maximum(layout: RunLayout, stage: str, state: RunState) -> int | None:
    """How many iterations a loop was begun with: it is written down nowhere but in context.json."""
    at = state.node.completed if state.node else (state.stages[-1].iterations if state.stages else 0)
    for number in (at + 1, at):
        context = read_json(layout.iteration(f"stage-00-{stage}", number).context)
        limits = context.get("limits")
        most = limits.get("max_iterations") if isinstance(limits, dict) else None
        if isinstance(most, int) and most > 0:
            return most
    return None


def provider_names(node: dict[str, Any]) -> list[str]:
    written = node.get("providers") or []
    names = [item.get("name") if isinstance(item, dict) else item for item in written]
    return [name for name in names if isinstance(name, str)]


def _entered(log: EventLog) -> dict[int, NodeStarted]:
    found = {}
    for event in log.reader().events():
        if isinstance(event.fact, NodeStarted) and event.fact.path.isdigit():
            found[int(event.fact.path)] = event.fact
    return found


def _loop_stage(layout: RunLayout, plan: Plan, state: RunState, entered: NodeStarted | None) -> StageNode:
    stage = plan.pipeline.name or (entered.type if entered else "")
    most = loop_maximum(layout, stage, state) or (state.node.completed if state.node else 0)
    return StageNode(
        path="0",
        id=stage,
        stage=stage,
        runs=most,
        termination=Fixed(most),
        inputs={},
        provider=_choice(entered),
    )


def _entered_stage(index: int, entered: NodeStarted | None) -> Node:
    name = entered.name if entered else f"node-{index}"
    if entered is not None and entered.kind == "parallel":
        stages = tuple({"id": stage} for stage in entered.stages)
        return _block({"path": str(index), "id": name, "providers": entered.providers, "stages": stages})
    runs = entered.runs if entered else 0
    stage = entered.type if entered else ""
    return StageNode(str(index), name, stage, runs, Fixed(runs), {}, _choice(entered))


def _choice(entered: NodeStarted | None) -> ProviderChoice:
    return ProviderChoice(entered.provider, entered.model) if entered else ProviderChoice("", "")


def _nodes(plan: dict[str, Any]) -> tuple[Node, ...]:
    written = plan.get("nodes")
    found: list[Node] = []
    for node in written if isinstance(written, list) else ():
        if not isinstance(node, dict):
            break
        found.append(_block(node) if node.get("kind") == "parallel" else stage_of(node))
    return tuple(found)


def stage_of(node: dict[str, Any], provider: str = "") -> StageNode:
    """A stage as plan.json has it; what can't be read is left out."""
    choice = node.get("provider")
    asked = choice if isinstance(choice, dict) else {}
    most = termination.get("max") if isinstance(termination := node.get("termination"), dict) else None
    runs = most if isinstance(most, int) else 0
    return StageNode(
        path=str(node.get("path", "")),
        id=str(node.get("id", "")),
        stage=str(node.get("ref") or node.get("id", "")),
        runs=runs,
        termination=Fixed(runs),
        inputs={},
        provider=ProviderChoice(
            provider or str(asked.get("type", "")), str(asked.get("model") or node.get("model") or "")
        ),
    )


def _block(node: dict[str, Any]) -> ParallelNode:
    stages = [stage for stage in node.get("stages") or () if isinstance(stage, dict)]
    branches = tuple(
        Branch(name, tuple(stage_of(stage, name) for stage in stages)) for name in provider_names(node)
    )
    return ParallelNode(
        path=str(node.get("path", "")),
        id=str(node.get("id", "")),
        providers=(),
        stages=(),
        inputs={},
        branches=branches,
    )


def kept_definition(layout: RunLayout) -> str:
    """Where that engine keeps a copy of the pipeline."""
    return os.path.join(layout.root, "pipeline.yaml")
