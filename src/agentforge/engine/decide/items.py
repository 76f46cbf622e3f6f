"""Gates of a stage over items: one iteration for each element of a list in an earlier artifact.

An item is over when its iteration is complete and its checks have run. A failed one blocks those that depend
on it; the others continue.
"""

from agentforge.engine.decide.requests import Ruling
from agentforge.engine.decide.stage_at import StageAt
from agentforge.model import facts as f
from agentforge.model.artifact import ItemAt, PlannedItem
from agentforge.model.plan import FAIL, Items
from agentforge.model.result import Decision
from agentforge.model.state import Verdict
from agentforge.model.task import ItemsTask

# The next item is not recorded as a position: it follows from the statuses, and each iteration names its
# item when it starts. So nothing can point to an item that a new list has moved or dropped.
#
# A failed item doesn't end the stage. What doesn't depend on it is done, and the verdict, which names all
# that failed, comes when nothing is left that can be worked on: one visit of another stage then repairs
# them all.

MAX_TRIES = 2
"""How many iterations an item has whose checks fail."""
MAX_NAMED = 20
"""Items that a verdict names."""


def plan_items(here: StageAt) -> Ruling | None:
    if not isinstance(here.node.termination, Items) or here.at.planned:
        return None
    at, node, known = here.at, here.node, tuple(here.items.values())
    task = ItemsTask(here.place, node.id, at.completed, node=node, known=known, feedback=at.feedback)
    return Ruling(work=(task,))


def item_over(here: StageAt) -> Ruling | None:
    """Record how the item of the latest iteration ended; None if it gets another iteration."""
    at, claim = here.at, here.at.claim
    if not at.item or at.last_decision is Decision.ASK:
        return None
    if failed := here.failing:
        if at.item_tries < MAX_TRIES:
            return None
        reason = "; ".join(f"check {each.check!r}: {each.reason}" for each in failed)
        return here.record(f.ItemEnded(at.item, "failed", reason))
    if claim is not None and claim.word == FAIL:
        return here.record(f.ItemEnded(at.item, "failed", claim.reason))
    return here.record(f.ItemEnded(at.item, "done"))


def next_item(here: StageAt) -> ItemAt | None:
    """The one that is under way, else the first whose dependencies are done."""
    items = here.items
    pending = (item for item in items.values() if item.status == "pending")
    id = here.at.item or next((item.id for item in pending if _is_ready(item, items)), "")
    return here.item_at(id)


def _is_ready(item: PlannedItem, items: dict[str, PlannedItem]) -> bool:
    # A dependency that a damaged log lacks doesn't block.
    return all(items[name].status == "done" for name in item.after if name in items)


def end_of_items(here: StageAt) -> str:
    """Why the stage is over; empty if an item is left that can be worked on."""
    items = here.items.values()
    if next_item(here) is not None:
        return ""
    done = sum(item.status == "done" for item in items)
    return f"Completed {done} of {len(items)} items" if items else "There are no items"


def verdict_of_items(here: StageAt) -> Verdict | None:
    """The verdict if items failed; None if all are done."""
    failed = [item.id for item in here.items.values() if item.status == "failed"]
    if not failed:
        return None
    blocked = [item.id for item in here.items.values() if item.status == "pending"]
    reason = f"failed items: {_named(failed)}"
    if blocked:
        reason += f"; not done, because they depend on these: {_named(blocked)}"
    return Verdict(FAIL, reason, items=tuple(failed))


def _named(ids: list[str]) -> str:
    more = f" and {len(ids) - MAX_NAMED} more" if len(ids) > MAX_NAMED else ""
    return f"{', '.join(ids[:MAX_NAMED])}{more}"
