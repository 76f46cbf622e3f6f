"""Applies events to the tasks of a stage: iterations with the attempts of its agent, and calls between them.

A call is a judge or a check: its start, its end on request, its loss, and an outcome from which nothing else
follows. What an outcome means for the stage is up to its kind (`stage`, `checks`).
"""

from typing import TypeVar

from msgspec import UnsetType
from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.changes import MAX_LEFT
from agentforge.model.event import Event
from agentforge.model.failure import LIMITS, Failure, FailureKind
from agentforge.model.result import Decision, Usage
from agentforge.model.state import (
    OUTDATED,
    AgentSession,
    AttemptState,
    CheckRecord,
    IterationState,
    StageState,
    TaskState,
    Unavailable,
    Verdict,
)
from agentforge.model.status import IterationStatus, TaskStatus


def evolve_iteration(at: StageState, event: Event, fact: f.AnyIterationFact) -> StageState:
    # The most frequent ones come first: of a struct, a pattern is slow if it doesn't match.
    if type(fact) is f.AttemptStarted:
        return _attempt_started(at, event, fact)
    if type(fact) is f.IterationCompleted:
        return _completed(at, event, fact)
    match fact:
        case f.IterationStarted():
            number = _number(at, event)
            iteration = IterationState(
                number, IterationStatus.STARTED, event.at, fact.prompt_sha256, item=fact.item
            )
            return without_call(replace(at, iteration=iteration, failure=None, judge_tries=0), "judge")
        case f.ErrorOccurred():
            return _failed(at, event, fact)
        case f.RetryScheduled(due_at=due_at):
            return with_attempt(at, status=TaskStatus.WAITING, due_at=due_at)
        case f.StageRetried():
            return _stage_retried(at, fact)
        case f.LimitMet():
            resting = Unavailable(fact.choice, fact.until, fact.message, limited=True)
            counted = _limited(_with_resting(at, resting), event)
            return with_attempt(counted, status=TaskStatus.WAITING, due_at=fact.due_at)
        case f.ProviderChanged():
            return _changed(at, event, fact)
        case f.GitLeft(items=items):
            return replace(at, git_left=tuple(dict.fromkeys((*at.git_left, *items)))[-MAX_LEFT:])
        case f.AttemptEnding():
            return with_attempt(at, status=TaskStatus.ENDING)
        case f.AttemptCancelled() | f.AttemptLost():
            return _stopped(at, fact)
        case (
            f.AttemptReattached() | f.TreeTaken() | f.AttemptStarted() | f.IterationCompleted()
        ):  # exhaustive
            return at


def _stage_retried(at: StageState, fact: f.StageRetried) -> StageState:
    again = replace(at, stage_retries=fact.number)
    if at.iteration is None:
        return replace(again, retry_due=fact.due_at, checks=without_errors(at.checks))
    return with_attempt(again, status=TaskStatus.WAITING, due_at=fact.due_at)


def _stopped(at: StageState, fact: f.AttemptCancelled | f.AttemptLost) -> StageState:
    left = at
    if isinstance(fact, f.AttemptCancelled) or fact.started:
        # The session being resumed still exists if the agent was killed before it reported its id.
        resumed = at.iteration.attempt.resume if at.iteration and at.iteration.attempt else None
        left = with_agent(at, fact.agent_session or resumed, None)
    attempt = left.iteration.attempt if left.iteration else None
    if isinstance(fact, f.AttemptCancelled) or attempt is None:
        return with_attempt(left, status=TaskStatus.CANCELLED)
    return with_iteration(left, attempt=attempt.as_lost(started=fact.started))


def _attempt_started(at: StageState, event: Event, fact: f.AttemptStarted) -> StageState:
    before = at.iteration or IterationState(_number(at, event), IterationStatus.STARTED, event.at)
    agent = before.agent if fact.resume else None
    attempt = AttemptState(
        fact.attempt,
        TaskStatus.RUNNING,
        event.at,
        before.attempt.lost if before.attempt else 0,
        timeout=fact.timeout,
        idle_timeout=fact.idle_timeout,
        choice=fact.choice,
        resume=fact.resume,
        before=agent.used if agent else None,
        once=fact.once,
        reserved=fact.reserves,
    )
    if agent is not None:
        agent = replace(agent, continued=agent.continued + 1)
    return replace(at, iteration=replace(before, attempt=attempt, attempts=fact.attempt, agent=agent))


