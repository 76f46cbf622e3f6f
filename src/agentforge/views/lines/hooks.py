"""Text about hooks: what a run waits for, the deliveries of a run, and the rows of their facts."""

from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import Literal, assert_never

from msgspec import Struct

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.facts.hook import HookFact
from agentforge.model.hook import HookAction
from agentforge.views.deliveries import Delivery, HookTry
from agentforge.views.hook_calls import HookCallView
from agentforge.views.lines.row import MESSAGE_CHARS, Details, RunLine, message, quoted, row, utc, wait
from agentforge.views.text import one_line, reason_text, span

ID_CHARS = 100
QUIET = frozenset({"pause", "confirm"})
"""What these hooks ask is a request, which has a line of its own."""


def _kind(action: HookAction) -> str:
    return "function" if action == "call" else action


def hook_call_text(call: HookCallView, now: datetime, *, is_interrupted: bool = False) -> str:
    """`review (webhook at iteration_end of build), try 2, for 12s of 1m 00s`. `is_interrupted`: whether the
    run has no engine."""
    does = f"{_kind(call.action)} at {call.point}" if call.action else call.point
    who = f"{one_line(call.branch, ID_CHARS)}: " if call.branch else ""
    of = f" of {who}{one_line(call.stage, ID_CHARS)}" if call.stage else ""
    named = f"{one_line(call.hook, ID_CHARS)} ({does}{of})"
    match call.status:
        case "asking":
            return f"{named}, waiting for an answer"
        case "waiting":
            left = span((call.until - now).total_seconds()) if call.until else "a moment"
            why = f": {one_line(call.message, MESSAGE_CHARS)}" if call.message else ""
            return f"{named}, try {call.attempt} failed, next try in {left}{why}"
        case "running":
            again = f", try {call.attempt}" if call.attempt > 1 else ""
            if is_interrupted:
                return f"{named}{again}, no answer yet"
            most = f" of {span((call.until - call.since).total_seconds())}" if call.until else ""
            return f"{named}{again}, for {span((now - call.since).total_seconds())}{most}"
        case _:
            assert_never(call.status)


# -- deliveries

DeliveryMark = Literal["ok", "failed", "wait", "current", "note"]
MARKS: dict[str, DeliveryMark] = {
    "running": "current",
    "waiting": "wait",
    "completed": "ok",
    "failed": "failed",
    "timed_out": "failed",
    "lost": "failed",
    "skipped": "note",
}


class DeliveryRow(Struct, frozen=True):
    label: str
    value: str


class DeliveryText(Struct, frozen=True):
    mark: DeliveryMark
    title: str
    rows: tuple[DeliveryRow, ...]


def delivery_text(one: Delivery, run_status: str, zone: tzinfo) -> DeliveryText:
    where = f" ({place_text(one)})" if one.stage else ""
    title = f"{one_line(one.hook, ID_CHARS)}{where}: {_state(one, run_status, zone)}"
    is_left = one.status == "running" and run_status != "running"
    is_open = one.request is not None and one.decision is None
    mark: DeliveryMark = "wait" if is_left or is_open else MARKS[one.status]
    return DeliveryText(mark, title, tuple(_rows(one, zone)))


def place_text(one: Delivery) -> str:
    """`claude: build, visit 2, iteration 3`"""
    who = f"{one_line(one.branch, ID_CHARS)}: " if one.branch else ""
    visit = f", visit {one.visit}" if one.visit and one.visit > 1 else ""
    iteration = f", iteration {one.iteration}" if one.iteration else ""
    return f"{who}{one_line(one.stage, ID_CHARS)}{visit}{iteration}"


def _state(one: Delivery, run_status: str, zone: tzinfo) -> str:
    match one.status:
        case "completed" if one.action in QUIET:
            return one_line(one.decision or "waiting for an answer", ID_CHARS)
        case "completed":
            return f"{one.outcome} {one_line(one.answer)}".rstrip()
        case "skipped":
            what = f"{one.outcome}, ignored" if one.outcome else "skipped"
            return f"{what}: {one_line(one.skipped or '', MESSAGE_CHARS)}"
        case "waiting" if one.due_at is not None:
            return f"next try at {_time(one.due_at, zone)}"
        case "running" if run_status != "running":
            return f"no answer yet; the run is {run_status}"
        case status:
            return status.replace("_", " ")


def _rows(one: Delivery, zone: tzinfo) -> Iterator[DeliveryRow]:
    does = f"{_kind(one.action)} at {one.point}" if one.action else one.point
    yield DeliveryRow("Hook", does)
    if one.key and one.action not in QUIET:
        yield DeliveryRow("Key", one_line(one.key, ID_CHARS))
    for each in one.tries if one.action not in QUIET else ():
        yield DeliveryRow(f"Try {each.number}", _try(one.action, each, zone))
    if one.request:
        answer = (
            f"{one_line(one.decision, ID_CHARS)}, by {one_line(one.decided_by)}" if one.decision else "open"
        )
        yield DeliveryRow("Request", f"{one.request}: {answer}")
    said = {"Reason": one.reason, "Text": one.text, "Context": one.context}
    for label, text in said.items():
        if shown := one_line(text, MESSAGE_CHARS):
            yield DeliveryRow(label, shown)


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


