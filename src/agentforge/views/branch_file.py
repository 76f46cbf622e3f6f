"""state.json of a provider's branch in a parallel block: where that provider stands."""

from typing import Any

from agentforge.model.state import BranchState, RunState


def branch_file(state: RunState, branch: BranchState) -> dict[str, Any]:
    at = branch.stage
    shown: dict[str, Any] = {
        "provider": branch.provider,
        "session": state.session,
        "started_at": branch.started_at,
        "status": branch.status.value,
        "current_stage": branch.next_stage,
        "iteration": (at.iteration.number if at.iteration else at.completed) if at else 0,
        "iteration_completed": at.completed if at else 0,
        "stages": [
            {"name": record.name, "iterations": record.iterations, "termination_reason": record.reason}
            for record in branch.stages
        ],
    }
    if branch.failure is not None:
        shown["error"] = branch.failure.message
    return shown
