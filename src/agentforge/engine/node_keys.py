"""What a place of a plan is called in terms that hold in any plan: kinds and ids, wherever it stands."""

import re

from msgspec import Struct

from agentforge.engine.replan import key_of
from agentforge.model.cursor import Cursor
from agentforge.model.plan import ParallelNode, Plan, visit_dir

_KIND = re.compile(r"(^|/)(stage|parallel|pipeline)-")


class NodeKey(Struct, frozen=True):
    """A stage or a block, or what one provider does of it, in one of its visits."""

    node: str
    run: int = 1
    branch: str | None = None
    stage: str = ""
    """Within the branch; empty for the branch as a whole."""

    @property
    def name(self) -> str:
        node = _KIND.sub(r"\1", self.node)
        return f"{node}/{self.stage}" if self.stage else node


class NodeKeys:
    """Between the paths of one plan and the keys, both ways. Any visit of a node is one of its places."""

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
        """What the cursor means; None where the plan has no such place."""
        found = self._keys.get((cursor.node_path, cursor.provider)) if cursor else None
        return NodeKey(found.node, cursor.node_run, found.branch, found.stage) if found and cursor else None

    def cursor(self, key: NodeKey | None, iteration: int) -> Cursor | None:
        """The same place in this plan; None where it isn't there."""
        path = self._paths.get(NodeKey(key.node, 1, key.branch, key.stage)) if key else None
        return Cursor(path, key.run, iteration, key.branch) if key and path is not None else None


def recorded_key(plan: Plan, path: str, run: int) -> str:
    """What cassettes and providers call the node at a path, or the block that a stage is in."""
    step = plan.places.get(path) or plan.places.get(path.rpartition(".")[0])
    return visit_dir(key_of(step), run) if step else ""


_VISIT = re.compile(r"/run-(\d+)(?=/|$)")


def key_from(recorded: str, branch: str, stage: str) -> NodeKey:
    """The other way round."""
    found = _VISIT.search(recorded)
    run = int(found[1]) if found else 1
    return NodeKey(_VISIT.sub("", recorded, count=1), run, branch or None, stage if branch else "")
