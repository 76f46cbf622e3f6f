"""The nodes of a pipeline and what follows each verdict: the data of `graph`, also as JSON."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.decide.checks import (
    DEFAULT_CLUSTER,
    DEFAULT_CYCLES,
    DEFAULT_NO_PROGRESS,
    cycle_limits,
)
from agentforge.model.check import Check
from agentforge.model.condition import condition_text
from agentforge.model.hook import BRANCH_POINTS, POINTS, STAGE_POINTS, HookAction, HookPoint
from agentforge.model.plan import (
    FAIL,
    PASS,
    REJECT,
    Items,
    NestedNode,
    Node,
    OnTimeout,
    ParallelNode,
    PipelineInfo,
    Plan,
    Route,
    StageNode,
)
from agentforge.model.request import Answerer

GraphAction = Literal["next", "back", "skip", "ask", "fail", "end"]
GraphKind = Literal["stage", "parallel", "pipeline"]


class GraphRoute(Struct, frozen=True):
    """What follows a node."""

    verdicts: tuple[str, ...]
    """Those of a stage that lead there; other nodes have none."""
    action: GraphAction
    to: str | None = None
    """The id of the node that follows; None if none does."""
    skipped: tuple[str, ...] = ()
    """The nodes that a route forward passes over."""


class GraphLimits(Struct, frozen=True):
    """When a person is asked instead of going back."""

    cycles: int
    no_progress: int
    cluster: int


class GraphHook(Struct, frozen=True):
    id: str
    point: HookPoint
    action: HookAction
    condition: str | None = None


class GraphNode(Struct, frozen=True):
    id: str
    kind: GraphKind
    path: str
    ref: str
    """The stage, or the file or name of a nested pipeline."""
    runs: int = 1
    providers: tuple[str, ...] = ()
    """Of a block: the names of its branches."""
    checks: tuple[Check, ...] = ()
    left_out: dict[str, str] = {}
    """Why checks of the definition are not run, by their names."""
    routes: tuple[GraphRoute, ...] = ()
    limits: GraphLimits | None = None
    """Of a stage with a route back."""
    checkpoint: str | None = None
    """A person approves before the node is entered."""
    approval: Answerer | None = None
    """Who approves the result of a stage, if anyone."""
    approval_timeout: float | None = None
    approval_on_timeout: OnTimeout | None = None
    """The answer after the timeout; `wait`: none."""
    hooks: tuple[GraphHook, ...] = ()
    """Those called at this node, in the order of their points."""
    items: str | None = None
    """The list that a stage works through, as NODE.FIELD."""
    artifact: str | None = None
    """The version of the artifact that the iterations of a stage leave."""
    required: bool = False
    """Whether no route may skip it."""
    nodes: "tuple[GraphNode, ...]" = ()
    """Of a nested pipeline, or the stages of each branch of a block."""

    @property
    def is_judged(self) -> bool:
        """Whether a stage has checks, or other verdicts than `pass`."""
        return self.kind == "stage" and any(route.verdicts != (PASS,) for route in self.routes)


def stages_by_path(plan: Plan) -> dict[str, GraphNode]:
    """Every stage, also those of blocks and nested pipelines, in order."""
    return {node.path: node for node in _flat(graph(plan)) if node.kind == "stage"}


def judged_stages(plan: Plan) -> list[GraphNode]:
    """Those with checks, or with other verdicts than `pass`."""
    return [stage for stage in stages_by_path(plan).values() if stage.is_judged]


def _flat(nodes: Sequence[GraphNode]) -> Iterator[GraphNode]:
    for node in nodes:
        yield node
        yield from _flat(node.nodes)


def graph(plan: Plan) -> tuple[GraphNode, ...]:
    return _nodes(plan.nodes, plan, "", plan.pipeline.require)


def run_hooks(plan: Plan) -> tuple[GraphHook, ...]:
    """The hooks that are called at no node."""
    return _hooks(plan, "", tuple(point for point in POINTS if point not in (*STAGE_POINTS, *BRANCH_POINTS)))


def stage_routes(stage: StageNode, ids: Sequence[str]) -> tuple[GraphRoute, ...]:
    """What follows each verdict of the stage; `ids`: the nodes of its pipeline or branch, in order."""
    words = [PASS]
    if stage.checks or stage.verdicts or stage.routes:
        words += [FAIL, REJECT, *stage.verdicts]
    # Verdicts after which the same follows are one route.
    found: dict[GraphRoute, list[str]] = {}
    for word in words:
        route = stage.route(word)
        if route is None:
            follows = _next(stage.id, ids) if word == PASS else GraphRoute((), "fail")
        else:
            follows = _go(stage, route, ids) if route.action == "go" else GraphRoute((), route.action)
        found.setdefault(follows, []).append(word)
    return tuple(
        GraphRoute(tuple(verdicts), route.action, route.to, route.skipped)
        for route, verdicts in found.items()
    )


def stage_limits(stage: StageNode, pipeline: PipelineInfo, ids: Sequence[str]) -> GraphLimits | None:
    """The limits of a stage with a route back; `pipeline`: the outermost one."""
    if all(route.action != "back" for route in stage_routes(stage, ids)):
        return None
    given = cycle_limits(pipeline, stage)
    return GraphLimits(
        given.cycles or DEFAULT_CYCLES,
        given.no_progress or DEFAULT_NO_PROGRESS,
        given.cluster or DEFAULT_CLUSTER,
    )


def _hooks(plan: Plan, path: str, points: Sequence[HookPoint]) -> tuple[GraphHook, ...]:
    return tuple(
        GraphHook(hook.id, point, hook.action, condition_text(hook.condition) if hook.condition else None)
        for point in points
        for hook in plan.hooks(point, path)
    )


def _nodes(
    nodes: Sequence[Node], plan: Plan, prefix: str, required: Sequence[str] = ()
) -> tuple[GraphNode, ...]:
    """`plan`: the outermost one."""
    ids = [node.id for node in nodes]
    return tuple(replace(_node(node, ids, plan, prefix), required=node.id in required) for node in nodes)


def _node(node: Node, ids: Sequence[str], plan: Plan, prefix: str) -> GraphNode:
    path = f"{prefix}{node.path}"
    follows = (_next(node.id, ids),)
    match node:
        case StageNode():
            approval = node.approve
            return GraphNode(
                node.id,
                "stage",
                path,
                node.stage,
                node.termination.max,
                checks=node.checks,
                left_out=node.left_out,
                routes=stage_routes(node, ids),
                limits=stage_limits(node, plan.pipeline, ids),
                checkpoint=node.checkpoint,
                approval=approval.by if approval else None,
                approval_timeout=approval.timeout if approval else None,
                approval_on_timeout=approval.on_timeout if approval and approval.timeout else None,
                hooks=_hooks(plan, path, STAGE_POINTS),
                items=node.termination.source if isinstance(node.termination, Items) else None,
                artifact=node.artifact.version if node.artifact else None,
            )
        case NestedNode():
            inner = _nodes(node.plan.nodes, plan, f"{path}.", node.plan.pipeline.require)
            return GraphNode(
                node.id,
                "pipeline",
                path,
                node.ref,
                node.runs,
                routes=follows,
                checkpoint=node.checkpoint,
                nodes=inner,
            )
        case ParallelNode():  # exhaustive
            # The branches differ in their providers, not in their stages.
            inner = _nodes(node.branches[0].stages if node.branches else (), plan, prefix)
            names = tuple(branch.provider for branch in node.branches)
            return GraphNode(
                node.id,
                "parallel",
                path,
                node.id,
                providers=names,
                routes=follows,
                checkpoint=node.checkpoint,
                hooks=_hooks(plan, path, BRANCH_POINTS),
                nodes=inner,
            )


def _go(stage: StageNode, route: Route, ids: Sequence[str]) -> GraphRoute:
    source, target = ids.index(stage.id), ids.index(route.to)
    if target <= source:
        return GraphRoute((), "back", route.to)
    return GraphRoute(
        (), "skip" if target > source + 1 else "next", route.to, tuple(ids[source + 1 : target])
    )


def _next(id: str, ids: Sequence[str]) -> GraphRoute:
    following = ids[ids.index(id) + 1 :]
    return GraphRoute((), "next", following[0] if following else None)
