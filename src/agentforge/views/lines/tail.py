"""One line of `tail`: `[HH:MM:SS] type details`, and the same event as JSON for programs."""

from datetime import datetime, tzinfo
from typing import Any

import msgspec
from msgspec import Struct

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.facts import AnyFact
from agentforge.model.plan import Plan
from agentforge.views.lines.checks import CheckEvent, check_details, waiver_details
from agentforge.views.lines.hooks import EffectEvent, HookEvent, effect_details, hook_details
from agentforge.views.lines.requests import RequestFact, request_details
from agentforge.views.text import one_line, reason_text

SUMMARY_CHARS = 80
MESSAGE_CHARS = 160


class EventLine(Struct, frozen=True):
    """The parts of a line, so that a terminal can colour them."""

    time: str
    type: str
    details: str

    @property
    def text(self) -> str:
        return f"[{self.time}] {self.type} {self.details}".rstrip()


class _EventJson(Struct):
    seq: int
    type: str
    timestamp: datetime
    session: str
    cursor: Cursor | None
    data: AnyFact
    trace_id: str


class _OutputData(Struct):
    attempt: int
    text: str


class _OutputJson(Struct):
    type: str
    session: str
    cursor: Cursor
    data: _OutputData


def event_line(event: Event, zone: tzinfo, plan: Plan | None = None) -> EventLine:
    """`plan`: to name nodes by their ids, not by their places."""
    pairs = _named([*_place(event), *_details(event.fact)], plan)
    return EventLine(
        time=f"{event.at.astimezone(zone):%H:%M:%S}",
        type=event.fact.TYPE,
        details=" ".join(f"{name}={value}" for name, value in pairs if value != ""),
    )


def event_json(event: Event) -> bytes:
    """The event with the log's keys; payloads stored beside the log are included."""
    return msgspec.json.encode(
        _EventJson(
            event.seq, event.fact.TYPE, event.at, event.session, event.cursor, event.fact, event.trace_id
        )
    )


def output_json(session: str, cursor: Cursor, attempt: int, text: str) -> bytes:
    """A line of an agent's output, in the shape of an event; it isn't part of the log."""
    return msgspec.json.encode(_OutputJson("output", session, cursor, _OutputData(attempt, text)))


def _named(pairs: list[tuple[str, Any]], plan: Plan | None) -> list[tuple[str, Any]]:
    return [(name, _id(value, plan) if name == "node" else value) for name, value in pairs]


def _id(path: str, plan: Plan | None) -> str:
    node = plan.by_path.get(path) if plan else None
    return one_line(node.id) if node else path


def _place(event: Event) -> list[tuple[str, Any]]:
    """The fields for the event's position, depending on its kind."""
    at = event.cursor
    if at is None:
        return []
    match event.fact:
        case f.NodeStarted():
            return [("node", at.node_path)]
        case f.NodeCompleted() | f.ProviderStarted() | f.ProviderCompleted() | f.StageCompleted():
            return [("node", at.node_path), ("visit", at.node_run)]
        case f.NodeRestarted() | f.RequestOpened():
            here = [("node", at.node_path), ("visit", at.node_run)]
            return [*here, ("branch", at.provider)] if at.provider else here
        case (
            f.IterationStarted()
            | f.IterationCompleted()
            | f.AttemptStarted()
            | f.AttemptReattached()
            | f.TreeTaken()
            | f.GitLeft()
            | f.AttemptLost()
            | f.AttemptEnding()
            | f.AttemptCancelled()
            | f.ErrorOccurred()
            | f.RetryScheduled()
            | f.StageRetried()
            | f.LimitMet()
            | f.ProviderChanged()
            | f.WorkerCompleted()
            | f.JudgeStarted()
            | f.JudgeCompleted()
            | f.JudgeEnding()
            | f.JudgeLost()
            | f.QueueChecked()
            | f.CheckStarted()
            | f.CheckPrepared()
            | f.CheckCompleted()
            | f.CheckEnding()
            | f.CheckLost()
            | f.StageVerdictReached()
            | f.StageTransitioned()
        ):
            here = [("node", at.node_path), ("visit", at.node_run), ("iter", at.iteration)]
            return [*here, ("branch", at.provider)] if at.provider else here
        case fact if isinstance(fact, HookEvent | EffectEvent):
            here = [("node", at.node_path), ("visit", at.node_run)]
            return [*here, ("iter", at.iteration or ""), ("branch", at.provider or "")]
        case _:
            return []


