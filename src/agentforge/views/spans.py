"""What happened in a run as spans, in the shape of OpenTelemetry: one for the run, and for each visit,
iteration, attempt, check and call of a hook.

An id is derived from the trace and the place, so that the log records of a run have the ids of its spans, and
every look at it finds the same ones.
"""

import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.facts.check import CheckFact
from agentforge.model.facts.fact import TaskFact
from agentforge.model.facts.hook import HookFact
from agentforge.model.plan import Plan
from agentforge.model.status import FINAL, RunStatus
from agentforge.views.hook_calls import Delivery
from agentforge.views.record import RunRecord
from agentforge.views.visits import CheckRun, StageVisit, VisitFact, verdict_mark
from agentforge.views.work import AttemptWork, IterationWork

SpanType = Literal["run", "visit", "iteration", "attempt", "check", "hook"]
SpanStatus = Literal["unset", "ok", "error"]
ID_DIGITS = 16
_SpanPlace = tuple[str | int | None, ...]
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
    match fact:
        case HookFact(delivery=key):
            return ("hook", key)
        case f.EffectIntended(key=key) | f.EffectDone(key=key) | f.EffectReconciled(key=key):
            return ("hook", key)
    if at is None or plan is None or plan.stage(at.node_path, at.provider) is None:
        return ("run",)
    visit: _SpanPlace = (at.node_path, at.provider, at.node_run)
    if isinstance(fact, CheckFact):
        return ("check", *visit, at.iteration, fact.check, fact.attempt)
    if isinstance(fact, _OfIteration) and at.iteration:
        if isinstance(fact, TaskFact) and fact.KIND == "agent" and fact.attempt:
            return ("attempt", *visit, at.iteration, fact.attempt)
        return ("iteration", *visit, at.iteration)
    # Questions, hooks that are not called and errors of a preparation can come before the visit begins.
    return ("visit", *visit) if isinstance(fact, VisitFact) else ("run",)


def spans_of(record: RunRecord) -> list[Span]:
    """In the order of their beginnings; a node is at its place in the present plan."""
    if record.model.state is None:
        return []
    trace = record.trace_id
    found = [_run(record, trace)]
    for visit in record.visits:
        found += _visit(visit, trace)
    for work in record.iterations:
        found += _iteration(work, trace)
    found += (_hook(one, trace) for one in record.deliveries if one.key and one.tries)
    # A hook of a block is called there, and a damaged log may lack the beginning of a visit.
    known, run = {span.span_id for span in found}, found[0].span_id
    placed = (
        span if span.parent_span_id in known else replace(span, parent_span_id=run) for span in found[1:]
    )
    return [found[0], *sorted(placed, key=lambda span: span.start_time)]


def _run(record: RunRecord, trace: str) -> Span:
    state = record.model.state
    assert state is not None
    is_over, has_failed = state.status in FINAL, state.status in (RunStatus.FAILED, RunStatus.ABORTED)
    status: SpanStatus = "error" if has_failed else "ok" if is_over else "unset"
    plan = record.model.plan
    return Span(
        trace,
        span_id(trace, "run"),
        None,
        "run",
        f"run {state.session}",
        state.started_at,
        state.updated_at if is_over or has_failed else None,
        status,
        state.failure.message if state.failure else "",
        _known(session=state.session, pipeline=plan.pipeline.name if plan else None, status=state.status),
    )


def _visit(visit: StageVisit, trace: str) -> Iterator[Span]:
    place = (visit.path, visit.branch, visit.visit)
    id, failed = span_id(trace, "visit", *place), verdict_mark(visit.verdict, visit.accepted_by) == "failed"
    status: SpanStatus = "error" if failed else "ok" if visit.ended_at else "unset"
    at = _known(stage=visit.stage, path=visit.path, branch=visit.branch, visit=visit.visit)
    also = _known(verdict=visit.verdict or None, cycle=visit.cycle or None, to=visit.to)
    yield Span(
        trace,
        id,
        span_id(trace, "run"),
        "visit",
        f"visit {visit.stage}",
        visit.started_at,
        visit.ended_at,
        status,
        visit.reason if failed else "",
        at | also,
    )
    for run in visit.checks:
        yield _check(run, trace, id, place, at)


def _check(run: CheckRun, trace: str, parent: str, visit: _SpanPlace, at: dict[str, Any]) -> Span:
    took = run.duration_seconds
    status: SpanStatus = "ok" if run.status == "pass" else "error"
    return Span(
        trace,
        span_id(trace, "check", *visit, run.iteration, run.check, run.number),
        parent,
        "check",
        f"check {run.check}",
        run.started_at,
        None if took is None else run.started_at + timedelta(seconds=took),
        "unset" if run.status in ("running", "lost", "void") else status,
        run.reason if status == "error" else "",
        at | _known(check=run.check, outcome=run.status, exit_code=run.exit_code),
    )


def _iteration(work: IterationWork, trace: str) -> Iterator[Span]:
    place = (work.path, work.branch, work.visit)
    id = span_id(trace, "iteration", *place, work.iteration)
    at = _known(stage=work.stage, path=work.path, branch=work.branch, visit=work.visit) | _known(
        iteration=work.iteration, item=work.item or None
    )
    used = work.spending
    tokens = {
        f"gen_ai.usage.{name}": count
        for name, count in (("input_tokens", used.input_tokens), ("output_tokens", used.output_tokens))
        if count
    }
    last = work.attempts[-1].error if work.attempts else ""
    ends = None if work.status == "running" else work.ended_at
    name = f"iteration {work.stage}"
    parent, how = span_id(trace, "visit", *place), _status(work.status)
    yield Span(
        trace,
        id,
        parent,
        "iteration",
        name,
        work.started_at,
        ends,
        how,
        last if how == "error" else "",
        at | tokens,
    )
    for attempt in work.attempts:
        yield _attempt(attempt, trace, id, (*place, work.iteration), at)


def _attempt(attempt: AttemptWork, trace: str, parent: str, place: _SpanPlace, at: dict[str, Any]) -> Span:
    model = {"gen_ai.request.model": attempt.model} if attempt.model else {}
    return Span(
        trace,
        span_id(trace, "attempt", *place, attempt.number),
        parent,
        "attempt",
        f"attempt {attempt.provider}",
        attempt.started_at,
        attempt.ended_at,
        _status(attempt.status),
        attempt.error,
        at | _known(attempt=attempt.number, provider=attempt.provider, outcome=attempt.status) | model,
    )


def _hook(one: Delivery, trace: str) -> Span:
    place: _SpanPlace = ("run",)
    if one.path is not None and one.visit is not None:
        visit = (one.path, one.branch, one.visit)
        place = ("iteration", *visit, one.iteration) if one.iteration else ("visit", *visit)
    last, status = one.tries[-1], _status(one.status)
    return Span(
        trace,
        span_id(trace, "hook", one.key),
        span_id(trace, *place),
        "hook",
        f"hook {one.hook}",
        one.tries[0].started_at,
        None if one.status == "waiting" else last.ended_at,
        status,
        last.message,
        _known(
            hook=one.hook, point=one.point, stage=one.stage or None, tries=len(one.tries), outcome=one.outcome
        ),
    )


def _status(status: str) -> SpanStatus:
    """Of an iteration, an attempt or a hook."""
    if status in ("failed", "timed_out", "lost"):
        return "error"
    return "ok" if status == "completed" else "unset"


def _known(**attributes: Any) -> dict[str, Any]:
    return {f"agentforge.{name}": value for name, value in attributes.items() if value is not None}
