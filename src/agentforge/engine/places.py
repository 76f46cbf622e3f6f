"""Places of a plan that another plan has too: found again by kinds, ids and runs, wherever they stand."""

import re

from msgspec import Struct

from agentforge.engine.replan import key_of
from agentforge.model.event import Cursor
from agentforge.model.plan import ParallelNode, Plan

_KIND = re.compile(r"(^|/)(stage|parallel|pipeline)-")
_RUN = re.compile(r"/run-\d+")


class Place(Struct, frozen=True):
    """A stage, a block, or what one provider does of it."""

    node: str
    """The step, in terms that hold in any plan."""
    branch: str | None = None
    stage: str = ""
    """Within the branch; nothing for the branch as a whole."""

    @property
    def name(self) -> str:
        node = _KIND.sub(r"\1", _RUN.sub("", self.node))
        return f"{node}/{self.stage}" if self.stage else node


class Places:
    """All places of one plan, both ways."""

    def __init__(self, plan: Plan) -> None:
        self._places: dict[tuple[str, int, str | None], Place] = {}
        self._cursors: dict[Place, Cursor] = {}
        for step in plan.steps:
            node = key_of(step)
            self._add(Place(node), step.path, step.run)
            if not isinstance(step.node, ParallelNode):
                continue
            prefix = step.path.removesuffix(step.node.path)
            for branch in step.node.branches:
                self._add(Place(node, branch.provider), step.path, step.run)
                for stage in branch.stages:
                    place = Place(node, branch.provider, stage.id)
                    self._add(place, f"{prefix}{stage.path}", step.run)

    def _add(self, place: Place, path: str, run: int) -> None:
        self._places[path, run, place.branch] = place
        self._cursors[place] = Cursor(path, run, 0, place.branch)

    def at(self, cursor: Cursor | None) -> Place | None:
        """The place that a cursor means; nothing where the plan has none there."""
        if cursor is None:
            return None
        return self._places.get((cursor.node_path, cursor.node_run, cursor.provider))

    def cursor(self, place: Place | None, iteration: int) -> Cursor | None:
        """The place in this plan; nothing where it isn't there."""
        found = self._cursors.get(place) if place else None
        return Cursor(found.node_path, found.node_run, iteration, found.provider) if found else None
