"""The files of a parallel block: manifest.json with the outputs of all its providers, for later stages, and
state.json of each branch, the status of its provider."""

from datetime import datetime
from typing import Any

from agentforge.model.layout import RunLayout
from agentforge.model.plan import ParallelNode, Plan
from agentforge.model.state import BranchState, RunState, position_of
from agentforge.views.files.context import ended_by
from agentforge.views.history import History


def manifest(
    plan: Plan, path: str, layout: RunLayout, history: History, completed_at: datetime
) -> dict[str, Any]:
    step = plan.places[path]
    block = step.node
    assert isinstance(block, ParallelNode)
    providers: dict[str, Any] = {}
    for branch in sorted(block.branches, key=lambda b: b.provider):
        stages: dict[str, Any] = {}
        for node in branch.stages:
            outputs = history.stage(step.inner_path(node), branch.provider).located(layout)
            stages[node.id] = {
                "latest_output": outputs.latest,
                "status": outputs.status_file,
                "result": outputs.result_file,
                "iterations": outputs.iterations,
                "termination_reason": ended_by(node, outputs.reason),
                "history": outputs.paths,
            }
        providers[branch.provider] = stages
    return {
        "block": {
            "name": block.id,
            "index": position_of(path),
            "stages": [stage.id for stage in block.branches[0].stages],
        },
        "providers": providers,
        "completed_at": completed_at,
    }


def branch_file(plan: Plan, state: RunState, branch: BranchState) -> dict[str, Any]:
    at, step = branch.stage, plan.places.get(state.block.path) if state.block else None
    # Empty if the state doesn't match the plan.
    stages = step.branch(branch.provider) if step else ()
    by_id = {stage.id: stage for stage in stages}
    done = [
        {
            "name": record.name,
            "iterations": record.iterations,
            "termination_reason": ended_by(by_id[record.name], record.reason)
            if record.name in by_id
            else record.reason,
        }
        for record in branch.stages
    ]
    shown: dict[str, Any] = {
        "provider": branch.provider,
        "session": state.session,
        "started_at": branch.started_at,
        "status": branch.status.value,
        "current_stage": branch.next_stage,
        "iteration": (at.iteration.number if at.iteration else at.completed) if at else 0,
        "iteration_completed": at.completed if at else 0,
        "stages": done,
    }
    if stages:
        shown["current_stage_name"] = stages[min(branch.next_stage, len(stages) - 1)].id
    if branch.failure is not None:
        shown["error"] = branch.failure.message
    return shown
