"""What agent-pipelines' own engine left in a run's folders: looked through once, when the run is taken up."""

import os
from collections.abc import Iterator

from agentforge.host import files
from agentforge.model.adopted import BlockPosition, BranchPosition, DoneStage, Position, StageLeft
from agentforge.model.layout import IterationLayout, RunLayout
from agentforge.model.plan import ParallelNode, Plan
from agentforge.model.work import Spot
from agentforge.runtime.concluding import LEFT_BEHIND
from agentforge.views.history import KEPT


def left_behind(
    layout: RunLayout,
    plan: Plan,
    done: tuple[DoneStage, ...],
    node: Position | None,
    block: BlockPosition | None,
) -> tuple[StageLeft, ...]:
    """The outputs of all iterations that are complete, for the stages that come."""
    found: list[StageLeft] = []
    for record in done:
        for spot, iterations in _spots_of(layout, plan, record):
            found.append(_left(layout, plan, spot, iterations, record.reason))
    if node is not None:
        found.append(
            _left(layout, plan, Spot(node.index, plan.steps[node.index].path, 1), node.completed, "")
        )
    for branch in block.branches if block else ():
        assert block is not None
        found += _of_branch(layout, plan, block.index, branch)
    return tuple(found)


def set_rest_aside(layout: RunLayout, plan: Plan, left: tuple[StageLeft, ...]) -> None:
    """What lies in iterations that aren't complete must not count for them when they run: of the one that
    was under way, and of later ones, which an earlier pass of that engine may have left."""
    complete = {(stage.path, stage.provider): stage.iterations for stage in left}
    for spot in _all_spots(plan):
        folder = spot.folder(plan)
        for name in files.listing(f"{layout.stage_dir(folder)}/iterations"):
            if name.isascii() and name.isdigit() and int(name) > complete.get((spot.path, spot.provider), 0):
                _set_aside(layout.iteration(folder, int(name)))


def _set_aside(here: IterationLayout) -> None:
    for name in LEFT_BEHIND.intersection(files.listing(here.root)):
        aside = here.attempt(0).root
        files.make_dir(aside)
        with files.storage(aside):
            os.replace(os.path.join(here.root, name), os.path.join(aside, name))


def _all_spots(plan: Plan) -> Iterator[Spot]:
    for index, step in enumerate(plan.steps):
        if isinstance(step.node, ParallelNode):
            for branch in step.node.branches:
                for number in range(len(branch.stages)):
                    yield _branch_spot(plan, index, branch.provider, number)
        else:
            yield Spot(index, step.path, step.run)


def _branch_spot(plan: Plan, step: int, provider: str, stage: int) -> Spot:
    return Spot(step, f"{plan.steps[step].path}.{stage}", 1, provider, stage)


def _spots_of(layout: RunLayout, plan: Plan, record: DoneStage) -> Iterator[tuple[Spot, int]]:
    """The stages of a step that is done, each with its iterations."""
    step = plan.steps[record.index]
    if isinstance(step.node, ParallelNode):
        for branch in step.node.branches:
            for number in range(len(branch.stages)):
                spot = _branch_spot(plan, record.index, branch.provider, number)
                yield spot, len(files.listing(f"{layout.stage_dir(spot.folder(plan))}/iterations"))
    else:
        yield Spot(record.index, step.path, 1), record.iterations


def _of_branch(layout: RunLayout, plan: Plan, step: int, branch: BranchPosition) -> Iterator[StageLeft]:
    for record in branch.stages:
        spot = _branch_spot(plan, step, branch.provider, record.index)
        yield _left(layout, plan, spot, record.iterations, record.reason)
    if branch.stage is not None:
        spot = _branch_spot(plan, step, branch.provider, branch.stage.index)
        yield _left(layout, plan, spot, branch.stage.completed, "")


def _left(layout: RunLayout, plan: Plan, spot: Spot, iterations: int, reason: str) -> StageLeft:
    folder = spot.folder(plan)
    outputs = [layout.iteration(folder, number).output for number in range(1, iterations + 1)]
    written = [path for path in outputs if os.path.exists(path)]
    return StageLeft(
        path=spot.path,
        iterations=iterations,
        outputs=tuple(written[-KEPT:]),
        omitted=max(0, len(written) - KEPT),
        result_file=layout.iteration(folder, iterations).result if iterations else "",
        reason=reason,
        provider=spot.provider,
    )
