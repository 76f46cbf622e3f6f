"""Read-only access to runs of the shell engine: a plan reconstructed from their files."""

from typing import Any

import msgspec
from msgspec.structs import replace

from agentforge.adapters.log import lease
from agentforge.model.errors import NOT_JSON, StorageFailed
from agentforge.model.facts import NodeStarted
from agentforge.model.layout import RunLayout, lock_file
from agentforge.model.plan import Branch, Fixed, Node, ParallelNode, Plan, ProviderChoice, StageNode
from agentforge.model.state import RunState
from agentforge.ports.event_log import EventLog
from agentforge.system import files

# The log of the shell engine has no plan, so one is put together from what it left: plan.json, if it wrote
# one, and the nodes that the log says were entered. It serves to show such a run, never to continue it: that
# takes the compiled definition (`import_run`).
#
# The files are read with suspicion. Any of them may be missing, half written, or of an older version, and a
# wrong value must not hide the rest of a run, so what isn't usable is replaced by an empty value.


def is_shell_run(state: RunState) -> bool:
    """Whether the run was started by the shell engine and isn't imported yet."""
    return not state.run_id


def is_driven_by_shell_engine(project: str, session: str) -> bool:
    """Whether the shell engine drives the run now: it locks the lock file."""
    try:
        return lease.is_held(lock_file(project, session))
    except OSError:
        return False


def reconstructed_plan(layout: RunLayout, log: EventLog, plan: Plan, state: RunState) -> Plan:
    """The plan, reconstructed from plan.json and the log. Contains every node that the run has entered."""
    facts = (event.fact for event in log.reader().events())
    entered = {
        int(fact.path): fact for fact in facts if isinstance(fact, NodeStarted) and fact.path.isdigit()
    }
    if plan.mode == "loop":
        first = entered.get(0)
        stage = plan.pipeline.name or (first.type if first else "")
        maximum = loop_maximum(layout, stage, state) or (state.node.completed if state.node else 0)
        nodes: tuple[Node, ...] = (_stage("0", stage, stage, maximum, _choice(first)),)
    else:
        nodes = _nodes(read_json(layout.plan))
        missing = range(len(nodes), max(entered, default=-1) + 1)
        nodes += tuple(_entered_node(index, entered.get(index)) for index in missing)
    return replace(plan, nodes=nodes)


def read_json(path: str) -> dict[str, Any]:
    """The object in a file of the shell engine; empty if it is missing or invalid."""
    try:
        value = msgspec.json.decode(files.read_bytes(path) or b"{}")
    except (StorageFailed, *NOT_JSON):
        return {}
    return value if isinstance(value, dict) else {}


def loop_maximum(layout: RunLayout, stage: str, state: RunState) -> int | None:
    """The maximum iterations that a loop was started with, from context.json, or None."""
    at = state.node.completed if state.node else (state.stages[-1].iterations if state.stages else 0)
    for number in (at + 1, at):
        context = read_json(layout.iteration(f"stage-00-{stage}", number).context)
        limits = context.get("limits")
        maximum = limits.get("max_iterations") if isinstance(limits, dict) else None
        if isinstance(maximum, int) and maximum > 0:
            return maximum
    return None


def _entered_node(index: int, entered: NodeStarted | None) -> Node:
    if entered is None:
        return _stage(str(index), f"node-{index}", "", 0, _choice(None))
    if entered.kind == "parallel":
        stages = [{"id": stage} for stage in entered.stages]
        return _block(
            {"path": str(index), "id": entered.name, "providers": entered.providers, "stages": stages}
        )
    return _stage(str(index), entered.name, entered.type, entered.runs, _choice(entered))


def _stage(path: str, id: str, stage: str, runs: int, provider: ProviderChoice) -> StageNode:
    return StageNode(path, id, stage, runs, Fixed(runs), {}, provider)


def _choice(entered: NodeStarted | None) -> ProviderChoice:
    return ProviderChoice(entered.provider, entered.model) if entered else ProviderChoice("", "")


def _nodes(plan: dict[str, Any]) -> tuple[Node, ...]:
    """The nodes in plan.json, up to the first invalid one."""
    written = plan.get("nodes")
    found: list[Node] = []
    for node in written if isinstance(written, list) else ():
        if not isinstance(node, dict):
            break
        found.append(_block(node) if node.get("kind") == "parallel" else _written_stage(node))
    return tuple(found)


def _written_stage(node: dict[str, Any], provider: str = "") -> StageNode:
    """The stage in plan.json, without invalid values."""
    choice, termination = node.get("provider"), node.get("termination")
    named = choice if isinstance(choice, dict) else {}
    maximum = termination.get("max") if isinstance(termination, dict) else None
    id, model = str(node.get("id", "")), str(named.get("model") or node.get("model") or "")
    return _stage(
        str(node.get("path", "")),
        id,
        str(node.get("ref") or id),
        maximum if isinstance(maximum, int) else 0,
        ProviderChoice(provider or str(named.get("type", "")), model),
    )


def _block(node: dict[str, Any]) -> ParallelNode:
    stages = [stage for stage in node.get("stages") or () if isinstance(stage, dict)]
    named = [item.get("name") if isinstance(item, dict) else item for item in node.get("providers") or ()]
    branches = tuple(
        Branch(name, tuple(_written_stage(stage, name) for stage in stages))
        for name in named
        if isinstance(name, str)
    )
    return ParallelNode(str(node.get("path", "")), str(node.get("id", "")), (), (), {}, branches=branches)
