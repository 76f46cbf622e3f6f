"""Applies events to a stage: its timers, judge and queue, and what a resume or an answer means for it."""

from typing import assert_never

from msgspec.structs import replace

from agentforge.engine.evolve.checks import checks_on_resume
from agentforge.engine.evolve.deliver import delivery_on_resume
from agentforge.engine.evolve.task import (
    evolve_call,
    with_attempt,
    with_call,
    with_iteration,
    without_call,
    without_errors,
)
from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.request import AnsweredQuestion, Request
from agentforge.model.state import (
    MAX_ANSWERS,
    LedgerReply,
    Reentry,
    StageState,
    TaskState,
)
from agentforge.model.status import TaskStatus


def evolve_stage(at: StageState, event: Event, fact: f.StageFact | f.AnyJudgeFact) -> StageState:
    match fact:
        case f.DelayStarted(due_at=due_at):
            return replace(at, delay_due=due_at, delay_over=False)
        case f.TimerFired(timer="delay"):
            return replace(at, delay_due=None, delay_over=True)
        case f.TimerFired(timer=timer):
            if timer != "retry":
                return at
            return with_attempt(replace(at, retry_due=None), status=TaskStatus.DUE)
        case f.JudgeCompleted():
            return _judged(at, event, fact)
        case f.QueueChecked(remaining=remaining):
            return replace(at, queue_checked=at.completed, queue_left=remaining)
        case f.TaskFact():
            return evolve_call(at, event, fact)
        case f.LedgerAnswered():
            return replace(at, ledger=LedgerReply(fact.key, fact.run_usd, fact.answer, event.at))
        case f.WorkerCompleted():
            return at
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
        retry_due=None,
        item_tries=0,
        delay_due=None,
        # The rejection that is pending is the last one of the rounds before.
        round=at.round if at.rejected is None else 0,
        refused=(),
        rounds_granted=0,
        asks_granted=at.asked,
    )
    calls = {kind: _on_resume(call) for kind, call in fresh.calls.items()}
    fresh = checks_on_resume(_with_files_again(replace(fresh, calls=calls)))
    fresh = delivery_on_resume(fresh)
    attempt = at.iteration.attempt if at.iteration else None
    if attempt is not None and not attempt.in_flight:
        attempt = replace(attempt, lost=0) if attempt.once and attempt.ended_without_result else None
    elif attempt is not None:
        attempt = replace(attempt, lost=0)
    return with_iteration(fresh, attempt=attempt, failures=(), limited=0, limited_since=None, gave_way=0)


def _with_files_again(at: StageState) -> StageState:
    """What couldn't be done with the files is retried: a person may have changed something."""
    call = at.calls.get("files")
    if call is not None and call.failure is not None:
        at = with_call(at, "files", excused=True)
    return replace(at, began=None) if at.began and at.began.defect else at


def _on_resume(call: TaskState) -> TaskState:
    """One that failed may be retried."""
    return replace(call, lost=0, excused=call.excused or call.status is TaskStatus.FAILED)


def excused(at: StageState, kind: str = "") -> StageState:
    """Allow another attempt, or another task of a kind that was lost, as a person answered."""
    if kind in at.calls:
        # A judge costs money, as an attempt does: their losses count on, and each further one is asked about.
        counted = {} if kind == "judge" else {"lost": 0}
        return with_call(at, kind, excused=True, **counted)
    attempt = at.iteration.attempt if at.iteration else None
    if attempt is None:
        return replace(_with_files_again(at), failure=None, checks=without_errors(at.checks))
    if attempt.in_flight:
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


def _judged(at: StageState, event: Event, fact: f.JudgeCompleted) -> StageState:
    match fact.status:
        case "success":
            stops = at.stops + 1 if fact.result.stop else 0
            heard = replace(at, judge_tries=0, judged=at.completed, judge_failures=0, stops=stops)
            return without_call(replace(heard, judge_reason=fact.result.reason), fact.KIND)
        case "failed" if fact.capped:
            reached = Failure(FailureKind.CAP_REACHED, fact.error)
            nothing = fact.spent_nothing
            return with_call(
                at, fact.KIND, status=TaskStatus.FAILED, failure=reached, lost=0, spent_nothing=nothing
            )
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
