"""What happened in a run as spans, in the shape of OpenTelemetry: one for the run, and for each visit,
iteration, attempt, check and call of a hook.

An id is derived from the trace and the place, so that the log records of a run have the ids of its spans, and
every look at it finds the same ones. A span contains those below it: calls of hooks that follow an iteration
are part of it.
"""

import hashlib
from bisect import bisect
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.nodes import node_key
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
_INNERMOST_FIRST = ("attempt", "check", "hook", "iteration", "visit", "run")
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
    """None: it is not over."""
    status: SpanStatus = "unset"
    message: str = ""
    """Of an error."""
    attributes: dict[str, Any] = {}
    links: tuple[str, ...] = ()
    """Of the first one after the run was continued: the one that began last before, in its branch."""
    is_settled: bool = False
    """Whether it stays as it is, unless a run that has failed is continued."""


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
    visit = _visit_at(at, plan)
    if isinstance(fact, CheckFact):
        return ("check", *visit, at.iteration, fact.check, fact.attempt)
    if isinstance(fact, _OfIteration) and at.iteration:
        if isinstance(fact, TaskFact) and fact.KIND == "agent" and fact.attempt:
            return ("attempt", *visit, at.iteration, fact.attempt)
        return ("iteration", *visit, at.iteration)
    # Questions, hooks that are not called and errors of a preparation can come before the visit begins.
    return ("visit", *visit) if isinstance(fact, VisitFact) else _RUN


def _visit_at(at: Cursor, plan: Plan | None) -> _SpanPlace:
    # By its key, a node is found in every plan of the run.
    return (node_key(plan, at.node_path) if plan else at.node_path, at.provider, at.node_run)


def place_id(record: RunRecord, kind: Literal["visit", "iteration"], at: Cursor) -> str:
    """The id of the span of a visit or an iteration."""
    visit = _visit_at(at, record.model.plan)
    place = (*visit, at.iteration) if kind == "iteration" else visit
    return span_id(record.trace_id, kind, *place)


class _SpanPart(Struct, frozen=True):
    place: _SpanPlace
    """Its first element is the type of the span."""
    below: _SpanPlace
    name: str
    begins: datetime
    ends: datetime | None
    """By itself."""
    status: SpanStatus
    message: str
    attributes: dict[str, Any]
    is_final: bool = False
    """Whether nothing more becomes of it once it has ended."""


_Parts = dict[_SpanPlace, _SpanPart]
_Times = tuple[datetime, datetime | None]


def spans_of(record: RunRecord) -> list[Span]:
    """In the order of their beginnings."""
    plan, state = record.model.plan, record.model.state
    if state is None:
        return []
    found = [_run(plan, state), *(part for at, one in record.placed() for part in _parts(at, one, plan))]
    known = {part.place for part in found}
    parts = {part.place: part if part.below in known else _raised(part, known) for part in found}
    times = _times(parts, state.completed_at)
    settled = parts.keys() if state.completed_at else _settled(parts, times)
    run, *others = (
        _span(record.trace_id, state.session, part, times[place], place in settled)
        for place, part in parts.items()
    )
    return [run, *_linked(sorted(others, key=lambda span: span.start_time), record.resumed_at)]


def _parts(
    at: Cursor | None, one: StageVisit | IterationWork | Delivery, plan: Plan | None
) -> Iterator[_SpanPart]:
    place = _visit_at(at, plan) if at else ()
    match one:
        case StageVisit():
            yield from _visit(one, place)
        case IterationWork():
            yield from _iteration(one, place)
        case Delivery(key=key, tries=tries) if key and tries:
            yield _hook(one, key, place)


def _raised(part: _SpanPart, known: Collection[_SpanPlace]) -> _SpanPart:
    """Of a hook that is called before its iteration begins, or for a block. A damaged log may lack the
    beginning of a visit."""
    visit = ("visit", *part.below[1:4])
    return replace(part, below=visit if visit in known else _RUN, is_final=False)


def _times(parts: _Parts, over: datetime | None) -> dict[_SpanPlace, _Times]:
    """When each begins and ends, with what is below it. What a run leaves unfinished ends with it."""
    found: dict[_SpanPlace, _Times] = {}
    inner: dict[_SpanPlace, list[_Times]] = {}
    for place, part in sorted(parts.items(), key=lambda entry: _INNERMOST_FIRST.index(str(entry[0][0]))):
        times = [(part.begins, part.ends or over), *inner.get(place, ())]
        begins, ends = min(begin for begin, _ in times), [end for _, end in times if end]
        found[place] = (begins, max(begins, *ends) if len(ends) == len(times) else None)
        inner.setdefault(part.below, []).append(found[place])
    return found


def _settled(parts: _Parts, times: Mapping[_SpanPlace, _Times]) -> set[_SpanPlace]:
    """Those of a run that isn't over. A judge and hooks follow the agent of an iteration: it stays as it is
    when the run is at another one, in the same branch or outside of any."""
    found = {place for place, part in parts.items() if part.is_final and part.ends}
    for kind in ("visit", "iteration", "hook"):
        later: set[Any] = set()
        for place, part in reversed(parts.items()):
            if place[0] != kind:
                continue
            branch = part.attributes["branch"]
            is_left = kind != "hook" and (
                bool(later) if branch is None else not later.isdisjoint((branch, None))
            )
            if times[place][1] and (is_left or part.below in found):
                found.add(place)
            later.add(branch)
    return found


