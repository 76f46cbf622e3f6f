"""What an event makes of a stage under way: its iterations, attempts, timers, judge and queue."""

from typing import assert_never

from msgspec.structs import replace

from agentforge.engine.evolve_attempt import after_failure, with_agent, with_attempt, with_iteration
from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.failure import LIMITS, Failure
from agentforge.model.state import AttemptState, IterationState, JudgeState, StageState
from agentforge.model.status import AttemptStatus, IterationStatus

IN_FLIGHT = frozenset({AttemptStatus.RUNNING, AttemptStatus.ENDING})

_AttemptFact = f.AttemptAdopted | f.AttemptLost | f.AttemptEnding | f.AttemptCancelled
_AfterFailure = f.RetryScheduled | f.LimitMet | f.ProviderChanged
_JudgeFact = f.JudgeStarted | f.JudgeCompleted | f.JudgeLost
StageFact = (
    f.IterationStarted
    | f.AttemptStarted
    | f.IterationCompleted
    | f.WorkerCompleted
    | _AttemptFact
    | _AfterFailure
    | f.ErrorOccurred
    | f.DelayStarted
    | f.TimerFired
    | _JudgeFact
    | f.QueueChecked
)


def evolve_stage(at: StageState, event: Event, fact: StageFact) -> StageState:
    match fact:
        # The frequent ones first: a long log is mostly these three.
        case f.IterationStarted():
            number = _number(at, event)
            iteration = IterationState(number, IterationStatus.STARTED, event.at, fact.prompt_sha256)
            return replace(at, iteration=iteration, failure=None)
        case f.AttemptStarted():
            return _attempt_started(at, event, fact)
        case f.IterationCompleted():
            return _completed(at, event, fact)
        case f.ErrorOccurred():
            return _failed(at, event, fact)
        case f.DelayStarted(due_at=due_at):
            return replace(at, delay_due=due_at, delay_over=False)
        case f.TimerFired(timer=timer):
            return _fired(at, timer)
        case f.JudgeStarted() | f.JudgeCompleted() | f.JudgeLost():
            return _judged(at, fact)
        case f.QueueChecked(remaining=remaining):
            return replace(at, queue_checked=at.completed, queue_left=remaining)
        case f.WorkerCompleted():
            return at
        case f.RetryScheduled() | f.LimitMet() | f.ProviderChanged():
            return after_failure(at, event, fact)
        case _:
            return _attempt_turn(at, fact)


def on_resume(at: StageState, *, asked: bool) -> StageState:
    """A person said go on: failures no longer count; an attempt in flight goes on. How far the judge can
    be relied upon is no failure of the run: that count stays.

    `asked`: whether they were asked about work that mustn't be done twice. If not, what came to nothing of it
    is kept, and asked about."""
    fresh = replace(at, failure=None, unavailable=())
    attempt = at.iteration.attempt if at.iteration else None
    if attempt is not None and attempt.status not in IN_FLIGHT:
        attempt = attempt if attempt.once and attempt.came_to_nothing and not asked else None
    return with_iteration(
        fresh, attempt=attempt, failures=(), lost=0, limited=0, limited_since=None, gave_way=0
    )


def _attempt_started(at: StageState, event: Event, fact: f.AttemptStarted) -> StageState:
    before = at.iteration or IterationState(_number(at, event), IterationStatus.STARTED, event.at)
    agent = before.agent if fact.resume else None
    attempt = AttemptState(
        fact.attempt,
        AttemptStatus.RUNNING,
        event.at,
        fact.timeout,
        fact.idle_timeout,
        choice=fact.choice,
        resume=fact.resume,
        before=agent.used if agent else None,
        once=fact.once,
    )
    if agent is not None:
        agent = replace(agent, continued=agent.continued + 1)
    return replace(at, iteration=replace(before, attempt=attempt, attempts=fact.attempt, agent=agent))


def _completed(at: StageState, event: Event, fact: f.IterationCompleted) -> StageState:
    return replace(
        at,
        completed=_number(at, event),
        iteration=None,
        last_decision=fact.decision,
        last_completed_at=event.at,
        delay_due=None,
        delay_over=False,
        plateaus=at.plateaus + 1 if fact.result.signals.plateau_suspected else 0,
    )


def _attempt_turn(at: StageState, fact: _AttemptFact) -> StageState:
    match fact:
        case f.AttemptAdopted():
            return at
        case f.AttemptEnding():
            return with_attempt(at, status=AttemptStatus.ENDING)
        case f.AttemptCancelled():
            left = with_agent(at, fact.agent_session or _resumed_by(at), None)
            return with_attempt(left, status=AttemptStatus.CANCELLED)
        case f.AttemptLost(started=started):
            left = with_agent(at, fact.agent_session or _resumed_by(at), None) if started else at
            ended = with_attempt(left, status=AttemptStatus.LOST, started=started)
            return with_iteration(ended, lost=(ended.iteration.lost + 1 if ended.iteration else 0))
        case _:
            assert_never(fact)


def _resumed_by(at: StageState) -> str | None:
    """The session that it goes on with: an agent that was killed before it named it hasn't forgotten it."""
    return at.iteration.attempt.resume if at.iteration and at.iteration.attempt else None


def _failed(at: StageState, event: Event, fact: f.ErrorOccurred) -> StageState:
    failure = Failure(fact.kind, fact.message, fact.exit_code, fact.resets_at)
    if at.iteration is None:
        return replace(at, failure=failure)
    left = with_agent(at, fact.agent_session, fact.usage)
    ended = with_attempt(
        left, status=AttemptStatus.FAILED, failure=failure, ended_at=event.at, started=fact.started
    )
    if fact.kind in LIMITS:
        # How often a limit is met says nothing about the work: it has its own bound.
        return with_iteration(ended, lost=0)
    return with_iteration(ended, failures=(*at.iteration.failures, fact.kind), lost=0)


def _fired(at: StageState, timer: str) -> StageState:
    if timer == "delay":
        return replace(at, delay_due=None, delay_over=True)
    return with_attempt(at, status=AttemptStatus.DUE) if timer == "retry" else at


def _judged(at: StageState, fact: _JudgeFact) -> StageState:
    failed = at.judge.failed if at.judge else 0
    match fact:
        case f.JudgeStarted(attempt=attempt):
            return replace(at, judge=JudgeState(attempt, failed))
        case f.JudgeLost(attempt=attempt):
            return replace(at, judge=JudgeState(attempt, failed, running=False))
        case f.JudgeCompleted(status="success", result=result):
            stops = at.stops + 1 if result.stop else 0
            heard = replace(at, judge=None, judged=at.completed, judge_failures=0)
            return replace(heard, stops=stops, judge_reason=result.reason)
        case f.JudgeCompleted(status="failed", result=result) if _asked_again(failed + 1, result.reason):
            return replace(at, judge=JudgeState(fact.attempt, failed + 1, running=False))
        case f.JudgeCompleted():
            # A judge that fails says neither stop nor continue.
            failures = at.judge_failures + (1 if fact.status == "failed" else 0)
            return replace(at, judge=None, judged=at.completed, judge_failures=failures)
        case _:
            assert_never(fact)


JUDGE_TRIES = 2


def _asked_again(failed: int, reason: str) -> bool:
    """Whether a failed call is worth another; an answer that can't be read isn't."""
    return reason == "invoke_failed" and failed < JUDGE_TRIES


def _number(at: StageState, event: Event) -> int:
    return event.cursor.iteration if event.cursor else at.completed + 1
