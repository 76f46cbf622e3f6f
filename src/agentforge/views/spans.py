"""What happened in a run as spans, in the shape of OpenTelemetry: one for the run, and for each visit,
iteration, attempt, check and call of a hook.

An id is derived from the trace and the place, so that the log records of a run have the ids of its spans, and
every look at it finds the same ones.
"""

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Literal

import msgspec
from msgspec import Struct

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.facts.check import CheckFact
from agentforge.model.facts.fact import TaskFact
from agentforge.model.facts.hook import HookFact
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.model.status import FINAL, RunStatus
from agentforge.views.hook_calls import Delivery
from agentforge.views.record import RunRecord
from agentforge.views.visits import StageVisit, VisitFact, verdict_mark
from agentforge.views.work import IterationWork

SpanType = Literal["run", "visit", "iteration", "attempt", "check", "hook"]
SpanStatus = Literal["unset", "ok", "error"]
ID_DIGITS = 16
_SpanPlace = tuple[str | int | None, ...]
_RUN: _SpanPlace = ("run",)
_CHECKED: Mapping[str, SpanStatus] = {"pass": "ok", **dict.fromkeys(("running", "lost", "void"), "unset")}
_OfIteration = f.AnyIterationFact | f.AnyJudgeFact | f.ItemEnded


class Span(Struct, frozen=True):
    trace_id: str
    span_id: str
    parent_span_id: str | None
    """None: of the run."""
    type: SpanType
    name: str
    start_time: datetime
    end_time: datetime | None
    """None: it is not over, or its end is not known."""
    status: SpanStatus = "unset"
    message: str = ""
    """Of an error."""
    attributes: dict[str, Any] = {}


def span_id(trace_id: str, *place: str | int | None) -> str:
    digest = hashlib.sha256(msgspec.json.encode((trace_id, *place)))
    return digest.hexdigest()[:ID_DIGITS]


def event_span_id(event: Event, plan: Plan | None) -> str:
    """The id of the span that the event belongs to."""
    return span_id(event.trace_id, *_place_of(event.fact, event.cursor, plan))


def _place_of(fact: f.Fact, at: Cursor | None, plan: Plan | None) -> _SpanPlace:
    if isinstance(fact, HookFact):
        return ("hook", fact.delivery)
    if isinstance(fact, f.EffectIntended | f.EffectDone | f.EffectReconciled):
        return ("hook", fact.key)
    if at is None or plan is None or plan.stage(at.node_path, at.provider) is None:
        return _RUN
    visit: _SpanPlace = (at.node_path, at.provider, at.node_run)
    if isinstance(fact, CheckFact):
        return ("check", *visit, at.iteration, fact.check, fact.attempt)
    if isinstance(fact, _OfIteration) and at.iteration:
        if isinstance(fact, TaskFact) and fact.KIND == "agent" and fact.attempt:
            return ("attempt", *visit, at.iteration, fact.attempt)
        return ("iteration", *visit, at.iteration)
    # Questions, hooks that are not called and errors of a preparation can come before the visit begins.
    return ("visit", *visit) if isinstance(fact, VisitFact) else _RUN


class _SpanPart(Struct, frozen=True):
    place: _SpanPlace
    """Its first element is the type of the span."""
    below: _SpanPlace
    name: str
    begins: datetime
    ends: datetime | None
    status: SpanStatus
    message: str
    attributes: dict[str, Any]

    def span(self, trace: str, parent: str | None) -> Span:
        kind: Any = self.place[0]
        id, name = span_id(trace, *self.place), f"{kind} {self.name}"
        attributes = {
            key if "." in key else f"agentforge.{key}": value
            for key, value in self.attributes.items()
            if value is not None
        }
        times = (self.begins, self.ends)
        return Span(trace, id, parent, kind, name, *times, self.status, self.message, attributes)


def spans_of(record: RunRecord) -> list[Span]:
    """In the order of their beginnings; a node is at its place in the present plan."""
    if record.model.state is None:
        return []
    trace, run = record.trace_id, _run(record.model.plan, record.model.state)
    calls = (_hook(one) for one in record.deliveries if one.key and one.tries)
    parts = [*chain.from_iterable(map(_visit, record.visits)), *_iterations(record), *calls]
    # A hook of a block is called there, and a damaged log may lack the beginning of a visit.
    known = {part.place for part in parts}
    found = (
        part.span(trace, span_id(trace, *(part.below if part.below in known else _RUN))) for part in parts
    )
    return [run.span(trace, None), *sorted(found, key=lambda span: span.start_time)]


