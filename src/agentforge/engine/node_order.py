"""The order of nodes: which comes first, and which follows a completed one.

Computed once per completed node and recorded, so that past nodes are never routed again.
"""

from agentforge.model.cursor import Destination
from agentforge.model.place import Place
from agentforge.model.plan import NestedNode, Plan


def first_node(plan: Plan) -> Destination | None:
    return _from(plan, "", 0, (1,))


def next_node(plan: Plan, path: str, rounds: tuple[int, ...]) -> Destination | None:
    """The node after a completed one, or None at the end of the last round."""
    levels = _levels(plan, path)
    for depth in reversed(range(len(levels))):
        pipeline, prefix, index, times = levels[depth]
        # A damaged log may lack the rounds of the enclosing pipelines.
        here = (rounds + (1,) * len(levels))[: depth + 1]
        if found := _from(pipeline, prefix, index + 1, here):
            return found
        if here[-1] < times:
            return _from(pipeline, prefix, 0, (*here[:-1], here[-1] + 1))
    return None


def siblings(plan: Plan, path: str, branch: str | None = None) -> list[str]:
    """The ids of the nodes of the pipeline that a node belongs to, or of the stages of its branch, in
    order."""
    block = plan.places.get(path.rpartition(".")[0]) if branch else None
    if block is not None and branch is not None:
        return [stage.id for stage in block.branch(branch)]
    return [node.id for node in _levels(plan, path)[-1][0].nodes]


def entry(plan: Plan, place: Place, index: int, rounds: tuple[int, ...]) -> tuple[str, Destination | None]:
    """A node beside that place: its path, and where a run enters it."""
    block = plan.places.get(place.path.rpartition(".")[0]) if place.branch else None
    if block is not None and place.branch is not None:
        path = block.inner_path(block.branch(place.branch)[index])
        return path, Destination(path, rounds)
    pipeline, prefix, _, _ = _levels(plan, place.path)[-1]
    return f"{prefix}{pipeline.nodes[index].path}", _from(pipeline, prefix, index, rounds)


def is_of_round(path: str, rounds: tuple[int, ...], here: str, now: tuple[int, ...]) -> bool:
    """Whether a visit in these rounds is of the current round, in which a run is at another node: of the
    pipelines that both nodes belong to."""
    levels = path.split(".")
    pairs = enumerate(zip(here.split("."), levels, strict=False))
    shared = next((n for n, (a, b) in pairs if a != b), len(levels) - 1)
    return rounds[: shared + 1] == now[: shared + 1]


def _levels(plan: Plan, path: str) -> list[tuple[Plan, str, int, int]]:
    """The enclosing pipelines, outermost first: each with its path prefix, the node's position in it, and its
    number of rounds."""
    found, prefix, times = [], "", plan.passes
    for name in path.split("."):
        index = next((n for n, node in enumerate(plan.nodes) if node.path == name), len(plan.nodes))
        found.append((plan, prefix, index, times))
        node = plan.nodes[index] if index < len(plan.nodes) else None
        if not isinstance(node, NestedNode):
            break
        plan, prefix, times = node.plan, f"{prefix}{node.path}.", node.runs
    return found


def _from(plan: Plan, prefix: str, index: int, rounds: tuple[int, ...]) -> Destination | None:
    """The first stage or block at or after `index`, in this round."""
    for node in plan.nodes[index:]:
        if not isinstance(node, NestedNode):
            return Destination(f"{prefix}{node.path}", rounds)
        if found := _from(node.plan, f"{prefix}{node.path}.", 0, (*rounds, 1)):
            return found
    return None
