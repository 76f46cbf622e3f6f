"""Nodes: the keys that recognise them in another plan, and the order in which a run visits them.

A key is built from kinds and ids, independent of position. What follows a completed node is computed once and
recorded, so that past nodes are never routed again.
"""

import re
from functools import lru_cache

from msgspec import Struct

from agentforge.model.cursor import Cursor, Destination
from agentforge.model.place import Place
from agentforge.model.plan import NestedNode, ParallelNode, Plan, Step, visit_dir

# A path says where a node is in one plan. What outlives a plan (cassettes, past runs, visits under a new
# plan) is found by key instead, as a stage keeps its id when others are inserted before it. Keys are made
# of the folders of nodes, which agents and tools of the shell engine know as well.
#
# Nested pipelines have rounds, one number for each level. The node after the last one of a pipeline is
# its first one again, in the next round, or what follows the pipeline in the one around it: so
# `next_node` looks from the innermost level outwards.

_KIND = re.compile(r"(^|/)(stage|parallel|pipeline)-")
_INDEX = re.compile(r"(^|/)(stage|parallel|pipeline)-\d+-")


def key_of(step: Step) -> str:
    """The step's folder without positions: kinds and ids."""
    return _without_positions(step.dir)


def node_key(plan: Plan, path: str) -> str:
    """The key of a stage or block, also of one in a block; a path that the plan doesn't have is returned."""
    if step := plan.places.get(path):
        return key_of(step)
    block, stage = plan.places.get(path.rpartition(".")[0]), plan.by_path.get(path)
    return f"{key_of(block)}/{stage.id}" if block and stage else path


@lru_cache(maxsize=256)
def _without_positions(folder: str) -> str:
    """Cached, because every attempt needs it."""
    return _INDEX.sub(r"\1\2-", folder)


class NodeKey(Struct, frozen=True):
    """One visit to a stage, a block, or a branch of a block."""

    node: str
    run: int = 1
    branch: str | None = None
    stage: str = ""
    """The stage within the branch; empty for the whole branch."""

    @property
    def name(self) -> str:
        node = _KIND.sub(r"\1", self.node)
        return f"{node}/{self.stage}" if self.stage else node


class NodeKeys:
    """Maps between the paths of one plan and node keys, for any visit."""

    def __init__(self, plan: Plan) -> None:
        self._keys: dict[tuple[str, str | None], NodeKey] = {}
        self._paths: dict[NodeKey, str] = {}
        for step in plan.steps:
            node = key_of(step)
            self._add(NodeKey(node), step.path)
            for branch in step.node.branches if isinstance(step.node, ParallelNode) else ():
                self._add(NodeKey(node, branch=branch.provider), step.path)
                for stage in branch.stages:
                    key = NodeKey(node, branch=branch.provider, stage=stage.id)
                    self._add(key, step.inner_path(stage))

    def _add(self, key: NodeKey, path: str) -> None:
        self._keys[path, key.branch] = key
        self._paths[key] = path

    def at(self, cursor: Cursor | None) -> NodeKey | None:
        """The key for a cursor, or None if the plan has no such node."""
        found = self._keys.get((cursor.node_path, cursor.provider)) if cursor else None
        return NodeKey(found.node, cursor.node_run, found.branch, found.stage) if found and cursor else None

    def cursor(self, key: NodeKey | None, iteration: int) -> Cursor | None:
        """The cursor for a key, or None if the plan has no such node."""
        path = self._paths.get(NodeKey(key.node, 1, key.branch, key.stage)) if key else None
        return Cursor(path, key.run, iteration, key.branch) if key and path is not None else None


def recorded_key(plan: Plan, path: str, run: int) -> str:
    """The key that cassettes and providers use for the node at a path, or for its enclosing block."""
    step = plan.places.get(path) or plan.places.get(path.rpartition(".")[0])
    return visit_dir(key_of(step), run) if step else ""


_VISIT = re.compile(r"/run-(\d+)(?=/|$)")


def parse_key(recorded: str, branch: str, stage: str) -> NodeKey:
    """Parse a key made by `recorded_key`."""
    found = _VISIT.search(recorded)
    run = int(found[1]) if found else 1
    node = _VISIT.sub("", recorded, count=1)
    # A branch as a whole is named like its block.
    is_inner = bool(branch) and node.rpartition("/")[2] != f"parallel-{stage}"
    return NodeKey(node, run, branch or None, stage if is_inner else "")


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
