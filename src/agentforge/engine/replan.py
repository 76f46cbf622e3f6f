"""Continues a run with another plan: maps its position and history to the new nodes.

Nodes are the same if they have the same kind and id within the same pipelines, regardless of position. A run
whose current node was removed can't continue with the new plan; that is an error.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec.structs import replace

from agentforge.engine.decide.node_order import first_node, next_node
from agentforge.engine.evolve.attempt import with_attempt, with_iteration
from agentforge.model import facts as f
from agentforge.model.cursor import Destination
from agentforge.model.errors import IllegalMove
from agentforge.model.plan import ParallelNode, Plan, StageNode, Step
from agentforge.model.request import Request
from agentforge.model.state import (
    Between,
    BlockState,
    BranchState,
    Cluster,
    HookProgress,
    Position,
    RunState,
    StageState,
    Start,
    is_within,
)

_INDEX = re.compile(r"(^|/)(stage|parallel|pipeline)-\d+-")
_HINT = "restore it, resume without --recompile, or start over with --force"


def plan_change(new: Plan, old: Plan, state: RunState) -> f.PlanChanged:
    """The fact for continuing with the new plan; raises IllegalMove if the current node was removed."""
    paths, now = moved_paths(old, new), dict(_places(new))
    _refuse_other_scripts(new, old, state, paths)
    visited = {key.partition("@")[0] for key in state.visits}
    back: dict[str, str | None] = {name: now[name] for name in visited if name in now}
    gone = {path: key for key, path in _places(old) if paths[path] is None}
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
                raise _removed(at.path, old, new)
            if isinstance(at, BlockState):
                _refuse_other_branches(now, before, at)
            _refuse_other_agents(new, old, state, paths)
            _refuse_other_checks(new, old, state, paths)
            return Destination(now.path, state.rounds)


def apply_plan_change(state: RunState, fact: f.PlanChanged) -> RunState:
    """The state after a plan change."""
    paths = fact.paths
    known = ((record, paths.get(record.path, record.path)) for record in state.stages)
    moved = replace(
        state,
        stages=tuple(replace(record, path=path) for record, path in known if path is not None),
        skipped={now: when for path, when in state.skipped.items() if (now := _passed(path, paths))},
        visits={_visited(key, fact): count for key, count in state.visits.items()},
        requests=tuple(_asked_in(request, paths) for request in state.requests),
        cycles={_counted(key, paths): count for key, count in state.cycles.items()},
        clusters=tuple(_clustered(known, paths) for known in state.clusters),
        failing={_visited_key(key, paths): known for key, known in state.failing.items()},
        hooks=tuple(_called_in(progress, paths) for progress in state.hooks),
        recompiled=True,
    )
    return replace(moved, at=_position(moved.at, fact), rounds=fact.at.rounds if fact.at else moved.rounds)


def _visited(key: str, fact: f.PlanChanged) -> str:
    """The key of a stage's visits in the new plan, or its name if it was removed: it may come back."""
    path, at, provider = key.partition("@")
    return f"{fact.paths.get(path, path) or fact.gone.get(path, path)}{at}{provider}"


def _passed(path: str, paths: dict[str, str | None]) -> str | None:
    """The path of a node that a route passed over; that of a nested pipeline follows from its nodes."""
    inside = (now for known, now in paths.items() if now and is_within(known, path))
    now = next(inside, None)
    return ".".join(now.split(".")[: path.count(".") + 1]) if now else None


def _asked_in(request: Request, paths: dict[str, str | None]) -> Request:
    """Move a request with its node, so that it isn't opened again."""
    at = request.at
    path = paths.get(at.node_path) if at else None
    if at is None or path is None:
        return request
    reason, mark, place = request.key.partition("@")
    about = f"{path}{place.removeprefix(at.node_path)}" if place.startswith(at.node_path) else place
    return replace(request, at=replace(at, node_path=path), key=f"{reason}{mark}{about}")


def _counted(key: str, paths: dict[str, str | None]) -> str:
    """The counter of a route, by the new paths of its nodes."""
    source, _, target = key.partition(">")
    return f"{_visited_key(source, paths)}>{paths.get(target) or target}"


def _clustered(known: Cluster, paths: dict[str, str | None]) -> Cluster:
    latest, run = known.latest
    return replace(known, stage=_visited_key(known.stage, paths), latest=(_visited_key(latest, paths), run))


def _visited_key(key: str, paths: dict[str, str | None]) -> str:
    path, mark, provider = key.partition("@")
    return f"{paths.get(path) or path}{mark}{provider}"


def _called_in(progress: HookProgress, paths: dict[str, str | None]) -> HookProgress:
    """Move the hooks with their node, so that they aren't called again."""
    path = paths.get(progress.at.node_path) if progress.at else None
    return replace(progress, at=replace(progress.at, node_path=path)) if progress.at and path else progress


def _position(at: Position, fact: f.PlanChanged) -> Position:
    match at:
        case Start():
            return at
        case Between():
            return Between(fact.at, at.reentry)
        case StageState():
            path = fact.at.path if fact.at else at.path
            return replace(_under_new_plan(at, fact.plan.stage(path)), path=path)
        case BlockState():  # exhaustive
            path = fact.at.path if fact.at else at.path
            return _block_in(fact.plan, path, at)


def moved_paths(old: Plan, new: Plan) -> dict[str, str | None]:
    """Each old path's path in the new plan; None if the node was removed."""
    now = dict(_places(new))
    return {path: now.get(key) for key, path in _places(old)}


