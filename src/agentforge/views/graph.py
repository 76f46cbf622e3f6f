"""The nodes of a pipeline and what follows each verdict: the data of `graph`, also as JSON."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from agentforge.engine.decide.checks import FAIL, PASS, REJECT
from agentforge.engine.decide.routes import DEFAULT_CLUSTER, DEFAULT_CYCLES, DEFAULT_NO_PROGRESS, cycle_limits
from agentforge.model.check import Check
from agentforge.model.plan import NestedNode, Node, ParallelNode, PipelineInfo, Plan, Route, StageNode

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
    routes: tuple[GraphRoute, ...] = ()
    limits: GraphLimits | None = None
    """Of a stage with a route back."""
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
    return _nodes(plan.nodes, plan.pipeline, "")


def stage_routes(stage: StageNode, ids: Sequence[str]) -> tuple[GraphRoute, ...]:
    """What follows each verdict of the stage; `ids`: the nodes of its pipeline or branch, in order."""
    words = [PASS]
    if stage.checks or stage.verdicts or stage.routes:
        words += [FAIL, REJECT, *stage.verdicts]
    found: dict[GraphRoute, list[str]] = {}
    for word in words:
        found.setdefault(_route(stage, word, ids), []).append(word)
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


def _nodes(nodes: Sequence[Node], pipeline: PipelineInfo, prefix: str) -> tuple[GraphNode, ...]:
    ids = [node.id for node in nodes]
    return tuple(_node(node, ids, pipeline, prefix) for node in nodes)


def _node(node: Node, ids: Sequence[str], pipeline: PipelineInfo, prefix: str) -> GraphNode:
    path = f"{prefix}{node.path}"
    follows = (_next(node.id, ids),)
    match node:
        case StageNode():
            return GraphNode(
                node.id,
                "stage",
                path,
                node.stage,
                node.termination.max,
                checks=node.checks,
                routes=stage_routes(node, ids),
                limits=stage_limits(node, pipeline, ids),
            )
        case NestedNode():
            inner = _nodes(node.plan.nodes, pipeline, f"{path}.")
            return GraphNode(node.id, "pipeline", path, node.ref, node.runs, routes=follows, nodes=inner)
        case ParallelNode():  # exhaustive
            inner = _nodes(node.branches[0].stages if node.branches else (), pipeline, prefix)
            names = tuple(branch.provider for branch in node.branches)
            return GraphNode(node.id, "parallel", path, node.id, providers=names, routes=follows, nodes=inner)


def _route(stage: StageNode, word: str, ids: Sequence[str]) -> GraphRoute:
    route = stage.route(word)
    if route is None:
        return _next(stage.id, ids) if word == PASS else GraphRoute((), "fail")
    return _go(stage, route, ids) if route.action == "go" else GraphRoute((), route.action)


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