def _run(plan: Plan | None, state: RunState) -> _SpanPart:
    has_failed = state.status in (RunStatus.FAILED, RunStatus.ABORTED)
    status: SpanStatus = "error" if has_failed else "ok" if state.status in FINAL else "unset"
    about = {"session": state.session, "pipeline": plan and plan.pipeline.name, "status": state.status}
    ends = None if status == "unset" else state.updated_at
    why = state.failure.message if state.failure else ""
    return _SpanPart(_RUN, _RUN, state.session, state.started_at, ends, status, why, about)


def _visit(visit: StageVisit) -> Iterator[_SpanPart]:
    place, about = _about(visit)
    failed = verdict_mark(visit.verdict, visit.accepted_by) == "failed"
    status: SpanStatus = "error" if failed else "ok" if visit.ended_at else "unset"
    also = {"verdict": visit.verdict or None, "cycle": visit.cycle or None, "to": visit.to}
    times = (visit.started_at, visit.ended_at)
    why = visit.reason if failed else ""
    yield _SpanPart(("visit", *place), _RUN, visit.stage, *times, status, why, about | also)
    for run in visit.checks:
        took, at = run.duration_seconds, ("check", *place, run.iteration, run.check, run.number)
        ends = None if took is None else run.started_at + timedelta(seconds=took)
        status = _CHECKED.get(run.status, "error")
        also = {"check": run.check, "outcome": run.status, "exit_code": run.exit_code}
        why = run.reason if status == "error" else ""
        yield _SpanPart(at, ("visit", *place), run.check, run.started_at, ends, status, why, about | also)


def _iterations(record: RunRecord) -> Iterator[_SpanPart]:
    for work in record.iterations:
        visit, about = _about(work)
        place, used, status = (*visit, work.iteration), work.spending, _status(work.status)
        about |= {"iteration": work.iteration, "item": work.item or None}
        tokens = {
            "gen_ai.usage.input_tokens": used.input_tokens or None,
            "gen_ai.usage.output_tokens": used.output_tokens or None,
        }
        times = (work.started_at, None if work.status == "running" else work.ended_at)
        why = work.attempts[-1].error if work.attempts and status == "error" else ""
        at = ("iteration", *place)
        yield _SpanPart(at, ("visit", *visit), work.stage, *times, status, why, about | tokens)
        for one in work.attempts:
            also = about | {"attempt": one.number, "provider": one.provider, "outcome": one.status}
            also["gen_ai.request.model"] = one.model or None
            times, how = (one.started_at, one.ended_at), _status(one.status)
            attempt = ("attempt", *place, one.number)
            yield _SpanPart(attempt, at, one.provider, *times, how, one.error, also)


def _hook(one: Delivery) -> _SpanPart:
    below = _RUN
    if one.path is not None and one.visit is not None:
        visit = (one.path, one.branch, one.visit)
        below = ("iteration", *visit, one.iteration) if one.iteration else ("visit", *visit)
    tries, last = {"tries": len(one.tries), "outcome": one.outcome}, one.tries[-1]
    about = {"hook": one.hook, "point": one.point, "stage": one.stage or None, **tries}
    times = (one.tries[0].started_at, None if one.status == "waiting" else last.ended_at)
    return _SpanPart(("hook", one.key), below, one.hook, *times, _status(one.status), last.message, about)


def _about(one: StageVisit | IterationWork) -> tuple[_SpanPlace, dict[str, Any]]:
    """The place of the visit, and its attributes."""
    named = {"stage": one.stage, "path": one.path, "branch": one.branch, "visit": one.visit}
    return (one.path, one.branch, one.visit), named


def _status(status: str) -> SpanStatus:
    """Of an iteration, an attempt or a hook."""
    if status in ("failed", "timed_out", "lost"):
        return "error"
    return "ok" if status == "completed" else "unset"
