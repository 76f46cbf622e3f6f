"""How far each stage of a run is: the rows that `status` and the live display show."""

from typing import Literal

from msgspec import Struct

from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.model.status import RunStatus

Mark = Literal["done", "current", "failed", "stopped", "waiting"]


class StageProgress(Struct, frozen=True):
    id: str
    mark: Mark
    completed: int
    """Iterations that are done."""
    total: int
    """As many as it may do; it can end earlier."""
    reason: str = ""
    """Why it ended."""


def stage_progress(plan: Plan, state: RunState) -> tuple[StageProgress, ...]:
    done = {record.index: record for record in state.stages}
    rows = []
    for index, node in enumerate(plan.nodes):
        total = node.termination.max
        if state.node is not None and state.node.index == index:
            rows.append(StageProgress(node.id, _current_mark(state.status), state.node.completed, total))
        elif record := done.get(index):
            rows.append(StageProgress(node.id, "done", record.iterations, total, record.reason))
        else:
            rows.append(StageProgress(node.id, "waiting", 0, total))
    return tuple(rows)


def current_index(plan: Plan, state: RunState) -> int | None:
    """The stage that is on, or comes next; after the last one, the last."""
    if state.node is not None:
        return state.node.index
    return min(state.next_node, len(plan.nodes) - 1) if plan.nodes else None


def _current_mark(status: RunStatus) -> Mark:
    match status:
        case RunStatus.FAILED:
            return "failed"
        case RunStatus.RUNNING | RunStatus.PENDING:
            return "current"
        case RunStatus.COMPLETED:
            return "done"
        case RunStatus.PAUSED | RunStatus.AWAITING_APPROVAL | RunStatus.ABORTED:
            return "stopped"
