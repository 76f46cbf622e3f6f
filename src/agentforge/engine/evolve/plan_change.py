"""State after a plan change: the run's position and history, by the paths of the new plan."""

from msgspec.structs import replace

from agentforge.engine.evolve.task import with_attempt, with_iteration
from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.plan import Plan, StageNode
from agentforge.model.request import Request
from agentforge.model.spending import SPENDING_CAP
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

# Whatever names a node in the state does so by its path, and paths are positions: a stage that is
# inserted at the top moves all others. So every collection that is keyed by a path, or holds one, is
# listed here. One that is forgotten isn't lost, which would be noticed: it counts for the node that has
# the path now.
#
# The visits of a node that the new plan lacks are kept under its name, as a later plan may have it again.
# Their numbers are parts of folders, and another visit 1 would write into the files of the first one.


def apply_plan_change(state: RunState, event: Event, fact: f.PlanChanged) -> RunState:
    """The state after a plan change."""
    paths = fact.paths
    known = ((record, paths.get(record.path, record.path)) for record in state.stages)
    moved = replace(
        state,
        stages=tuple(replace(record, path=path) for record, path in known if path is not None),
        skipped=dict.fromkeys(fact.skipped, event.at)
        | {now: when for path, when in state.skipped.items() if (now := _passed(path, paths))},
        visits={_visited(key, fact): count for key, count in state.visits.items()},
        items={_visited(key, fact): items for key, items in state.items.items()},
        frozen={_visited(key, fact): kept for key, kept in state.frozen.items()},
        spent={_visited(path, fact): part for path, part in state.spent.items()},
        granted={_capped(cap, fact): more for cap, more in state.granted.items() if cap not in fact.caps_set},
        requests=tuple(_asked_in(request, fact) for request in state.requests),
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


def _capped(cap: str, fact: f.PlanChanged) -> str:
    """The cap of a node by its new path."""
    name, at, path = cap.partition("@")
    now = fact.paths.get(path) or _passed(path, fact.paths) if path else ""
    return f"{name}{at}{now or fact.gone.get(path, path)}"


def _passed(path: str, paths: dict[str, str | None]) -> str | None:
    """The path of a node that a route passed over; that of a nested pipeline follows from its nodes."""
    inside = (now for known, now in paths.items() if now and is_within(known, path))
    now = next(inside, None)
    return ".".join(now.split(".")[: path.count(".") + 1]) if now else None


def _asked_in(request: Request, fact: f.PlanChanged) -> Request:
    """Move a request with its node, so that it isn't opened again; one about a cap with the cap's node."""
    at = request.at
    path = fact.paths.get(at.node_path) if at else None
    if at is None or path is None:
        return request
    if request.reason == SPENDING_CAP:
        cap = _capped(request.subject, fact)
        return replace(request, at=replace(at, node_path=path), key=f"{SPENDING_CAP}:{cap}", subject=cap)
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


def _under_new_plan(at: StageState, planned: StageNode | None) -> StageState:
    """Drop what may have changed: the end of a delay, unavailable providers and, unless an agent is running,
    its session, which refers to a position in the provider chain."""
    known = replace(at, unavailable=(), delay_due=None)
    attempt = at.iteration.attempt if at.iteration else None
    if attempt is not None and attempt.once:
        known = with_attempt(known, once=planned is not None and planned.semantics == "at_most_once")
    return known if at.agent_in_flight else with_iteration(known, agent=None)


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
