"""Applies events to a stage: its iterations, attempts, timers, judge and queue."""

from typing import assert_never

from msgspec import UnsetType
from msgspec.structs import replace

from agentforge.engine.evolve.checks import VerdictFact, checks_on_resume, evolve_checks
from agentforge.engine.evolve.task import (
    AfterFailure,
    after_failure,
    evolve_call,
    with_agent,
    with_attempt,
    with_call,
    with_iteration,
    without_call,
)
from agentforge.model import facts as f
from agentforge.model.changes import MAX_LEFT
from agentforge.model.event import Event
from agentforge.model.failure import LIMITS, Failure, FailureKind
from agentforge.model.request import AnsweredQuestion, Request
from agentforge.model.result import Decision
from agentforge.model.state import (
    MAX_ANSWERS,
    AttemptState,
    IterationState,
    Reentry,
    StageState,
    TaskState,
    Verdict,
)
from agentforge.model.status import IterationStatus, TaskStatus

StageFact = (
    f.IterationStarted
    | f.TaskFact
    | f.AttemptReattached
    | f.WorkerCompleted
    | f.GitLeft
    | AfterFailure
    | f.DelayStarted
    | f.TimerFired
    | f.QueueChecked
    | VerdictFact
)


def evolve_stage(at: StageState, event: Event, fact: StageFact) -> StageState:
    match fact:
        # The most frequent events come first.
        case f.IterationStarted():
            number = _number(at, event)
            iteration = IterationState(number, IterationStatus.STARTED, event.at, fact.prompt_sha256)
            return without_call(replace(at, iteration=iteration, failure=None, judge_tries=0), "judge")
        case f.AttemptStarted():
            return _attempt_started(at, event, fact)
        case f.IterationCompleted():
            return _completed(at, event, fact)
        case f.ErrorOccurred():
            return _failed(at, event, fact)
        case f.DelayStarted() | f.TimerFired():
            return _timed(at, fact)
        case f.JudgeCompleted():
            return _judged(at, event, fact)
        case f.QueueChecked(remaining=remaining):
            return replace(at, queue_checked=at.completed, queue_left=remaining)
        case f.CheckPrepared() | f.CheckCompleted() | f.StageVerdictReached() | f.StageTransitioned():
            return evolve_checks(at, fact)
        case f.RetryScheduled() | f.StageRetried() | f.LimitMet() | f.ProviderChanged():
            return after_failure(at, event, fact)
        case (
            f.AttemptReattached()
            | f.WorkerCompleted()
            | f.GitLeft()
            | f.AttemptEnding()
            | f.AttemptCancelled()
            | f.AttemptLost()
        ):
            return _apply_attempt(at, fact)
        case f.TaskFact():
            return evolve_call(at, event, fact)
        case _:
            assert_never(fact)


def reentry_of(at: StageState, fact: f.NodeRestarted) -> Reentry:
    """What the next visit of the stage gets from this one."""
    return Reentry(fact.round, at.rounds_granted, fact.feedback, at.answers, at.hook_restarts)


def entered_again(at: StageState, reentry: Reentry | None) -> StageState:
    if reentry is None:
        return at
    return replace(
        at,
        round=reentry.round,
        rounds_granted=reentry.rounds_granted,
        feedback=reentry.feedback,
        answers=reentry.answers,
        hook_restarts=reentry.hook_restarts,
    )


def on_resume(at: StageState) -> StageState:
    """The stage after a resume: failures no longer count, the end of a delay is computed again, and an
    attempt in flight continues. The count of judge failures is kept. A failed at_most_once attempt is kept,
    too: an answer decides about it."""
    fresh = replace(
        at,
        failure=None,
        unavailable=(),
        stage_retries=0,
        delay_due=None,
        # The rejection that is pending is the last one of the rounds before.
        round=at.round if at.rejected is None else 0,
        rounds_granted=0,
        asks_granted=at.asked,
    )
    fresh = checks_on_resume(with_call(fresh, "judge", lost=0))
    attempt = at.iteration.attempt if at.iteration else None
    if attempt is not None and not attempt.in_flight:
        attempt = replace(attempt, lost=0) if attempt.once and attempt.ended_without_result else None
    elif attempt is not None:
        attempt = replace(attempt, lost=0)
    return with_iteration(fresh, attempt=attempt, failures=(), limited=0, limited_since=None, gave_way=0)


def excused(at: StageState) -> StageState:
    """Allow another attempt, as a person answered; counters are kept."""
    judge = at.calls.get("judge")
    if judge is not None and not judge.in_flight:
        return with_call(at, "judge", excused=True)
    attempt = at.iteration.attempt if at.iteration else None
    if attempt is None or attempt.in_flight:
        return at
    waits = attempt.status in (TaskStatus.FAILED, TaskStatus.WAITING)
    return with_attempt(at, excused=True, status=TaskStatus.DUE if waits else attempt.status)


