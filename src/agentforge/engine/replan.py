"""Going on by another plan: where a run is in it, and what of its past belongs to which node.

Nodes are the same when they are of one kind and have one id within the same pipelines, wherever they
stand. A run whose current node is gone can't go on by the new plan, and is told so.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec.structs import replace

from agentforge.engine.evolve_attempt import with_attempt, with_iteration
from agentforge.engine.evolve_stage import IN_FLIGHT
from agentforge.model import facts as f
from agentforge.model.errors import IllegalMove
from agentforge.model.plan import ParallelNode, Plan, StageNode, Step
from agentforge.model.spots import spot_of
from agentforge.model.state import BlockState, BranchState, NodeState, RunState

_INDEX = re.compile(r"(^|/)(stage|parallel|pipeline)-\d+-")
_RUN = re.compile(r"/run-\d+")
_GO_ON = "put it back, resume without --recompile, or begin anew with --force"


def place_in(new: Plan, old: Plan, state: RunState) -> int:
    """The step of the new plan at which the run goes on; raises IllegalMove where there is none."""
    places = {key_of(step): index for index, step in enumerate(new.steps)}
    at = state.node or state.block
    if at is None:
        return _place_between(places, new, old, state)
    before = old.steps[at.index]
    index = places.get(key_of(before))
    if index is None:
        raise _gone(before, new)
    if state.block is not None:
        _refuse_other_branches(new.steps[index], before, state.block)
    _refuse_moved_at_work(new, old, index, state)
    return index


def replanned(state: RunState, fact: f.PlanChanged) -> RunState:
    """The state in the terms of the new plan."""
    steps = fact.plan.steps
    places = {(step.node.id, step.run): index for index, step in enumerate(steps)}
    stages = tuple(
        replace(record, index=places.get((record.name, record.run), -1)) for record in state.stages
    )
    moved = replace(state, next_node=fact.step, stages=stages, recompiled=True)
    if not 0 <= fact.step < len(steps):
        return moved
    if moved.node is not None:
        step = steps[fact.step]
        planned = step.node if isinstance(step.node, StageNode) else None
        node = replace(_by_new_plan(moved.node, planned), index=fact.step, path=step.path)
        return replace(moved, node=node)
    return replace(moved, block=_block_in(steps[fact.step], fact.step, moved.block)) if moved.block else moved


def moved_paths(old: Plan, new: Plan) -> dict[str, str | None]:
    """Where the new plan has the node that was at each path of the old one; nothing where it is gone."""
    now = dict(_places(new))
    return {path: now.get(key) for key, path in _places(old)}


def _place_between(places: dict[str, int], new: Plan, old: Plan, state: RunState) -> int:
    """Between two nodes: behind the one that is done, else at the one that is next."""
    upcoming = state.next_node
    if upcoming == 0:
        return 0
    done = places.get(key_of(old.steps[upcoming - 1]))
    if done is not None:
        return done + 1
    if upcoming < len(old.steps) and (following := places.get(key_of(old.steps[upcoming]))) is not None:
        return following
    raise _gone(old.steps[min(upcoming, len(old.steps) - 1)], new)


def _gone(step: Step, new: Plan) -> IllegalMove:
    return IllegalMove(
        f"node {step.node.id!r}, where the run is, is no longer in {new.source.path}", hint=_GO_ON
    )


def _refuse_other_branches(now: Step, before: Step, block: BlockState) -> None:
    """A block under way keeps its providers, and each of them the stages that it has begun."""
    assert isinstance(now.node, ParallelNode)
    assert isinstance(before.node, ParallelNode)
    begun = {branch.provider: branch.next_stage + bool(branch.stage) for branch in block.branches}
    stages = {b.provider: [stage.id for stage in b.stages] for b in now.node.branches}
    known = {b.provider: [stage.id for stage in b.stages] for b in before.node.branches}
    if set(stages) != set(begun):
        message = f"the providers of block {now.node.id!r} changed while it is under way"
        raise IllegalMove(message, hint=_GO_ON)
    for provider, count in begun.items():
        if stages[provider][:count] != known[provider][:count]:
            raise IllegalMove(
                f"stages that {provider} has begun in block {now.node.id!r} are no longer there", hint=_GO_ON
            )


def _refuse_moved_at_work(new: Plan, old: Plan, index: int, state: RunState) -> None:
    """What is at work is found again by its folder and read by its provider."""
    for provider, at in state.under_way():
        if not _is_at_work(at):
            continue
        before = spot_of(state, provider, at)
        now = replace(before, step=index)
        choice = at.iteration.attempt.choice if at.iteration and at.iteration.attempt else 0
        agents = (before.node(old).chosen(choice).type, now.node(new).chosen(choice).type)
        same = agents[0] == agents[1] and old.judge == new.judge
        if before.folder(old) != now.folder(new) or not same:
            raise IllegalMove(
                f"the agent of node {before.node(old).id!r} may still be at work, and the new plan has "
                "another place or provider for it",
                hint="resume without --recompile, pause when its iteration is done, then recompile",
            )


def _is_at_work(at: NodeState) -> bool:
    attempt = at.iteration.attempt if at.iteration else None
    in_flight = attempt is not None and attempt.status in IN_FLIGHT
    return in_flight or (at.judge is not None and at.judge.running)


def _by_new_plan(at: NodeState, planned: StageNode | None) -> NodeState:
    """Who rests and whose session it was is known by the place in the chain, where another may be now. An
    agent that may be at work is still the same."""
    known = replace(at, unavailable=())
    attempt = at.iteration.attempt if at.iteration else None
    if attempt is not None and attempt.once:
        known = with_attempt(known, once=planned is not None and planned.semantics == "at_most_once")
    return known if _is_at_work(at) else with_iteration(known, agent=None)


def _block_in(step: Step, index: int, block: BlockState) -> BlockState:
    prefix = step.path.removesuffix(step.node.path)
    planned = {
        (branch.provider, number): stage
        for branch in (step.node.branches if isinstance(step.node, ParallelNode) else ())
        for number, stage in enumerate(branch.stages)
    }

    def moved(branch: BranchState) -> BranchState:
        at = branch.stage
        if at is None:
            return branch
        stage = planned.get((branch.provider, at.index))
        path = f"{prefix}{stage.path}" if stage else at.path
        return replace(branch, stage=replace(_by_new_plan(at, stage), path=path))

    return replace(block, index=index, path=step.path, branches=tuple(map(moved, block.branches)))


def key_of(step: Step) -> str:
    """The step's folder without the positions in it: kinds, ids and runs."""
    return _without_positions(step.dir)


@lru_cache(maxsize=256)
def _without_positions(folder: str) -> str:
    """Every attempt is asked where it stands."""
    return _INDEX.sub(r"\1\2-", folder)


def _places(plan: Plan) -> Iterator[tuple[str, str]]:
    for step in plan.steps:
        key = _RUN.sub("", key_of(step))
        yield key, step.path
        if isinstance(step.node, ParallelNode):
            prefix = step.path.removesuffix(step.node.path)
            yield from ((f"{key}/{stage.id}", f"{prefix}{stage.path}") for stage in step.stages)
