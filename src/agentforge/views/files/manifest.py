"""manifest.json: the outputs of all providers of a parallel block, for later stages."""

from datetime import datetime
from typing import Any

from agentforge.model.layout import RunLayout
from agentforge.model.plan import ParallelNode, Plan
from agentforge.model.state import position_of
from agentforge.views.history import History
from agentforge.views.inputs import ended_by


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