def answered(at: StageState, request: Request) -> StageState:
    """The stage with the answer to a question of its agent."""
    asked = next((question for question in at.questions if question.id == request.subject), None)
    text = asked.question if asked else request.question
    known = AnsweredQuestion(
        request.subject, text, request.answer or "", request.answered_by, request.text, request.secrets
    )
    return replace(at, answers=(*at.answers, known)[-MAX_ANSWERS:])


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
        plateaus=at.plateaus + 1 if fact.result.signals.plateau_suspected else 0,
    )
    if fact.decision is Decision.ASK:
        done = replace(done, questions=fact.result.asked, asked=at.asked + 1)
    elif at.questions:
        done = replace(done, questions=())
    if not isinstance(fact.result.verdict, UnsetType):
        return replace(done, claim=Verdict(fact.result.verdict, fact.result.reason))
    return replace(done, claim=None) if at.claim else done


_AttemptFact = (
    f.AttemptReattached | f.WorkerCompleted | f.GitLeft | f.AttemptEnding | f.AttemptCancelled | f.AttemptLost
)


def _apply_attempt(at: StageState, fact: _AttemptFact) -> StageState:
    match fact:
        case f.AttemptReattached() | f.WorkerCompleted():
            return at
        case f.GitLeft(items=items):
            return replace(at, git_left=tuple(dict.fromkeys((*at.git_left, *items)))[-MAX_LEFT:])
        case f.AttemptEnding():
            return with_attempt(at, status=TaskStatus.ENDING)
        case f.AttemptCancelled():
            left = with_agent(at, fact.agent_session or _resumed_by(at), None)
            return with_attempt(left, status=TaskStatus.CANCELLED)
        case f.AttemptLost(started=started):
            left = with_agent(at, fact.agent_session or _resumed_by(at), None) if started else at
            attempt = left.iteration.attempt if left.iteration else None
            return with_iteration(left, attempt=attempt.as_lost(started=started)) if attempt else left
        case _:
            assert_never(fact)


def _resumed_by(at: StageState) -> str | None:
    """The session being resumed: it still exists if the agent was killed before reporting its id."""
    return at.iteration.attempt.resume if at.iteration and at.iteration.attempt else None


def _failed(at: StageState, event: Event, fact: f.ErrorOccurred) -> StageState:
    failure = Failure(fact.kind, fact.message, fact.exit_code, fact.resets_at)
    if at.iteration is None:
        return replace(at, failure=failure)
    left = with_agent(at, fact.agent_session, fact.usage)
    ended = with_attempt(
        left, status=TaskStatus.FAILED, failure=failure, ended_at=event.at, started=fact.started, lost=0
    )
    if fact.kind in LIMITS:
        # Limits don't count against the retry policy; they have their own bound.
        return ended
    return with_iteration(ended, failures=(*at.iteration.failures, fact.kind))


def _timed(at: StageState, fact: f.DelayStarted | f.TimerFired) -> StageState:
    match fact:
        case f.DelayStarted(due_at=due_at):
            return replace(at, delay_due=due_at, delay_over=False)
        case f.TimerFired(timer="delay"):
            return replace(at, delay_due=None, delay_over=True)
        case _:
            return with_attempt(at, status=TaskStatus.DUE) if fact.timer == "retry" else at


def _judged(at: StageState, event: Event, fact: f.JudgeCompleted) -> StageState:
    match fact.status:
        case "success":
            stops = at.stops + 1 if fact.result.stop else 0
            heard = replace(at, judge_tries=0, judged=at.completed, judge_failures=0, stops=stops)
            return without_call(replace(heard, judge_reason=fact.result.reason), fact.KIND)
        case "failed":
            # A failed judge means neither stop nor continue. Several calls for an iteration count once.
            failure = Failure(FailureKind.JUDGE_FAILED, fact.result.reason)
            call = at.calls.get(fact.KIND) or TaskState(fact.attempt, TaskStatus.RUNNING, event.at)
            call = replace(call, status=TaskStatus.FAILED, failure=failure, lost=0)
            failures = at.judge_failures + (0 if at.judge_tries else 1)
            tried = replace(at, calls={**at.calls, fact.KIND: call}, judge_tries=at.judge_tries + 1)
            return replace(tried, judged=at.completed, judge_failures=failures)
        case "skipped":
            return without_call(replace(at, judge_tries=0, judged=at.completed), fact.KIND)
        case _:
            assert_never(fact.status)


def _number(at: StageState, event: Event) -> int:
    return event.cursor.iteration if event.cursor else at.completed + 1
