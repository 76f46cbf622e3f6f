"""Keeps each provider's own state.json in a parallel block near the log."""

from agentforge.model.layout import RunLayout
from agentforge.model.place import folder_of
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.system import files
from agentforge.views.files.branch import branch_file


def write_branch_files(layout: RunLayout, plan: Plan, state: RunState) -> None:
    """Of every branch that has begun; nothing outside of a block."""
    if state.block is None or state.block.path not in plan.places:
        return
    folder = folder_of(plan, state.block)
    for branch in state.block.branches:
        if branch.started_at is not None:
            path = layout.branch_state(f"{folder}/providers/{branch.provider}")
            files.make_dir(path.rpartition("/")[0])
            files.replace(path, files.pretty(branch_file(plan, state, branch)))
