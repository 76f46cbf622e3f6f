"""The rows of facts about the items of a stage."""

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.views.lines.row import Details, RunLine, message, quoted, row
from agentforge.views.text import counted, one_line


def _counts(fact: f.ItemsPlanned) -> Details:
    """What differs from the visit before."""
    return {
        "added": len(fact.added) or "",
        "changed": len(fact.changed) or "",
        "dropped": len(fact.dropped) or "",
        "reopened": len(fact.reopened) or "",
    }


def _planned(fact: f.ItemsPlanned, _: Event) -> RunLine:
    pending = sum(item.status == "pending" for item in fact.items)
    text = f"has {counted(len(fact.items), 'item') if fact.items else 'no items'}"
    if pending < len(fact.items):
        text += f", {pending:,} of them to do"
    changes = [f"{number:,} {what}" for what, number in _counts(fact).items() if number]
    # Of the first visit, all are added.
    if changes and len(fact.added) < len(fact.items):
        text += f" ({', '.join(changes)})"
    return RunLine(text)


def _ended(fact: f.ItemEnded, _: Event) -> RunLine | None:
    if fact.status == "done":
        return None  # The line of its iteration says it.
    reason = f": {message(fact.reason)}" if fact.reason else ""
    return RunLine(f"item {one_line(fact.item)} failed{reason}", "failed", "error")


ROWS = (
    row(
        f.ItemsPlanned,
        "visit",
        details=lambda x: {
            "items": len(x.items),
            "pending": sum(item.status == "pending" for item in x.items),
            **_counts(x),
            "repair": one_line(x.repair),
        },
        line=_planned,
    ),
    row(
        f.ItemEnded,
        "visit",
        details=lambda x: {"item": one_line(x.item), "status": x.status, "reason": quoted(x.reason)},
        line=_ended,
    ),
)
