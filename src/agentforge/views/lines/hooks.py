"""Text about hooks: their events in `tail` and on a terminal, and the deliveries of a run."""

from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import Any, Literal, assert_never

from msgspec import Struct

from agentforge.model import facts as f
from agentforge.model.hook import HookAction
from agentforge.views.deliveries import Delivery, HookTry
from agentforge.views.hook_calls import HookCallView
from agentforge.views.text import one_line, reason_text, span

TEXT_CHARS = 160
MESSAGE_CHARS = 400
ID_CHARS = 100
QUIET = frozenset({"pause", "confirm"})
"""What these hooks ask is a request, which has a line of its own."""

EffectEvent = f.EffectIntended | f.EffectDone | f.EffectReconciled
HookEvent = (
    f.HookStarted
    | f.HookCompleted
    | f.HookFailed
    | f.HookTimedOut
    | f.HookLost
    | f.HookEnding
    | f.HookRetryScheduled
    | f.HookSkipped
)


def hook_details(fact: HookEvent) -> list[tuple[str, Any]]:
    """The fields of a line of `tail`; those that are empty are left out."""
    named = [("hook", one_line(fact.hook)), ("point", fact.point)]
    if isinstance(fact, f.HookSkipped):
        return [*named, ("reason", _quoted(fact.reason))]
    return [*named, ("attempt", fact.attempt), *_outcome(fact), ("delivery", one_line(fact.delivery))]


def _outcome(
    fact: f.HookStarted
    | f.HookCompleted
    | f.HookFailed
    | f.HookTimedOut
    | f.HookLost
    | f.HookEnding
    | f.HookRetryScheduled,
) -> list[tuple[str, Any]]:
    match fact:
        case f.HookStarted():
            return [("action", fact.action)]
        case f.HookCompleted():
            said = [("answer", _quoted(fact.answer)), ("reason", _quoted(fact.reason))]
            status = "" if fact.status is None else fact.status
            return [("action", fact.action), ("status", status), *said, ("context", _quoted(fact.context))]
        case f.HookFailed():
            status = "" if fact.status is None else fact.status
            return [("status", status), ("message", _quoted(fact.message))]
        case f.HookTimedOut():
            return [("after", span(fact.duration_ms / 1000))]
        case f.HookLost():
            return [("started", "true" if fact.started else "false")]
        case f.HookEnding():
            return [("reason", _quoted(fact.reason))]
        case f.HookRetryScheduled():
            return [("due", f"{fact.due_at:%Y-%m-%dT%H:%M:%SZ}" if fact.due_at else "now")]
        case _:
            assert_never(fact)


def effect_details(fact: EffectEvent) -> list[tuple[str, Any]]:
    named = [("kind", fact.kind), ("attempt", fact.attempt), ("key", one_line(fact.key))]
    match fact:
        case f.EffectIntended():
            return [*named, ("target", _quoted(fact.target))]
        case f.EffectDone():
            return [*named, ("outcome", fact.outcome)]
        case f.EffectReconciled():
            return [*named, ("found", fact.found), ("then", fact.then)]
        case _:
            assert_never(fact)


def hook_words(fact: HookEvent, at: datetime) -> str:
    """What happened at that time, as text; empty if people needn't see it."""
    hook = f"hook {one_line(fact.hook)}"
    match fact:
        case f.HookStarted():
            again = f", try {fact.attempt}" if fact.attempt > 1 else ""
            return "" if fact.action in QUIET else f"calling {hook} ({_kind(fact.action)}{again})"
        case f.HookCompleted():
            return _completed(hook, fact)
        case f.HookFailed():
            return f"{hook} failed (try {fact.attempt}): {_text(fact.message)}"
        case f.HookTimedOut():
            return f"{hook} timed out after {span(fact.duration_ms / 1000)} (try {fact.attempt})"
        case f.HookLost():
            what = f"no answer from {hook}" if fact.started else f"{hook} was not called"
            return f"{what}: the engine or the call was stopped (try {fact.attempt})"
        case f.HookEnding():
            return f"stopping {hook}: {reason_text(fact.reason)}"
        case f.HookRetryScheduled():
            wait = f"in {span((fact.due_at - at).total_seconds())}" if fact.due_at else "now"
            return f"calling {hook} again {wait}"
        case f.HookSkipped():
            what = f"the answer of {hook} was ignored" if fact.answered else f"{hook} was skipped"
            return f"{what}: {_text(fact.reason)}"
        case _:
            assert_never(fact)


def _completed(hook: str, fact: f.HookCompleted) -> str:
    after = span(fact.duration_ms / 1000)
    because = f": {_text(fact.reason)}" if fact.reason.strip() else ""
    match fact.action:
        case "pause":
            return ""
        case "continue":
            return f"{hook} answered in {after}{because}{_added(fact)}"
        case "modify_context":
            return f"{hook} answered in {after}{because}{_added(fact)}"
        case "abort":
            return f"{hook} asked to abort the run{because}"
        case "restart_stage":
            return f"{hook} asked to restart the stage{because}"
        case "answer":
            return f"{hook} answered the request: {_text(fact.answer)}"
        case _:
            assert_never(fact.action)


def _added(fact: f.HookCompleted) -> str:
    return f"; added to the context: {_text(fact.context)}" if fact.context.strip() else ""


def _kind(action: HookAction) -> str:
    return "function" if action == "call" else action


def _text(text: str) -> str:
    return one_line(text, MESSAGE_CHARS)


def _quoted(text: str) -> str:
    shown = one_line(text, TEXT_CHARS)
    return f'"{shown}"' if shown else ""


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
    mark: DeliveryMark = "wait" if is_left or _is_open(one) else MARKS[one.status]
    return DeliveryText(mark, title, tuple(_rows(one, zone)))


def place_text(one: Delivery) -> str:
    """`claude: build, visit 2, iteration 3`"""
    who = f"{one_line(one.branch, ID_CHARS)}: " if one.branch else ""
    visit = f", visit {one.visit}" if one.visit and one.visit > 1 else ""
    iteration = f", iteration {one.iteration}" if one.iteration else ""
    return f"{who}{one_line(one.stage, ID_CHARS)}{visit}{iteration}"


def _is_open(one: Delivery) -> bool:
    return one.request is not None and one.decision is None


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
