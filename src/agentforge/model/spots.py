"""Where a stage under way is: its spot, from the state alone."""

from agentforge.model.state import NodeState, RunState
from agentforge.model.work import Spot


def spot_of(state: RunState, provider: str | None, at: NodeState) -> Spot:
    """Of a stage that `RunState.under_way` names."""
    if provider is None or state.block is None:
        return Spot(at.index, at.path, at.run)
    return Spot(state.block.index, at.path, state.block.run, provider, at.index)
