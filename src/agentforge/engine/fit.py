"""The state as far as it fits the plan. What a whole log says always does; what damage left without its
place is looked up by its path, or else left out."""

from msgspec.structs import replace

from agentforge.model.plan import Branch, ParallelNode, Plan
from agentforge.model.state import BlockState, BranchState, NodeState, RunState


def fit(plan: Plan, state: RunState) -> RunState:
    if state.node is not None:
        index = _step_of(plan, state.node)
        if index is None or isinstance(plan.steps[index].node, ParallelNode):
            return replace(state, node=None)
        return state if index == state.node.index else replace(state, node=replace(state.node, index=index))
    if state.block is not None:
        return replace(state, block=_block(plan, state.block))
    return state


def _step_of(plan: Plan, at: NodeState | BlockState) -> int | None:
    """The step where the node is: the one that it names, unless its path says otherwise."""
    steps = plan.steps
    known = 0 <= at.index < len(steps)
    if known and (not at.path or (steps[at.index].path, steps[at.index].run) == (at.path, at.run)):
        return at.index
    found = (index for index, step in enumerate(steps) if (step.path, step.run) == (at.path, at.run))
    return next(found, None)


def _block(plan: Plan, block: BlockState) -> BlockState | None:
    index = _step_of(plan, block)
    node = None if index is None else plan.steps[index].node
    if index is None or not isinstance(node, ParallelNode):
        return None
    branches = tuple(_branch(planned, block.branch(planned.provider)) for planned in node.branches)
    return replace(block, index=index, branches=branches)


def _branch(planned: Branch, branch: BranchState | None) -> BranchState:
    if branch is None:
        return BranchState(planned.provider)
    if branch.stage is not None and branch.stage.index >= len(planned.stages):
        return replace(branch, stage=None)
    return branch
