"""Text about hooks: what a run waits for, and the rows of their facts."""

from datetime import datetime
from typing import assert_never

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.facts.hook import HookFact
from agentforge.model.hook import HookAction
from agentforge.views.hook_calls import HookCallView
from agentforge.views.lines.row import MESSAGE_CHARS, Details, RunLine, message, quoted, row, utc, wait
from agentforge.views.text import one_line, reason_text, span

ID_CHARS = 100
QUIET = frozenset({"pause", "confirm"})
"""What these hooks ask is a request, which has a line of its own."""


def kind_text(action: HookAction) -> str:
    return "function" if action == "call" else action


def hook_call_text(call: HookCallView, now: datetime, *, is_interrupted: bool = False) -> str:
    """`review (webhook at iteration_end of build), try 2, for 12s of 1m 00s`. `is_interrupted`: whether the
    run has no engine."""
    does = f"{kind_text(call.action)} at {call.point}" if call.action else call.point
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
    return RunLine(f"calling {_named(fact)} ({kind_text(fact.action)}{again})", "begin")


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
