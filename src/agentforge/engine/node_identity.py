"""Keys for nodes that are valid across plans: built from kinds and ids, independent of position."""

import re
from functools import lru_cache

from msgspec import Struct

from agentforge.model.cursor import Cursor
from agentforge.model.plan import ParallelNode, Plan, Step, visit_dir

_KIND = re.compile(r"(^|/)(stage|parallel|pipeline)-")
_INDEX = re.compile(r"(^|/)(stage|parallel|pipeline)-\d+-")


def key_of(step: Step) -> str:
    """The step's folder without positions: kinds and ids."""
    return _without_positions(step.dir)


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
