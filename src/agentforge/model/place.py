"""Where in a run something happens: a stage or a block in one of its visits, and the folder of that visit."""

from msgspec import Struct

from agentforge.model.cursor import Cursor
from agentforge.model.plan import Plan, Step, visit_dir
from agentforge.model.state import BlockState, RunState, StageState


class Place(Struct, frozen=True):
    path: str
    run: int
    folder: str
    """Relative to the run's own directory."""
    branch: str | None = None
    """The provider of a parallel block whose branch it is."""
    scope: str = ""
    """The branch's directory, relative to the run's own; empty outside of a block."""

    def cursor(self, iteration: int) -> Cursor:
        return Cursor(self.path, self.run, iteration, self.branch)


def place_of(plan: Plan, state: RunState, provider: str | None, at: StageState) -> Place | None:
    """Of a stage that `RunState.under_way` names; None where the plan has no such stage, as after damage."""
    node = plan.stage(at.path, provider)
    if node is None:
        return None
    if provider is None:
        return Place(at.path, at.run, folder_of(plan, at))
    if state.block is None or state.block.path not in plan.places:
        return None
    return branch_place(plan, state.block, provider, at.path)


def branch_place(plan: Plan, block: BlockState, provider: str, path: str) -> Place:
    """Of a stage in a provider's branch."""
    scope = f"{folder_of(plan, block)}/providers/{provider}"
    node, position = plan.stage(path, provider), path.rpartition(".")[2]
    folder = f"{scope}/stage-{int(position):02d}-{node.id if node else ''}"
    return Place(path, block.run, folder, provider, scope)


def folder_of(plan: Plan, at: StageState | BlockState) -> str:
    """As it was recorded when the visit began; after damage, where a visit of that number lies."""
    return at.folder or visit_dir(plan.places[at.path].dir, at.run)


def inner_place(step: Step, run: int, provider: str, position: int) -> Place:
    """Of a stage in a branch of a block, by its position there."""
    scope = f"{visit_dir(step.dir, run)}/providers/{provider}"
    node = step.branch(provider)[position]
    return Place(step.inner_path(node), run, f"{scope}/stage-{position:02d}-{node.id}", provider, scope)