def _details(fact: AnyFact) -> list[tuple[str, Any]]:
    match fact:
        case f.NodeStarted():
            return [("kind", fact.kind or "stage")]
        case f.IterationStarted():
            return [("provider", fact.provider), ("model", fact.model)]
        case f.IterationCompleted():
            return [("decision", fact.decision.value), ("summary", _quoted(fact.result.summary))]
        case f.AttemptStarted() | f.AttemptReattached():
            return _of_attempt(fact)
        case f.TreeTaken() | f.GitLeft():
            return _of_files(fact)
        case f.AttemptLost() | f.AttemptEnding() | f.AttemptCancelled() | f.JudgeEnding():
            return [("attempt", fact.attempt), ("reason", _quoted(fact.reason))]
        case f.ErrorOccurred():
            exit_code = "" if fact.exit_code is None else fact.exit_code
            message = _quoted(fact.message, MESSAGE_CHARS)
            return [("type", fact.kind.value), ("exit_code", exit_code), ("message", message)]
        case f.RetryScheduled() | f.StageRetried() | f.LimitMet() | f.ProviderChanged():
            return _after_failure(fact)
        case f.TimerFired():
            return [("timer", fact.timer)]
        case f.JudgeStarted() | f.JudgeCompleted() | f.JudgeLost() | f.QueueChecked():
            return _of_termination(fact)
        case f.ProviderStarted() | f.ProviderCompleted() | f.StageCompleted() | f.WorkerCompleted():
            return _of_branch(fact)
        case _:
            return _of_others(fact)


def _of_others(fact: AnyFact) -> list[tuple[str, Any]]:
    if isinstance(fact, RequestFact):
        return request_details(fact)
    if isinstance(fact, HookEvent):
        return hook_details(fact)
    if isinstance(fact, CheckEvent):
        return check_details(fact)
    return effect_details(fact) if isinstance(fact, EffectEvent) else _of_session(fact)


def _of_attempt(fact: f.AttemptStarted | f.AttemptReattached) -> list[tuple[str, Any]]:
    if isinstance(fact, f.AttemptReattached):
        return [("attempt", fact.attempt), ("pid", fact.pid)]
    fallback = fact.provider if fact.choice else ""
    return [("attempt", fact.attempt), ("provider", fallback), ("agent_session", fact.resume or "")]


def _after_failure(
    fact: f.RetryScheduled | f.StageRetried | f.LimitMet | f.ProviderChanged,
) -> list[tuple[str, Any]]:
    match fact:
        case f.RetryScheduled():
            return [("try", f"{fact.attempt}/{fact.of}")]
        case f.StageRetried():
            why = _quoted(fact.message, MESSAGE_CHARS)
            return [("stage_try", f"{fact.number}/{fact.of}"), ("type", fact.kind.value), ("message", why)]
        case f.LimitMet():
            until = f"{fact.until:%Y-%m-%dT%H:%M:%SZ}"
            why = _quoted(fact.message, MESSAGE_CHARS)
            return [("provider", fact.provider), ("until", until), ("message", why)]
        case f.ProviderChanged():  # exhaustive
            why = _quoted(fact.message, MESSAGE_CHARS)
            return [("provider", fact.provider), ("to", fact.to), ("message", why)]


