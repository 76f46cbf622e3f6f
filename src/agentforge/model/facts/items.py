"""Items of a stage: it works through them, one per iteration."""

from typing import Literal

from agentforge.model.artifact import PlannedItem
from agentforge.model.course import CourseStep
from agentforge.model.facts.fact import Fact
from agentforge.model.plan_limits import name_defect


class ItemsPlanned(Fact, frozen=True):
    """What a visit works through, in this order: recorded before its first iteration."""

    TYPE = "items_planned"

    items: tuple[PlannedItem, ...] = ()
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Those whose content is another one than in the visit before: they are done again."""
    dropped: tuple[str, ...] = ()
    """Those that the list no longer has."""
    reopened: tuple[str, ...] = ()
    """Those that were sent back."""
    repair: str = ""
    """The item whose content is the feedback, if that named no items."""
    sha256: str = ""
    """Of the artifact that has the list."""

    def defect(self, _session: str) -> str:
        return name_defect(*(item.id for item in self.items))

    def step(self) -> CourseStep:
        pending = sum(item.status == "pending" for item in self.items)
        return CourseStep("items", detail=f"{pending} of {len(self.items)}")


class ItemEnded(Fact, frozen=True):
    """An item is done, or has failed."""

    TYPE = "item_ended"

    item: str
    status: Literal["done", "failed"]
    reason: str = ""

    def step(self) -> CourseStep:
        return CourseStep("item_over", detail=f"{self.item}: {self.status}")

    @property
    def is_progress(self) -> bool:
        return True


AnyItemFact = ItemsPlanned | ItemEnded
