"""The course of a run through its plan: which node comes first, and which one after another.

Asked once for each node that is done; the answer is recorded, so that the past is never routed again.
"""

from agentforge.model.cursor import Destination
from agentforge.model.plan import NestedNode, Plan


def first_node(plan: Plan) -> Destination | None:
    return _from(plan, "", 0, (1,))


def next_node(plan: Plan, path: str, rounds: tuple[int, ...]) -> Destination | None:
    """Where the run goes from a node that is done; None at the end of the last round."""
    levels = _levels(plan, path)
    for depth in reversed(range(len(levels))):
        pipeline, prefix, index, times = levels[depth]
        # A damaged log may have lost how often the pipelines around the node ran.
        here = (rounds + (1,) * len(levels))[: depth + 1]
        if found := _from(pipeline, prefix, index + 1, here):
            return found
        if here[-1] < times:
            return _from(pipeline, prefix, 0, (*here[:-1], here[-1] + 1))
    return None


def _levels(plan: Plan, path: str) -> list[tuple[Plan, str, int, int]]:
    """The pipelines that the node is in, outermost first: each with the path before its nodes, the position
    of the node in it, and how often it runs."""
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
    """The first place at or behind a node of a pipeline, in this round of it."""
    for node in plan.nodes[index:]:
        if not isinstance(node, NestedNode):
            return Destination(f"{prefix}{node.path}", rounds)
        if found := _from(node.plan, f"{prefix}{node.path}.", 0, (*rounds, 1)):
            return found
    return None
