"""The order of nodes: which comes first, and which follows a completed one.

Computed once per completed node and recorded, so that past nodes are never routed again.
"""

from agentforge.model.cursor import Destination
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