def _of_termination(
    fact: f.JudgeStarted | f.JudgeCompleted | f.JudgeLost | f.QueueChecked,
) -> list[tuple[str, Any]]:
    match fact:
        case f.JudgeStarted():
            return [("provider", fact.provider), ("model", fact.model), ("attempt", fact.attempt)]
        case f.JudgeCompleted(result=result):
            stop = "true" if result.stop else "false"
            error = _quoted(fact.error, MESSAGE_CHARS)
            return [
                ("status", fact.status),
                ("stop", stop),
                ("reason", _quoted(result.reason)),
                ("error", error),
            ]
        case f.JudgeLost():
            return [("attempt", fact.attempt)]
        case f.QueueChecked():  # exhaustive
            return [("remaining", fact.remaining)]


def _of_branch(
    fact: f.ProviderStarted | f.ProviderCompleted | f.StageCompleted | f.WorkerCompleted,
) -> list[tuple[str, Any]]:
    match fact:
        case f.ProviderStarted():
            return [("provider", fact.provider)]
        case f.ProviderCompleted():
            error = _quoted(fact.error or "", MESSAGE_CHARS)
            return [("provider", fact.provider), ("status", fact.status), ("error", error)]
        case f.StageCompleted():
            return [("reason", _reason(fact.reason))]
        case f.WorkerCompleted():  # exhaustive
            return [("exit_code", fact.exit_code)]


def _of_session(fact: AnyFact) -> list[tuple[str, Any]]:
    match fact:
        case f.NodeCompleted() | f.SessionCompleted() | f.SessionPaused() | f.SessionAborted():
            return [("reason", _reason(fact.reason))]
        case f.PauseRequested() | f.CancelRequested():
            return [("reason", _reason(fact.reason))]
        case f.SessionFailed():
            return [("type", fact.kind.value), ("message", _quoted(fact.message, MESSAGE_CHARS))]
        case f.SessionStarted(waivers=waived):
            return waiver_details(waived) if waived else []
        case f.SessionRecovered():
            return [("by", fact.by), ("pid", fact.pid)]
        case f.SessionResumed():
            return [("by", fact.by)]
        case f.AwaitingApproval() | f.SessionContinued():
            return [("requests", ",".join(fact.requests))]
        case f.PlanChanged():
            places = fact.plan.places
            names = [one_line(places[path].node.id) for path in fact.skipped if path in places]
            at = [("node", fact.at.path)] if fact.at else []
            return [*at, ("skipped", ",".join(names))] if names else at
        case f.TmuxSessionCleaned():
            return [("name", fact.name)]
        case _:
            return _of_log(fact)


def _of_files(fact: f.TreeTaken | f.GitLeft) -> list[tuple[str, Any]]:
    if isinstance(fact, f.TreeTaken):
        tree, problem = fact.tree or "", _quoted(fact.problem, MESSAGE_CHARS)
        return [("attempt", fact.attempt), ("when", fact.when), ("tree", tree), ("problem", problem)]
    left = "; ".join(item.text for item in fact.items)
    return [("left", _quoted(left, MESSAGE_CHARS)), ("omitted", fact.omitted or "")]


def _of_log(fact: AnyFact) -> list[tuple[str, Any]]:
    match fact:
        case f.LogImported():
            return [("lines", fact.lines), ("engine", fact.engine)]
        case f.LogRepaired():
            return [("bytes", fact.bytes)]
        case f.DamageAccepted():
            return [("lines", ",".join(str(line) for line in fact.lines))]
        case f.FileRefused():
            names = [("name", _quoted(fact.name)), ("moved_to", _quoted(fact.moved_to))]
            return [*names, ("reason", _quoted(fact.reason, MESSAGE_CHARS))]
        case _:
            return []


def _reason(text: str) -> str:
    return _quoted(reason_text(text))


def _quoted(text: str, limit: int = SUMMARY_CHARS) -> str:
    shown = one_line(text, limit)
    return f'"{shown}"' if shown else ""