def _completed(at: StageState, event: Event, fact: f.IterationCompleted) -> StageState:
    done = replace(
        at,
        completed=_number(at, event),
        iteration=None,
        last_decision=fact.decision,
        tree=fact.tree,
        last_completed_at=event.at,
        delay_due=None,
        delay_over=False,
        restored=(),
        plateaus=at.plateaus + 1 if fact.result.signals.plateau_suspected else 0,
    )
    if at.iteration is not None and at.iteration.item:
        item = at.iteration.item
        tries = at.item_tries if item == at.item else 0
        # An iteration that asks hasn't tried it.
        done = replace(done, item=item, item_tries=tries + (fact.decision is not Decision.ASK))
    if fact.decision is Decision.ASK:
        done = replace(done, questions=fact.result.asked, asked=at.asked + 1)
    elif at.questions:
        done = replace(done, questions=())
    if not isinstance(fact.result.verdict, UnsetType):
        items = () if isinstance(fact.result.items, UnsetType) else fact.result.items
        return replace(done, claim=Verdict(fact.result.verdict, fact.result.reason, items=items))
    return replace(done, claim=None) if at.claim else done


def _failed(at: StageState, event: Event, fact: f.ErrorOccurred) -> StageState:
    failure = Failure(fact.kind, fact.message, fact.exit_code, fact.resets_at)
    if at.iteration is None:
        return replace(at, failure=failure)
    left = with_agent(at, fact.agent_session, fact.usage)
    ended = with_attempt(
        left,
        status=TaskStatus.FAILED,
        failure=failure,
        ended_at=event.at,
        started=fact.started,
        lost=0,
        spent_nothing=fact.spent_nothing,
    )
    if fact.kind in LIMITS or (fact.kind is FailureKind.CAP_REACHED and at.reserved):
        # Limits and caps don't count against the retry policy; they have their own bound.
        return ended
    if fact.kind is FailureKind.ARTIFACT_INVALID:
        ended = with_iteration(ended, invalid=fact.message)
    return with_iteration(ended, failures=(*at.iteration.failures, fact.kind))


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


def _number(at: StageState, event: Event) -> int:
    return event.cursor.iteration if event.cursor else at.completed + 1


# -- calls between two iterations


def evolve_call(at: StageState, event: Event, fact: f.TaskFact) -> StageState:
    known = at.calls.get(fact.KIND)
    if isinstance(fact, f.TaskStarted):
        # Only losses of the same task are in a row: another check has its own.
        lost = known.lost if known and known.about == fact.about else 0
        call = TaskState(
            fact.attempt,
            TaskStatus.RUNNING,
            event.at,
            lost,
            about=fact.about,
            timeout=fact.timeout,
            reserved=fact.reserves,
        )
        return replace(at, calls={**at.calls, fact.KIND: call})
    if known is None or fact.MOVES_TO is None:
        # A damaged log may lack the start. There is nothing to wait for then, and the gate starts it again.
        return at
    if isinstance(fact, f.TaskLost):
        return replace(at, calls={**at.calls, fact.KIND: known.as_lost(started=fact.started)})
    if isinstance(fact, f.TaskOutcome):
        return with_call(at, fact.KIND, status=fact.leads_to, failure=fact.failure)
    return with_call(at, fact.KIND, status=fact.MOVES_TO)


def with_call(at: StageState, kind: str, **changes: object) -> StageState:
    known = at.calls.get(kind)
    return at if known is None else replace(at, calls={**at.calls, kind: replace(known, **changes)})


def without_call(at: StageState, kind: str) -> StageState:
    if kind not in at.calls:
        return at
    return replace(at, calls={other: call for other, call in at.calls.items() if other != kind})


def without_errors(checks: tuple[CheckRecord, ...]) -> tuple[CheckRecord, ...]:
    """Those without a result are repeated."""
    return tuple(
        replace(known, iteration=OUTDATED) if known.status == "error" or known.changed else known
        for known in checks
    )
