"""Where in a run something happens: one visit to a stage or block, and its folder."""

from msgspec import Struct

from agentforge.model.cursor import Cursor
from agentforge.model.plan import Plan, Step, visit_dir
from agentforge.model.state import BlockState, RunState, StageState


class Place(Struct, frozen=True):
    path: str
    run: int
    folder: str
    """Relative to the run directory."""
    branch: str | None = None
    """The provider whose branch it is, inside a parallel block."""
    scope: str = ""
    """The branch's directory, relative to the run directory; empty outside a block."""

    def cursor(self, iteration: int) -> Cursor:
        return Cursor(self.path, self.run, iteration, self.branch)


def place_of(plan: Plan, state: RunState, provider: str | None, at: StageState) -> Place | None:
    """Place of a stage from `RunState.under_way`, or None if a damaged log names a stage not in the plan."""
    node = plan.stage(at.path, provider)
    if node is None:
        return None
    if provider is None:
        return Place(at.path, at.run, folder_of(plan, at))
    if state.block is None or state.block.path not in plan.places:
        return None
    return branch_place(plan, state.block, provider, at)


def branch_place(plan: Plan, block: BlockState, provider: str, at: StageState) -> Place:
    """Place of a stage in a provider's branch."""
    scope = branch_folder(plan, block, provider)
    node = plan.stage(at.path, provider)
    folder = at.folder or f"{scope}/stage-{at.position:02d}-{node.id if node else ''}"
    return Place(at.path, at.run, folder, provider, scope)


def branch_folder(plan: Plan, block: BlockState, provider: str) -> str:
    return f"{folder_of(plan, block)}/providers/{provider}"


def visits_key(path: str, provider: str | None) -> str:
    """The key of a stage in `RunState.visits`."""
    return path if provider is None else f"{path}@{provider}"


def folder_of(plan: Plan, at: StageState | BlockState) -> str:
    """The folder recorded when the visit started, or the default folder if the log is damaged."""
    return at.folder or visit_dir(plan.places[at.path].dir, at.run)


def inner_place(step: Step, run: int, provider: str, position: int) -> Place:
    """Place of a stage in a branch of a block, by position."""
    scope = f"{visit_dir(step.dir, run)}/providers/{provider}"
    node = step.branch(provider)[position]
    return Place(step.inner_path(node), run, f"{scope}/stage-{position:02d}-{node.id}", provider, scope)