def _between(
    new: Plan, old: Plan, state: RunState, following: Destination | None, paths: dict[str, str | None]
) -> Destination | None:
    """After the completed node, else at the next one; a jump to another node is kept."""
    done = state.stages[-1].path if state.stages else ""
    path = paths.get(done)
    is_back = isinstance(state.at, Between) and state.at.reentry is not None
    if path is not None and not is_back and following == next_node(old, done, state.rounds):
        return next_node(new, path, state.rounds)
    upcoming = paths.get(following.path) if following else None
    if following is not None and upcoming is not None:
        return Destination(upcoming, following.rounds)
    raise _removed(following.path if following else done, old, new)


def _removed(path: str, old: Plan, new: Plan) -> IllegalMove:
    step = old.places.get(path)
    name = step.node.id if step else path
    return IllegalMove(f"the current node {name!r} is no longer in {new.source.path}", hint=_HINT)


def _refuse_other_branches(now: Step, before: Step, block: BlockState) -> None:
    """A block in progress must keep its providers, and each provider the stages that it has started."""
    begun = {branch.provider: branch.next_stage + bool(branch.stage) for branch in block.branches}
    planned = now.node.branches if isinstance(now.node, ParallelNode) else ()
    if {branch.provider for branch in planned} != set(begun):
        message = f"the providers of block {now.node.id!r} changed while the block is running"
        raise IllegalMove(message, hint=_HINT)
    for provider, count in begun.items():
        stages, known = ([stage.id for stage in step.branch(provider)][:count] for step in (now, before))
        if stages != known:
            raise IllegalMove(
                f"stages that {provider} has started in block {now.node.id!r} were removed or reordered",
                hint=_HINT,
            )


def _refuse_other_agents(new: Plan, old: Plan, state: RunState, paths: dict[str, str | None]) -> None:
    """The output of a running agent is read by its provider, so that must not change."""
    for provider, at in state.under_way():
        before, now = old.stage(at.path, provider), new.stage(paths.get(at.path) or "", provider)
        if not _is_running(at) or before is None:
            continue
        choice = at.iteration.attempt.choice if at.iteration and at.iteration.attempt else 0
        same = now is not None and before.chosen(choice).type == now.chosen(choice).type
        if not same or now is None or old.judge_of(before) != new.judge_of(now):
            raise IllegalMove(
                f"the agent of node {before.id!r} may still be running, but its provider changed in the new"
                " plan",
                hint="resume without --recompile, pause after its iteration, then recompile",
            )


def _refuse_other_checks(new: Plan, old: Plan, state: RunState, paths: dict[str, str | None]) -> None:
    """The output of a running check is read as the plan says, so that must not change."""
    for provider, at in state.under_way():
        before, now = old.stage(at.path, provider), new.stage(paths.get(at.path) or "", provider)
        if before is None or at.check is None or not at.check.in_flight:
            continue
        name = at.check.check
        if now is None or before.check(name) != now.check(name):
            raise IllegalMove(
                f"check {name!r} of node {before.id!r} may still be running, but it changed in the new plan",
                hint="resume without --recompile, pause after the check, then recompile",
            )


def _refuse_other_scripts(new: Plan, old: Plan, state: RunState, paths: dict[str, str | None]) -> None:
    """A running script is awaited and ended by its hook, so that must stay where it is."""
    for progress in state.hooks:
        call, path = progress.call, progress.at.node_path if progress.at else ""
        before, now = old.hooks(progress.point, path), new.hooks(progress.point, paths.get(path) or "")
        scripts, kept = ({hook.id for hook in at if hook.action == "script"} for at in (before, now))
        if call is not None and call.in_flight and call.hook in scripts - kept:
            raise IllegalMove(
                f"the script of hook {call.hook!r} may still be running, but the new plan has no such script",
                hint="resume without --recompile, pause after the hook, then recompile",
            )


def _is_running(at: StageState) -> bool:
    attempt = at.iteration.attempt if at.iteration else None
    return any(task is not None and task.in_flight for task in (attempt, at.judge))


def _under_new_plan(at: StageState, planned: StageNode | None) -> StageState:
    """Drop what may have changed: the end of a delay, unavailable providers and, unless an agent is running,
    its session, which refers to a position in the provider chain."""
    known = replace(at, unavailable=(), delay_due=None)
    attempt = at.iteration.attempt if at.iteration else None
    if attempt is not None and attempt.once:
        known = with_attempt(known, once=planned is not None and planned.semantics == "at_most_once")
    return known if _is_running(at) else with_iteration(known, agent=None)


def _block_in(plan: Plan, path: str, block: BlockState) -> BlockState:
    def moved(branch: BranchState) -> BranchState:
        records = tuple(replace(r, path=_inner(path, r.path)) for r in branch.stages)
        at = branch.stage
        if at is not None:
            inner = _inner(path, at.path)
            at = replace(_under_new_plan(at, plan.stage(inner, branch.provider)), path=inner)
        return replace(branch, stages=records, stage=at)

    return replace(block, path=path, branches=tuple(map(moved, block.branches)))


def _inner(block: str, path: str) -> str:
    """The path of a stage in the moved block; its position is kept."""
    return f"{block}.{path.rpartition('.')[2]}"


def key_of(step: Step) -> str:
    """The step's folder without positions: kinds and ids."""
    return _without_positions(step.dir)


@lru_cache(maxsize=256)
def _without_positions(folder: str) -> str:
    """Cached, because every attempt needs it."""
    return _INDEX.sub(r"\1\2-", folder)


def _places(plan: Plan) -> Iterator[tuple[str, str]]:
    for step in plan.steps:
        key = key_of(step)
        yield key, step.path
        if isinstance(step.node, ParallelNode):
            yield from ((f"{key}/{stage.id}", step.inner_path(stage)) for stage in step.stages)
