"""Going on by another plan: where a run is in it, and what of its past belongs to which node.

Nodes are the same when they are of one kind and have one id within the same pipelines, wherever they
stand. A run whose current node is gone can't go on by the new plan, and is told so.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec.structs import replace

from agentforge.engine.decide.routing import first_node, next_node
from agentforge.engine.evolve.attempt import with_attempt, with_iteration
from agentforge.model import facts as f
from agentforge.model.cursor import Destination
from agentforge.model.errors import IllegalMove
from agentforge.model.plan import ParallelNode, Plan, StageNode, Step
from agentforge.model.state import (
    Between,
    BlockState,
    BranchState,
    Position,
    Request,
    RunState,
    StageState,
    Start,
)

_INDEX = re.compile(r"(^|/)(stage|parallel|pipeline)-\d+-")
_GO_ON = "put it back, resume without --recompile, or begin anew with --force"


def plan_change(new: Plan, old: Plan, state: RunState) -> f.PlanChanged:
    """The fact that the run goes on by the new plan; raises IllegalMove where it has no place there."""
    paths, now = moved_paths(old, new), dict(_places(new))
    back: dict[str, str | None] = {name: now[name] for name in state.visits if name in now}
    gone = {step.path: key_of(step) for step in old.steps if paths[step.path] is None}
    return f.PlanChanged(new, _destination(new, old, state, paths), paths | back, gone)


def _destination(new: Plan, old: Plan, state: RunState, paths: dict[str, str | None]) -> Destination | None:
    match state.at:
        case Start():
            return first_node(new)
        case Between(next=following):
            return _between(new, old, state, following, paths)
        case at:
            before, now = old.places.get(at.path), new.places.get(paths.get(at.path) or "")
            if before is None or now is None:
                raise _gone(at.path, old, new)
            if isinstance(at, BlockState):
                _refuse_other_branches(now, before, at)
            _refuse_other_agents(new, old, state, paths)
            return Destination(now.path, state.rounds)


def replanned(state: RunState, fact: f.PlanChanged) -> RunState:
    """The state in the terms of the new plan."""
    paths = fact.paths
    known = ((record, paths.get(record.path, record.path)) for record in state.stages)
    visits = ((paths.get(p, p) or fact.gone.get(p), count) for p, count in state.visits.items())
    moved = replace(
        state,
        stages=tuple(replace(record, path=path) for record, path in known if path is not None),
        visits={path: count for path, count in visits if path is not None},
        requests=tuple(_asked_in(request, paths) for request in state.requests),
        recompiled=True,
    )
    return replace(moved, at=_position(moved.at, fact), rounds=fact.at.rounds if fact.at else moved.rounds)


def _asked_in(request: Request, paths: dict[str, str | None]) -> Request:
    """A question follows the node that it is about, so that it isn't asked again."""
    at = request.at
    path = paths.get(at.node_path) if at else None
    if at is None or path is None:
        return request
    reason, mark, place = request.key.partition("@")
    about = f"{path}{place.removeprefix(at.node_path)}" if place.startswith(at.node_path) else place
    return replace(request, at=replace(at, node_path=path), key=f"{reason}{mark}{about}")


def _position(at: Position, fact: f.PlanChanged) -> Position:
    match at:
        case Start() | Between():
            return Between(fact.at)
        case StageState():
            path = fact.at.path if fact.at else at.path
            return replace(_by_new_plan(at, fact.plan.stage(path)), path=path)
        case BlockState():  # exhaustive
            path = fact.at.path if fact.at else at.path
            return _block_in(fact.plan, path, at)


def moved_paths(old: Plan, new: Plan) -> dict[str, str | None]:
    """Where the new plan has the node that was at each path of the old one; None where it is gone."""
    now = dict(_places(new))
    return {path: now.get(key) for key, path in _places(old)}


