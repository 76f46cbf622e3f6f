"""state.json of a provider's branch in a parallel block: the status of that provider."""

from typing import Any

from agentforge.model.plan import Plan, StageNode
from agentforge.model.state import BranchState, RunState, StageRecord
from agentforge.views.inputs import ended_by


def branch_file(plan: Plan, state: RunState, branch: BranchState) -> dict[str, Any]:
    at, stages = branch.stage, _stages(plan, state, branch)
    shown: dict[str, Any] = {
        "provider": branch.provider,
        "session": state.session,
        "started_at": branch.started_at,
        "status": branch.status.value,
        "current_stage": branch.next_stage,
        "iteration": (at.iteration.number if at.iteration else at.completed) if at else 0,
        "iteration_completed": at.completed if at else 0,
        "stages": [_done(record, stages) for record in branch.stages],
    }
    if stages:
        shown["current_stage_name"] = stages[min(branch.next_stage, len(stages) - 1)].id
    if branch.failure is not None:
        shown["error"] = branch.failure.message
    return shown


def _stages(plan: Plan, state: RunState, branch: BranchState) -> tuple[StageNode, ...]:
    """The branch's stages in the plan; empty if the state doesn't match the plan."""
    step = plan.places.get(state.block.path) if state.block else None
    return step.branch(branch.provider) if step else ()


def _done(record: StageRecord, stages: tuple[StageNode, ...]) -> dict[str, Any]:
    node = next((stage for stage in stages if stage.id == record.name), None)
    reason = ended_by(node, record.reason) if node else record.reason
    return {"name": record.name, "iterations": record.iterations, "termination_reason": reason}
