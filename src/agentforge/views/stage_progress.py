"""How far each stage of a run is: the rows that `status` and the live display show."""

from typing import Literal

from msgspec import Struct

from agentforge.model.plan import ParallelNode, Plan, StageNode
from agentforge.model.state import BlockState, BranchState, RunState
from agentforge.model.status import NodeStatus, RunStatus

Mark = Literal["done", "current", "failed", "stopped", "waiting"]


class BranchProgress(Struct, frozen=True):
    """One provider's line of a parallel block."""

    provider: str
    mark: Mark
    stage: str
    """The one that is on, or was the last."""
    completed: int
    total: int
    error: str = ""


class StageProgress(Struct, frozen=True):
    id: str
    mark: Mark
    completed: int
    """Iterations that are done."""
    total: int
    """As many as it may do; it can end earlier."""
    reason: str = ""
    """Why it ended."""
    branches: tuple[BranchProgress, ...] = ()


def stage_progress(plan: Plan, state: RunState) -> tuple[StageProgress, ...]:
    done = {record.index: record for record in state.stages}
    rows = []
    for index, step in enumerate(plan.steps):
        name, total = step.node.id, sum(stage.termination.max for stage in step.stages)
        if state.node is not None and state.node.index == index:
            rows.append(StageProgress(name, _current_mark(state.status), state.node.completed, total))
        elif state.block and state.block.index == index and isinstance(step.node, ParallelNode):
            rows.append(_block_progress(state, state.block, step.node, total))
        elif record := done.get(index):
            rows.append(StageProgress(name, "done", record.iterations, total, record.reason))
        else:
            rows.append(StageProgress(name, "waiting", 0, total))
    return tuple(rows)


def _block_progress(state: RunState, block: BlockState, node: ParallelNode, total: int) -> StageProgress:
    rows = tuple(
        _branch_progress(
            state, block.branch(planned.provider) or BranchState(planned.provider), planned.stages
        )
        for planned in node.branches
    )
    completed = sum(row.completed for row in rows)
    return StageProgress(node.id, _current_mark(state.status), completed, total, branches=rows)


def _branch_progress(state: RunState, branch: BranchState, stages: tuple[StageNode, ...]) -> BranchProgress:
    marks: dict[NodeStatus, Mark] = {
        NodeStatus.PENDING: "waiting",
        NodeStatus.RUNNING: _current_mark(state.status),
        NodeStatus.COMPLETED: "done",
        NodeStatus.FAILED: "failed",
    }
    current = stages[min(branch.next_stage, len(stages) - 1)]
    return BranchProgress(
        provider=branch.provider,
        mark=marks[branch.status],
        stage=current.id,
        completed=branch.completed,
        total=sum(stage.termination.max for stage in stages),
        error=branch.failure.message if branch.failure else "",
    )


def current_index(plan: Plan, state: RunState) -> int | None:
    """The step that is on, or comes next; after the last one, the last."""
    at = state.node or state.block
    index = state.next_node if at is None else at.index
    return min(max(0, index), len(plan.steps) - 1) if plan.steps else None


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