def _between(
    new: Plan, old: Plan, state: RunState, following: Destination | None, paths: dict[str, str | None]
) -> Destination | None:
    """Behind the node that is done, else at the one that is next; where that isn't the one behind it, the run
    was sent there, and that holds."""
    done = state.stages[-1].path if state.stages else ""
    path = paths.get(done)
    if path is not None and following == next_node(old, done, state.rounds):
        return next_node(new, path, state.rounds)
    upcoming = paths.get(following.path) if following else None
    if following is not None and upcoming is not None:
        return Destination(upcoming, following.rounds)
    raise _gone(following.path if following else done, old, new)


def _gone(path: str, old: Plan, new: Plan) -> IllegalMove:
    step = old.places.get(path)
    name = step.node.id if step else path
    return IllegalMove(f"node {name!r}, where the run is, is no longer in {new.source.path}", hint=_GO_ON)


def _refuse_other_branches(now: Step, before: Step, block: BlockState) -> None:
    """A block under way keeps its providers, and each of them the stages that it has begun."""
    begun = {branch.provider: branch.next_stage + bool(branch.stage) for branch in block.branches}
    planned = now.node.branches if isinstance(now.node, ParallelNode) else ()
    if {branch.provider for branch in planned} != set(begun):
        message = f"the providers of block {now.node.id!r} changed while it is under way"
        raise IllegalMove(message, hint=_GO_ON)
    for provider, count in begun.items():
        stages, known = ([stage.id for stage in step.branch(provider)][:count] for step in (now, before))
        if stages != known:
            raise IllegalMove(
                f"stages that {provider} has begun in block {now.node.id!r} are no longer there", hint=_GO_ON
            )


def _refuse_other_agents(new: Plan, old: Plan, state: RunState, paths: dict[str, str | None]) -> None:
    """What is at work is read by its provider when it ends."""
    for provider, at in state.under_way():
        before, now = old.stage(at.path, provider), new.stage(paths.get(at.path) or "", provider)
        if not _is_at_work(at) or before is None:
            continue
        choice = at.iteration.attempt.choice if at.iteration and at.iteration.attempt else 0
        same = now is not None and before.chosen(choice).type == now.chosen(choice).type
        if not same or old.judge != new.judge:
            raise IllegalMove(
                f"the agent of node {before.id!r} may still be at work, and the new plan has another"
                " provider for it",
                hint="resume without --recompile, pause when its iteration is done, then recompile",
            )


def _is_at_work(at: StageState) -> bool:
    attempt = at.iteration.attempt if at.iteration else None
    return any(task is not None and task.in_flight for task in (attempt, at.judge))


def _by_new_plan(at: StageState, planned: StageNode | None) -> StageState:
    """Who rests and whose session it was is known by the place in the chain, where another may be now. An
    agent that may be at work is still the same."""
    known = replace(at, unavailable=())
    attempt = at.iteration.attempt if at.iteration else None
    if attempt is not None and attempt.once:
        known = with_attempt(known, once=planned is not None and planned.semantics == "at_most_once")
    return known if _is_at_work(at) else with_iteration(known, agent=None)


def _block_in(plan: Plan, path: str, block: BlockState) -> BlockState:
    def moved(branch: BranchState) -> BranchState:
        records = tuple(replace(r, path=_inner(path, r.path)) for r in branch.stages)
        at = branch.stage
        if at is not None:
            inner = _inner(path, at.path)
            at = replace(_by_new_plan(at, plan.stage(inner, branch.provider)), path=inner)
        return replace(branch, stages=records, stage=at)

    return replace(block, path=path, branches=tuple(map(moved, block.branches)))


def _inner(block: str, path: str) -> str:
    """A stage of a block keeps its position there."""
    return f"{block}.{path.rpartition('.')[2]}"


def key_of(step: Step) -> str:
    """The step's folder without the positions in it: kinds and ids."""
    return _without_positions(step.dir)


@lru_cache(maxsize=256)
def _without_positions(folder: str) -> str:
    """Every attempt is asked where it stands."""
    return _INDEX.sub(r"\1\2-", folder)


def _places(plan: Plan) -> Iterator[tuple[str, str]]:
    for step in plan.steps:
        key = key_of(step)
        yield key, step.path
        if isinstance(step.node, ParallelNode):
            yield from ((f"{key}/{stage.id}", step.inner_path(stage)) for stage in step.stages)