def _linked(spans: Sequence[Span], resumed_at: Sequence[datetime]) -> Iterator[Span]:
    last: dict[str | None, Span] = {}
    for one in spans:
        branch = one.attributes.get("agentforge.branch")
        before, last[branch] = last.get(branch), one
        is_first = before and bisect(resumed_at, before.start_time) < bisect(resumed_at, one.start_time)
        yield replace(one, links=(before.span_id,)) if before and is_first else one


def _span(trace: str, session: str, part: _SpanPart, times: _Times, is_settled: bool) -> Span:
    kind: Any = part.place[0]
    attributes = {
        key if "." in key else f"agentforge.{key}": value
        for key, value in {"session": session, **part.attributes}.items()
        if value is not None
    }
    return Span(
        trace,
        span_id(trace, *part.place),
        span_id(trace, *part.below) if part.place != _RUN else None,
        kind,
        f"{kind} {part.name}",
        *times,
        part.status,
        part.message,
        attributes,
        is_settled=is_settled,
    )


def _run(plan: Plan | None, state: RunState) -> _SpanPart:
    has_failed = state.status in (RunStatus.FAILED, RunStatus.ABORTED)
    status: SpanStatus = "error" if has_failed else "ok" if state.status in FINAL else "unset"
    spent = state.spending
    about = {
        "pipeline": plan and plan.pipeline.name,
        "status": state.status,
        "total_input_tokens": spent.input_tokens or None,
        "total_output_tokens": spent.output_tokens or None,
        "total_cost_usd": spent.cost_usd or None,
    }
    why = state.failure.message if state.failure else ""
    return _SpanPart(_RUN, (), state.session, state.started_at, state.completed_at, status, why, about)


def _visit(visit: StageVisit, place: _SpanPlace) -> Iterator[_SpanPart]:
    about = _about(visit, place)
    failed = verdict_mark(visit.verdict, visit.accepted_by) == "failed"
    status: SpanStatus = "error" if failed else "ok" if visit.ended_at else "unset"
    also = {"verdict": visit.verdict or None, "cycle": visit.cycle or None, "to": visit.to}
    times = (visit.started_at, visit.ended_at)
    why = visit.reason if failed else ""
    yield _SpanPart(("visit", *place), _RUN, visit.stage, *times, status, why, about | also)
    for run in visit.checks:
        at, times = ("check", *place, run.iteration, run.check, run.number), (run.started_at, run.ended_at)
        status = _CHECKED.get(run.status, "error")
        also = {"check": run.check, "outcome": run.status, "exit_code": run.exit_code}
        why = run.reason if status == "error" else ""
        yield _SpanPart(at, ("visit", *place), run.check, *times, status, why, about | also, True)


def _iteration(work: IterationWork, visit: _SpanPlace) -> Iterator[_SpanPart]:
    place, used, status = (*visit, work.iteration), work.spending, _status(work.status)
    about = _about(work, visit) | {"iteration": work.iteration, "item": work.item or None}
    also: dict[str, Any] = {
        "retries": max(0, len(work.attempts) - 1),
        "gen_ai.usage.input_tokens": used.input_tokens or None,
        "gen_ai.usage.output_tokens": used.output_tokens or None,
        "cost_usd": used.cost_usd or None,
    }
    times = (work.started_at, None if work.status == "running" else work.ended_at)
    why = work.attempts[-1].error if work.attempts and status == "error" else ""
    at = ("iteration", *place)
    yield _SpanPart(at, ("visit", *visit), work.stage, *times, status, why, about | also)
    for one in work.attempts:
        also = {"attempt": one.number, "provider": one.provider, "outcome": one.status}
        also |= {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": one.model or None}
        also["error.type"] = one.error.partition(":")[0] if one.status == "failed" else None
        attempt, times = ("attempt", *place, one.number), (one.started_at, one.ended_at)
        yield _SpanPart(attempt, at, one.provider, *times, _status(one.status), one.error, about | also, True)


def _hook(one: Delivery, key: str, visit: _SpanPlace) -> _SpanPart:
    below = ("iteration", *visit, one.iteration) if one.iteration else ("visit", *visit)
    tries, last = {"tries": len(one.tries), "outcome": one.outcome}, one.tries[-1]
    about = {"hook": one.hook, "point": one.point, "stage": one.stage or None, "branch": one.branch, **tries}
    times = (one.tries[0].started_at, None if one.due_at else last.ended_at)
    # Its answer may be one that the engine passes over; it was given all the same.
    is_final, status = last.status == "completed", _status("" if one.due_at else last.status)
    return _SpanPart(("hook", key), below, one.hook, *times, status, last.message, about, is_final)


def _about(one: StageVisit | IterationWork, place: _SpanPlace) -> dict[str, Any]:
    return {"stage": one.stage, "node": place[0], "branch": one.branch, "visit": one.visit}


def _status(status: str) -> SpanStatus:
    """Of an iteration, an attempt or a hook."""
    if status in ("failed", "timed_out", "lost"):
        return "error"
    return "ok" if status == "completed" else "unset"
