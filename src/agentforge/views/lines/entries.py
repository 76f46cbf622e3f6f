"""What the views of `show` list, as text: entries with a mark, a title and rows."""

from collections.abc import Iterator, Mapping
from datetime import datetime, tzinfo

from msgspec import Struct

from agentforge.model.hook import HookAction
from agentforge.views.hook_calls import Delivery, DeliveryStatus, HookTry
from agentforge.views.lines.checks import (
    CHECK_ENDS,
    no_tree_text,
    outcome_words,
    skipped_text,
    tree_text,
    waived_text,
)
from agentforge.views.lines.hooks import ID_CHARS, QUIET, kind_text
from agentforge.views.lines.row import MESSAGE_CHARS
from agentforge.views.text import counted, one_line, reason_text, span
from agentforge.views.visits import CheckRun, CheckRunStatus, StageCheck, StageVisit, verdict_mark

TEXT_CHARS = 400
MAX_SHOWN_PATHS = 5

CHECK_MARKS: Mapping[CheckRunStatus, str] = {
    "running": "current",
    "lost": "warning",
    "void": "warning",
    "pass": "done",
    "fail": "failed",
    "error": "failed",
    "timeout": "failed",
}
RUN_ENDS: Mapping[str, str] = {
    "running": "is running",
    "lost": "was lost",
    "void": "was discarded because files changed",
    **CHECK_ENDS,
}
DELIVERY_MARKS: dict[DeliveryStatus, str] = {
    "running": "current",
    "waiting": "wait",
    "completed": "ok",
    "failed": "failed",
    "timed_out": "failed",
    "lost": "failed",
    "skipped": "note",
}


class EntryRow(Struct, frozen=True):
    """One property; `lines` follow below it."""

    label: str
    value: str
    lines: tuple[str, ...] = ()


class RunEntry(Struct, frozen=True):
    mark: str
    title: str
    rows: tuple[EntryRow, ...] = ()


class Shown(Struct, frozen=True):
    """What the text of an entry depends on beside the entry itself."""

    run_dir: str
    status: str
    """Of the run."""
    zone: tzinfo
    details: bool = False


def check_entry(run: StageCheck, shown: Shown) -> RunEntry:
    """One run of a check; with details also what failed."""
    iteration = f", iteration {run.iteration}" if run.iteration else ""
    title = f"{_visit_place(run)}{iteration}: {check_outcome(run)}"
    return RunEntry(CHECK_MARKS[run.status], title, tuple(_check_rows(run, shown)))


def check_outcome(run: CheckRun) -> str:
    """`test failed in 1.5s: 1 failed, 1 passed`"""
    reason, took = one_line(run.reason, TEXT_CHARS), run.duration_seconds
    how = outcome_words(run.status, RUN_ENDS[run.status], took, run.counts, reason, before=run.before)
    name = f"{'baseline of ' if run.baseline else ''}{one_line(run.check)}"
    return f"{name} {how}{no_tree_text(run.tree_problem)}"


def _check_rows(run: CheckRun, shown: Shown) -> Iterator[EntryRow]:
    if run.unusable:
        yield EntryRow("Not used", one_line(f"before the first agent, {run.unusable}", TEXT_CHARS))
    if run.tree:
        yield EntryRow("Tree", tree_text(run.tree))
    if run.changed:
        more = f" and {len(run.changed) - MAX_SHOWN_PATHS} more" * (len(run.changed) > MAX_SHOWN_PATHS)
        yield EntryRow("Changed", ", ".join(map(one_line, run.changed[:MAX_SHOWN_PATHS])) + more)
    if run.output:
        yield EntryRow("Output", one_line(f"{shown.run_dir}/{run.output}"))
    if shown.details:
        yield from (EntryRow("Failure", one_line(each, TEXT_CHARS)) for each in run.signatures)
        if run.failures > len(run.signatures):
            yield EntryRow("Failure", f"{counted(run.failures, 'failure')} in all: see the output")


def visit_entry(visit: StageVisit, shown: Shown) -> RunEntry:
    """One visit; with details also its verdict's reason, checks and route."""
    mark: str
    if visit.skipped_by:
        what, mark = skipped_text(visit.skipped_by), "warning"
    elif visit.verdict:
        tree = f" on tree {tree_text(visit.tree)}" if visit.tree else ""
        accepted = f", accepted by {one_line(visit.accepted_by)}" if visit.accepted_by else ""
        what, mark = (
            f"{one_line(visit.verdict)}{tree}{accepted}{waived_text(visit.waived)}",
            verdict_mark(visit.verdict, visit.accepted_by),
        )
    elif visit.ended_at:
        what, mark = counted(visit.iterations, "iteration"), "done"
    else:
        what, mark = "not finished", "current"
    rows = tuple(_visit_rows(visit)) if shown.details else ()
    return RunEntry(mark, f"{_visit_place(visit)}: {what}", rows)


def _visit_rows(visit: StageVisit) -> Iterator[EntryRow]:
    yield from (EntryRow("Check", check_outcome(run)) for run in visit.checks)
    if visit.reason:
        yield EntryRow("Reason", one_line(visit.reason, TEXT_CHARS))
    if visit.accept_reason:
        yield EntryRow("Accepted", one_line(visit.accept_reason, TEXT_CHARS))
    if visit.to is not None:
        skipped = f", skipping {', '.join(map(one_line, visit.skipped))}" if visit.skipped else ""
        onward = f"{f'on to {one_line(visit.to)}' if visit.to else 'to the end'}{skipped}"
        back = f"back to {one_line(visit.to)}, cycle {visit.cycle} of {visit.of}"
        yield EntryRow("Route", back if visit.cycle else onward)
    if visit.ended:
        yield EntryRow("Ended", reason_text(visit.ended))


def _visit_place(visit: StageVisit | StageCheck) -> str:
    branch = f" ({one_line(visit.branch)})" if visit.branch else ""
    return f"{one_line(visit.stage)}{branch}, visit {visit.visit}"


def delivery_entry(one: Delivery, shown: Shown) -> RunEntry:
    where = f" ({_call_place(one)})" if one.stage else ""
    title = f"{one_line(one.hook, ID_CHARS)}{where}: {_state(one, shown)}"
    is_left = one.status == "running" and shown.status != "running"
    is_open = one.request is not None and one.decision is None
    mark = "wait" if is_left or is_open else DELIVERY_MARKS[one.status]
    return RunEntry(mark, title, tuple(_delivery_rows(one, shown.zone)))


def _call_place(one: Delivery) -> str:
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


def _delivery_rows(one: Delivery, zone: tzinfo) -> Iterator[EntryRow]:
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
