"""The entries of `show --hooks`: the calls of hooks, with their tries and answers."""

from collections.abc import Iterator
from datetime import datetime, tzinfo

from agentforge.model.hook import HookAction
from agentforge.views.deliveries import Delivery, DeliveryStatus, HookTry
from agentforge.views.lines.entry import EntryRow, RunEntry, Shown
from agentforge.views.lines.hooks import ID_CHARS, QUIET, kind_text
from agentforge.views.lines.row import MESSAGE_CHARS
from agentforge.views.text import one_line, span

MARKS: dict[DeliveryStatus, str] = {
    "running": "current",
    "waiting": "wait",
    "completed": "ok",
    "failed": "failed",
    "timed_out": "failed",
    "lost": "failed",
    "skipped": "note",
}


def delivery_entry(one: Delivery, shown: Shown) -> RunEntry:
    where = f" ({_place(one)})" if one.stage else ""
    title = f"{one_line(one.hook, ID_CHARS)}{where}: {_state(one, shown)}"
    is_left = one.status == "running" and shown.status != "running"
    is_open = one.request is not None and one.decision is None
    mark = "wait" if is_left or is_open else MARKS[one.status]
    return RunEntry(mark, title, tuple(_rows(one, shown.zone)))


def _place(one: Delivery) -> str:
    """`claude: build, visit 2, iteration 3`"""
    who = f"{one_line(one.branch, ID_CHARS)}: " if one.branch else ""
    visit = f", visit {one.visit}" if one.visit and one.visit > 1 else ""
    iteration = f", iteration {one.iteration}" if one.iteration else ""
    return f"{who}{one_line(one.stage, ID_CHARS)}{visit}{iteration}"


def _state(one: Delivery, shown: Shown) -> str:
    match one.status:
        case "completed" if one.action in QUIET:
            return one_line(one.decision or "waiting for an answer", ID_CHARS)
        case "completed":
            return f"{one.outcome} {one_line(one.answer)}".rstrip()
        case "skipped":
            what = f"{one.outcome}, ignored" if one.outcome else "skipped"
            return f"{what}: {one_line(one.skipped or '', MESSAGE_CHARS)}"
        case "waiting" if one.due_at is not None:
            return f"next try at {_time(one.due_at, shown.zone)}"
        case "running" if shown.status != "running":
            return f"no answer yet; the run is {shown.status}"
        case status:
            return status.replace("_", " ")


def _rows(one: Delivery, zone: tzinfo) -> Iterator[EntryRow]:
    does = f"{kind_text(one.action)} at {one.point}" if one.action else one.point
    yield EntryRow("Hook", does)
    if one.key and one.action not in QUIET:
        yield EntryRow("Key", one_line(one.key, ID_CHARS))
    for each in one.tries if one.action not in QUIET else ():
        yield EntryRow(f"Try {each.number}", _try(one.action, each, zone))
    if one.request:
        answer = (
            f"{one_line(one.decision, ID_CHARS)}, by {one_line(one.decided_by)}" if one.decision else "open"
        )
        yield EntryRow("Request", f"{one.request}: {answer}")
    said = {"Reason": one.reason, "Text": one.text, "Context": one.context}
    for label, text in said.items():
        if shown := one_line(text, MESSAGE_CHARS):
            yield EntryRow(label, shown)


def _try(action: HookAction | None, one: HookTry, zone: tzinfo) -> str:
    after = f" after {span(one.duration_seconds)}" if one.duration_seconds is not None else ""
    # The message of a failed try has its status.
    has_status = one.returned is not None and one.status == "completed"
    returned = f" ({'HTTP' if action == 'webhook' else 'exit status'} {one.returned})" if has_status else ""
    why = f": {one_line(one.message, MESSAGE_CHARS)}" if one.message else ""
    how = "answered" if one.status == "completed" else one.status.replace("_", " ")
    return f"{_time(one.started_at, zone)}, {how}{after}{returned}{why}"


def _time(at: datetime, zone: tzinfo) -> str:
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S}"