# -- the rows of facts


def _call(fact: HookFact, **outcome: object) -> Details:
    named = {"hook": one_line(fact.hook), "point": fact.point, "attempt": fact.attempt}
    return {**named, **outcome, "delivery": one_line(fact.delivery)}


def _effect(fact: f.EffectIntended | f.EffectDone | f.EffectReconciled, **outcome: object) -> Details:
    return {"kind": fact.kind, "attempt": fact.attempt, "key": one_line(fact.key), **outcome}


def _status(status: int | None) -> object:
    return "" if status is None else status


def _named(fact: HookFact | f.HookSkipped) -> str:
    return f"hook {one_line(fact.hook)}"


def _started(fact: f.HookStarted, _: Event) -> RunLine | None:
    if fact.action in QUIET:
        return None
    again = f", try {fact.attempt}" if fact.attempt > 1 else ""
    return RunLine(f"calling {_named(fact)} ({_kind(fact.action)}{again})", "begin")


def _completed(fact: f.HookCompleted, _: Event) -> RunLine | None:
    hook, because = _named(fact), f": {message(fact.reason)}" if fact.reason.strip() else ""
    match fact.action:
        case "pause":
            return None
        case "continue" | "modify_context":
            added = f"; added to the context: {message(fact.context)}" if fact.context.strip() else ""
            text = f"{hook} answered in {span(fact.duration_ms / 1000)}{because}{added}"
        case "abort":
            text = f"{hook} asked to abort the run{because}"
        case "restart_stage":
            text = f"{hook} asked to restart the stage{because}"
        case "answer":
            text = f"{hook} answered the request: {message(fact.answer)}"
        case _:
            assert_never(fact.action)
    return RunLine(text, "done")


def _lost(fact: f.HookLost, _: Event) -> RunLine:
    what = f"no answer from {_named(fact)}" if fact.started else f"{_named(fact)} was not called"
    text = f"{what}: the engine or the call was stopped (try {fact.attempt})"
    return RunLine(text, "warning", "warn")


def _called_again(fact: f.HookRetryScheduled, event: Event) -> RunLine:
    when = f"in {wait(fact.due_at, event)}" if fact.due_at else "now"
    return RunLine(f"calling {_named(fact)} again {when}", "wait", "warn")


def _skipped(fact: f.HookSkipped, _: Event) -> RunLine:
    hook = _named(fact)
    what = f"the answer of {hook} was ignored" if fact.answered else f"{hook} was skipped"
    return RunLine(f"{what}: {message(fact.reason)}", "warning", "warn")


ROWS = (
    row(f.HookStarted, "call", details=lambda x: _call(x, action=x.action), line=_started),
    row(
        f.HookCompleted,
        "call",
        details=lambda x: _call(
            x,
            action=x.action,
            status=_status(x.status),
            answer=quoted(x.answer),
            reason=quoted(x.reason),
            context=quoted(x.context),
        ),
        line=_completed,
    ),
    row(
        f.HookFailed,
        "call",
        details=lambda x: _call(x, status=_status(x.status), message=quoted(x.message)),
        line=lambda x, _: RunLine(
            f"{_named(x)} failed (try {x.attempt}): {message(x.message)}", "failed", "error"
        ),
    ),
    row(
        f.HookTimedOut,
        "call",
        details=lambda x: _call(x, after=span(x.duration_ms / 1000)),
        line=lambda x, _: RunLine(
            f"{_named(x)} timed out after {span(x.duration_ms / 1000)} (try {x.attempt})", "failed", "error"
        ),
    ),
    row(f.HookLost, "call", details=lambda x: _call(x, started="true" if x.started else "false"), line=_lost),
    row(
        f.HookEnding,
        "call",
        details=lambda x: _call(x, reason=quoted(x.reason)),
        line=lambda x, _: RunLine(f"stopping {_named(x)}: {reason_text(x.reason)}", "wait", "warn"),
    ),
    row(
        f.HookRetryScheduled,
        "call",
        details=lambda x: _call(x, due=utc(x.due_at) if x.due_at else "now"),
        line=_called_again,
    ),
    row(
        f.HookSkipped,
        "call",
        details=lambda x: {"hook": one_line(x.hook), "point": x.point, "reason": quoted(x.reason)},
        line=_skipped,
    ),
    row(f.EffectIntended, "call", details=lambda x: _effect(x, target=quoted(x.target))),
    row(f.EffectDone, "call", details=lambda x: _effect(x, outcome=x.outcome)),
    row(f.EffectReconciled, "call", details=lambda x: _effect(x, found=x.found, then=x.then)),
)
