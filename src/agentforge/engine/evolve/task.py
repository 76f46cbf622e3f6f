"""Applies events to the tasks of a stage: the attempts of its agent, and the calls between two iterations.

A call is a judge or a check: its start, its end on request, its loss, and an outcome from which nothing else
follows. What an outcome means for the stage is up to its kind (`stage`, `checks`).
"""

from typing import TypeVar, assert_never

from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.failure import LIMITS
from agentforge.model.result import Usage
from agentforge.model.state import AgentSession, StageState, TaskState, Unavailable
from agentforge.model.status import TaskStatus


def evolve_call(at: StageState, event: Event, fact: f.TaskFact) -> StageState:
    known = at.calls.get(fact.KIND)
    if isinstance(fact, f.TaskStarted):
        # Only losses of the same task are in a row: another check has its own.
        lost = known.lost if known and known.about == fact.about else 0
        call = TaskState(
            fact.attempt, TaskStatus.RUNNING, event.at, lost, about=fact.about, timeout=fact.timeout
        )
        return replace(at, calls={**at.calls, fact.KIND: call})
    if known is None or fact.MOVES_TO is None:
        # A damaged log may lack the start. There is nothing to wait for then, and the gate starts it again.
        return at
    if isinstance(fact, f.TaskLost):
        return replace(at, calls={**at.calls, fact.KIND: known.as_lost(started=fact.started)})
    outcome = {"failure": fact.failure} if isinstance(fact, f.TaskOutcome) else {}
    return with_call(at, fact.KIND, status=fact.MOVES_TO, **outcome)


def with_call(at: StageState, kind: str, **changes: object) -> StageState:
    known = at.calls.get(kind)
    return at if known is None else replace(at, calls={**at.calls, kind: replace(known, **changes)})


def without_call(at: StageState, kind: str) -> StageState:
    if kind not in at.calls:
        return at
    return replace(at, calls={other: call for other, call in at.calls.items() if other != kind})


AfterFailure = f.RetryScheduled | f.StageRetried | f.LimitMet | f.ProviderChanged


def after_failure(at: StageState, event: Event, fact: AfterFailure) -> StageState:
    match fact:
        case f.RetryScheduled(due_at=due_at):
            return with_attempt(at, status=TaskStatus.WAITING, due_at=due_at)
        case f.StageRetried(number=number, due_at=due_at):
            return with_attempt(replace(at, stage_retries=number), status=TaskStatus.WAITING, due_at=due_at)
        case f.LimitMet():
            resting = Unavailable(fact.choice, fact.until, fact.message, limited=True)
            counted = _limited(_with_resting(at, resting), event)
            return with_attempt(counted, status=TaskStatus.WAITING, due_at=fact.due_at)
        case f.ProviderChanged():
            return _changed(at, event, fact)
        case _:
            assert_never(fact)


def _changed(at: StageState, event: Event, fact: f.ProviderChanged) -> StageState:
    failure = at.iteration.attempt.failure if at.iteration and at.iteration.attempt else None
    limited = failure is not None and failure.kind in LIMITS
    known = _with_resting(at, Unavailable(fact.choice, fact.until, fact.message, limited))
    if limited:
        known = _limited(known, event)
    elif known.iteration is not None:
        known = with_iteration(known, gave_way=known.iteration.gave_way + 1)
    status = TaskStatus.DUE if fact.due_at is None else TaskStatus.WAITING
    return with_attempt(with_iteration(known, failures=()), status=status, due_at=fact.due_at)


def with_agent(at: StageState, id: str | None, usage: Usage | None) -> StageState:
    """Update the agent session after an attempt; without an id there is no session to resume."""
    iteration = at.iteration
    if iteration is None or id is None:
        return with_iteration(at, agent=None)
    before, choice = iteration.agent, iteration.attempt.choice if iteration.attempt else 0
    if before is None or before.id != id:
        # Some agents assign a new id on every resume; it is still the same session.
        resumed = before is not None and iteration.attempt is not None and iteration.attempt.resume
        continued = before.continued if before and resumed else 0
        return with_iteration(at, agent=AgentSession(id, choice, continued, usage))
    return with_iteration(at, agent=replace(before, used=_sum(before.used, usage)))


def with_iteration(at: StageState, **changes: object) -> StageState:
    return at if at.iteration is None else replace(at, iteration=replace(at.iteration, **changes))


def with_attempt(at: StageState, **changes: object) -> StageState:
    attempt = at.iteration.attempt if at.iteration else None
    return at if attempt is None else with_iteration(at, attempt=replace(attempt, **changes))


def _limited(at: StageState, event: Event) -> StageState:
    if at.iteration is None:
        return at
    since = at.iteration.limited_since or event.at
    return with_iteration(at, limited=at.iteration.limited + 1, limited_since=since)


def _with_resting(at: StageState, now: Unavailable) -> StageState:
    others = tuple(known for known in at.unavailable if known.choice != now.choice)
    return replace(at, unavailable=(*others, now))


def _sum(before: Usage | None, usage: Usage | None) -> Usage | None:
    if before is None or usage is None:
        return before or usage
    return replace(
        usage,
        input_tokens=_plus(before.input_tokens, usage.input_tokens),
        output_tokens=_plus(before.output_tokens, usage.output_tokens),
        cached_tokens=_plus(before.cached_tokens, usage.cached_tokens),
        cost_usd=_plus(before.cost_usd, usage.cost_usd),
    )


_Number = TypeVar("_Number", int, float)


def _plus(one: _Number | None, other: _Number | None) -> _Number | None:
    if one is None or other is None:
        return one if other is None else other
    return one + other
