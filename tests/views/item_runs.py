"""Events of a run that plans steps, does them one by one, and verifies them."""

from typing import Any

from msgspec.structs import replace
from tests.engine.plans import block, plan_of, stage
from tests.views.test_work import Story

from agentforge.engine.items import elements_of, planned
from agentforge.model import facts as f
from agentforge.model.artifact import Artifact, ArtifactRule, ContextUse
from agentforge.model.cursor import Cursor
from agentforge.model.plan import ArtifactSource, InputSources, Items
from agentforge.model.request import Feedback
from agentforge.model.result import Result

STEPS: dict[str, Any] = {
    "steps": [
        {"id": "s1", "title": "Parse"},
        {"id": "s2", "title": "Check", "after": ["s1"]},
        {"id": "s3", "action": "print"},
    ]
}
PLAN = plan_of(
    stage("plan", artifact=ArtifactRule({"type": "object"})),
    stage(
        "build",
        termination=Items(10, "plan.steps"),
        artifact=ArtifactRule({"type": "object"}),
        sources=InputSources(items=ArtifactSource("0")),
    ),
    stage("verify"),
    block("claude codex", stage("vote")),
)


def accepted(value: dict[str, Any] | None, at: str = "0", version: str = "1.0") -> Artifact:
    return Artifact(f"{at}/artifact.json", 100, at * 64, version, value)


def at(path: str, iteration: int = 0, visit: int = 1, branch: str | None = None) -> Cursor:
    return Cursor(path, visit, iteration, branch)


class ItemStory(Story):
    def __init__(self) -> None:
        super().__init__(PLAN)

    def enter(self, path: str, visit: int = 1, branch: str | None = None) -> "ItemStory":
        node = PLAN.stage(path, branch)
        assert node is not None
        folder = f"stage-0{path}-{node.id}" + (f"/run-{visit:03d}" if visit > 1 else "")
        self.add(f.NodeStarted(node.id, path, run=visit, folder=folder), at(path, 0, visit, branch))
        return self

    def iteration(self, where: Cursor, item: str = "", said: str = "done", **more: Any) -> "ItemStory":
        node = PLAN.stage(where.node_path, where.provider)
        assert node is not None
        context = more.pop("context", None)
        begun = f.IterationStarted(node.id, node.id, "claude", "opus", "0", item=item, context=context)
        self.add(begun, where).add(f.AttemptStarted(1, 2, "claude", "opus"), where)
        given = {"stage": node.id, "result": Result(summary=said), **more}
        self.complete(where, **given)
        return self

    def planned(self) -> "ItemStory":
        self.enter("0").iteration(at("0", 1), said="planned", artifact=accepted(STEPS))
        self.add(f.NodeCompleted("plan", "enough", 1), at("0", 1))
        return self

    def items(
        self, visit: int = 1, value: dict[str, Any] = STEPS, *, items: tuple[str, ...] = ()
    ) -> "ItemStory":
        """What the stage works through; `items`: those that were sent back."""
        self.enter("1", visit)
        state = self.fold.model.state
        assert state is not None
        elements = elements_of(value, "steps", 10)
        found = [one for one in elements if not isinstance(one, str)]
        feedback = Feedback("again", "verify", items=items) if visit > 1 else None
        known = tuple(state.items.get("1", {}).values())
        fact = planned(found, known, feedback, visit, "0" * 64)
        self.add(fact, at("1", 0, visit))
        return self

    def item(self, number: int, id: str, *, visit: int = 1, status: Any = "done", **more: Any) -> "ItemStory":
        where = at("1", number, visit)
        self.iteration(where, id, f"did {id}", **more)
        reason = "" if status == "done" else "it does not work"
        self.add(f.ItemEnded(id, status, reason), where)
        return self


def used(tokens: int) -> ContextUse:
    return replace(ContextUse("focused", tokens, 1000))
