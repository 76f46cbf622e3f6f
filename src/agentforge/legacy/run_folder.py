"""What agent-pipelines' own engine left in a run's folders: read once, when the run is imported."""

import os
from collections.abc import Iterator

from agentforge.model.facts import StageLeft
from agentforge.model.layout import RunLayout
from agentforge.model.place import Place, inner_place
from agentforge.model.plan import ParallelNode, Plan, Step
from agentforge.model.state import BlockState, BranchState, Position, StageRecord, StageState, position_of
from agentforge.runtime.conclusion import move_left_behind
from agentforge.system import files
from agentforge.views.history import KEPT


def left_behind(
    layout: RunLayout, plan: Plan, done: tuple[StageRecord, ...], at: Position
) -> tuple[StageLeft, ...]:
    """The outputs of all iterations that are complete, for the stages that come."""
    found = [left for record in done for left in _of_record(layout, plan, record)]
    match at:
        case StageState():
            found.append(_left(layout, _place(plan.places[at.path]), at.completed, ""))
        case BlockState():
            for branch in at.branches:
                found += _of_branch(layout, plan, branch)
    return tuple(found)


def set_rest_aside(layout: RunLayout, plan: Plan, left: tuple[StageLeft, ...]) -> None:
    """What lies in iterations that aren't complete must not count for them when they run: of the one that
    was under way, and of later ones, which an earlier pass of that engine may have left."""
    complete = {(stage.path, stage.provider): stage.iterations for stage in left}
    for place in (place for step in plan.steps for place in _places_in(step)):
        for name in _iterations(layout, place):
            done = complete.get((place.path, place.branch), 0)
            if name.isascii() and name.isdigit() and int(name) > done:
                move_left_behind(layout.iteration(place.folder, int(name)), 0)


def _places_in(step: Step) -> Iterator[Place]:
    if isinstance(step.node, ParallelNode):
        for branch in step.node.branches:
            for number in range(len(branch.stages)):
                yield inner_place(step, 1, branch.provider, number)
    else:
        yield _place(step)


def _place(step: Step) -> Place:
    return Place(step.path, 1, step.dir)


def _iterations(layout: RunLayout, place: Place) -> list[str]:
    return files.listing(f"{layout.stage_dir(place.folder)}/iterations")


def _of_record(layout: RunLayout, plan: Plan, record: StageRecord) -> Iterator[StageLeft]:
    """A record of a block doesn't say how many iterations each of its stages had: their folders do."""
    step = plan.places[record.path]
    for place in _places_in(step):
        count = record.iterations
        if isinstance(step.node, ParallelNode):
            count = len(_iterations(layout, place))
        yield _left(layout, place, count, record.reason)


def _of_branch(layout: RunLayout, plan: Plan, branch: BranchState) -> Iterator[StageLeft]:
    for record in branch.stages:
        place = _inner(plan, branch.provider, record.path)
        yield _left(layout, place, record.iterations, record.reason)
    if branch.stage is not None:
        yield _left(layout, _inner(plan, branch.provider, branch.stage.path), branch.stage.completed, "")


def _inner(plan: Plan, provider: str, path: str) -> Place:
    return inner_place(plan.places[path.rpartition(".")[0]], 1, provider, position_of(path))


def _left(layout: RunLayout, place: Place, iterations: int, reason: str) -> StageLeft:
    outputs = [layout.iteration(place.folder, number).output for number in range(1, iterations + 1)]
    written = [path for path in outputs if os.path.exists(path)]
    return StageLeft(
        path=place.path,
        iterations=iterations,
        outputs=tuple(written[-KEPT:]),
        omitted=max(0, len(written) - KEPT),
        result_file=layout.iteration(place.folder, iterations).result if iterations else "",
        reason=reason,
        provider=place.branch,
    )
