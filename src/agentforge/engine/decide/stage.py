"""Decides what should happen in a stage: its iterations and attempts, judge, queue and delays.

There are two ordered tables of gates, one between iterations and one after an attempt. The first gate that
returns a ruling wins; if none does, the next iteration or attempt starts. A new feature is a new row.

Used for nodes of the run and for stages of a branch; the caller translates the ruling into the facts of its
own level.
"""

from collections.abc import Callable
from datetime import timedelta

from msgspec.structs import replace

from agentforge.engine.decide.caps import Spender, reserve
from agentforge.engine.decide.checks import (
    NOT_NEEDED,
    baselines,
    checked_before,
    concluded,
    follow_verdict,
    is_sent_back,
    leads_onward,
    run_checks,
)
from agentforge.engine.decide.daily import within_day
from agentforge.engine.decide.deliver import deliver, look_first
from agentforge.engine.decide.failure import (
    DEFAULT_POLICY,
    FailedAttempt,
    choose_in_chain,
    decide_after_failure,
    decide_after_stage_failure,
    exhausted,
)
from agentforge.engine.decide.files import frozen, restored, rolled_back, tampered, visit_tree
from agentforge.engine.decide.hooks import call_after_failure, call_hooks, end_reason
from agentforge.engine.decide.items import item_over, next_item, plan_items
from agentforge.engine.decide.people import (
    approval,
    asked_by_agent,
    awaits_approval,
    rejected,
    requests_of,
    restarted,
    skipped,
)
from agentforge.engine.decide.requests import Question, Ruling
from agentforge.engine.decide.stage_at import StageAt, runtime_used_up, tightest
from agentforge.engine.decide.task_kinds import in_flight_at
from agentforge.engine.decide.termination import MAX_JUDGE_FAILURES, end_of, wants_judge, wants_queue
from agentforge.model import facts as f
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.frozen import END
from agentforge.model.hook import HookPoint
from agentforge.model.request import CANCEL, RESUME, RETRY, SUCCEEDED
from agentforge.model.result import Decision
from agentforge.model.state import AT_MOST_ONCE, STUCK, AttemptState, IterationState, RunState
from agentforge.model.status import TaskStatus
from agentforge.model.task import PrepareTask, QueueTask, Wait

DEFAULT_DELAY = 3.0
MAX_RECOVERIES = 3
MAX_CONTINUED = 5
"""How often an agent session is resumed before a new one is started."""


StageGate = Callable[[StageAt], Ruling | None]
AttemptGate = Callable[[StageAt, IterationState, AttemptState], Ruling | None]


def decide_stage(here: StageAt) -> Ruling:
    iteration = here.at.iteration
    if here.node.deliver is not None:
        ruling = _asked((*AT_ANY_TIME, *BEFORE_DELIVERY), here) or deliver(here)
    elif iteration is None:
        ruling = _asked((*AT_ANY_TIME, *BETWEEN_ITERATIONS), here) or _next_iteration(here)
    else:
        ruling = _asked((*AT_ANY_TIME, *BEFORE_ATTEMPT), here) or _next_attempt(here, iteration)
    if ruling.done is not None and not here.at.is_skipped:
        ruling = frozen(here) or ruling
    if ruling.done is not None and not here.at.is_skipped:
        ruling = _hooks(here, "stage_end", here.at.completed, ruling.done) or ruling
    elif ruling.failure is not None:
        ruling = _failed(here, ruling.failure)
    if ruling.question is None:
        return ruling
    if ruling.question.at is not None:
        return ruling
    number = iteration.attempts if iteration else ruling.question.number
    return replace(ruling, question=replace(ruling.question, at=here.cursor, number=number))


def _failed(here: StageAt, failure: Failure) -> Ruling:
    if hooks := call_after_failure(here.plan, here.state, here.cursor, failure):
        return hooks
    question = exhausted(here.node, here.at, failure)
    if question is None:
        return Ruling(failure=failure)
    return Ruling(question=replace(question, text=f"{here.who}{question.text}"))


def _asked(gates: tuple[StageGate, ...], here: StageAt) -> Ruling | None:
    """The ruling of the first gate that has one."""
    for gate in gates:
        if (ruling := gate(here)) is not None:
            return ruling
    return None


def _running(here: StageAt) -> Ruling | None:
    task = in_flight_at(here)
    return Ruling(work=(task,)) if task else None


def _asking(here: StageAt) -> Ruling | None:
    """An open question holds the stage that asked it, even if what led to it has changed since: another
    branch, a resume or the clock may have reset a counter."""
    return Ruling() if any(request.kind == "escalation" for request in requests_of(here)) else None


def _over(here: StageAt) -> Ruling | None:
    """A stage stays over while its hooks are called, even if a resume reset what had ended it."""
    reason = end_reason(here.state, here.place.cursor(0)) if here.state.hooks else None
    return Ruling(done=reason) if reason is not None else None


def _failing(here: StageAt) -> Ruling | None:
    """A hook that is called because the stage failed is awaited, even if a resume reset the failure."""
    return call_after_failure(here.plan, here.state, here.cursor)


def _hooks(here: StageAt, point: HookPoint, iteration: int, subject: str = "") -> Ruling | None:
    return call_hooks(here.plan, here.state, point, here.place.cursor(iteration), subject)


# -- between two iterations


def _stage_start(here: StageAt) -> Ruling | None:
    return _hooks(here, "stage_start", 0) if not here.at.completed else None


def _iteration_end(here: StageAt) -> Ruling | None:
    return _hooks(here, "iteration_end", here.at.completed) if here.at.completed else None


def _iteration_start(here: StageAt) -> Ruling | None:
    return _hooks(here, "iteration_start", here.at.completed + 1)


def _preparation_failed(here: StageAt) -> Ruling | None:
    return Ruling(failure=here.at.failure) if here.at.failure is not None else None


def _judge(here: StageAt) -> Ruling | None:
    at = here.at
    if not wants_judge(here.node.termination, at) or here.state.settings.plateau_test or _is_asking(here):
        return None
    if at.judged < at.completed and at.judge_failures >= MAX_JUDGE_FAILURES:
        unheard = f.JudgeResult(stop=False, reason="judge_unreliable")
        return here.record(f.JudgeCompleted("skipped", unheard))
    before = at.calls.get("judge")
    if before is not None and before.is_given_up:
        text = _lost_question(here, f"{before.lost} judges of iteration {at.completed}")
        return Ruling(question=Question("judge_lost", text, number=before.number))
    if asked := _stuck(here):
        return asked
    number = before.number + 1 if before else 1
    judge = here.plan.judge_of(here.node)
    start = Spender(here, judge, "the judge", before)
    reserved = within_day(start, reserve(start), number, "judge")
    if isinstance(reserved, Ruling):
        return reserved
    return here.record(f.JudgeStarted(judge.type, judge.model, number, reserved))


def _queue(here: StageAt) -> Ruling | None:
    if not wants_queue(here.node.termination, here.at) or _is_asking(here):
        return None
    return _stuck(here) or Ruling(work=(QueueTask(here.place, here.node.id, here.at.completed),))


def _end(here: StageAt) -> Ruling | None:
    if _is_asking(here):
        return None
    reason = end_of(here)
    if not reason:
        return None
    if checks := run_checks(here, "end"):
        return checks
    if is_sent_back(here):
        return None
    if files := restored(here, END):
        return files
    return concluded(here, reason) or approval(here) or Ruling(done=reason)


def _judged(here: StageAt) -> Ruling | None:
    """A stage with a verdict is over; the verdict decides what follows."""
    verdict = here.at.verdict
    if verdict is None:
        return None
    if files := rolled_back(here):
        return files
    is_shown = here.at.transition is None and verdict.ended != NOT_NEEDED and leads_onward(here, verdict)
    if is_shown and (asked := approval(here)):
        return asked
    return follow_verdict(here) or Ruling(done=verdict.ended)


def _iteration_checks(here: StageAt) -> Ruling | None:
    return run_checks(here, "iteration") if here.at.completed else None


def _is_asking(here: StageAt) -> bool:
    """An iteration that asks is followed by another, which gets the answers."""
    return here.at.last_decision is Decision.ASK


def _stage_retry_wait(here: StageAt) -> Ruling | None:
    at = here.at
    if at.retry_due is None:
        return None
    return Ruling(work=(Wait("retry", at.retry_due, here.place.cursor(at.completed)),))


def _delay(here: StageAt) -> Ruling | None:
    at, settings = here.at, here.state.settings
    if at.delay_due is not None:
        return Ruling(work=(Wait("delay", at.delay_due, here.place.cursor(at.completed)),))
    own = DEFAULT_DELAY if here.node.delay is None else here.node.delay
    delay = own if settings.delay is None else settings.delay
    if not at.completed or not delay or at.delay_over or at.last_completed_at is None:
        return None
    return here.record(f.DelayStarted(at.last_completed_at + timedelta(seconds=delay)))


def _next_iteration(here: StageAt) -> Ruling:
    return Ruling(
        work=(
            PrepareTask(
                here.place,
                here.node.id,
                here.at.completed + 1,
                node=here.node,
                remaining=here.remaining,
                notes=here.state.notes,
                user_request=here.state.user_request,
                feedback=here.feedback,
                answers=here.at.answers,
                item=next_item(here),
            ),
        )
    )


# -- within an iteration


def _once(here: StageAt, iteration: IterationState, attempt: AttemptState) -> Ruling | None:
    if here.node.semantics != "at_most_once":
        return None
    if not attempt.ended_without_result or attempt.excused:
        return None
    died = "it was stopped" if attempt.status is TaskStatus.CANCELLED else "the engine or the machine died"
    why = attempt.failure.message if attempt.failure else died
    return Ruling(
        question=Question(
            AT_MOST_ONCE,
            f"{here.who}attempt {attempt.number} at iteration {iteration.number} of stage {here.node.id!r}"
            f" failed ({why}) and may have partially run. Retry it ({RETRY}), mark it as done ({SUCCEEDED}),"
            f" or cancel the run ({CANCEL})?",
            (RETRY, SUCCEEDED, RESUME, CANCEL),
        )
    )


def _failure(here: StageAt, iteration: IterationState, attempt: AttemptState) -> Ruling | None:
    if attempt.status is not TaskStatus.FAILED or attempt.excused or attempt.is_at_cap:
        return None
    failed = FailedAttempt(here.node, here.at, iteration, attempt, here.remaining)
    turn = decide_after_failure(failed)
    match turn:
        case Question():
            return Ruling(question=turn)
        case Failure(kind=FailureKind.ITERATION_TIMEOUT):
            # The run's limit may have expired, not the attempt's: a person may extend it.
            return _stuck(here) or runtime_used_up(here) or _stage_failure(here, failed)
        case Failure():
            return _stage_failure(here, failed)
        case _:
            return here.record(turn)


def _stage_failure(here: StageAt, failed: FailedAttempt) -> Ruling:
    again = decide_after_stage_failure(failed)
    return here.record(again) if again else Ruling(failure=failed.failure)


def _retry_wait(here: StageAt, iteration: IterationState, attempt: AttemptState) -> Ruling | None:
    if attempt.due_at is None or attempt.status is not TaskStatus.WAITING:
        return None
    return Ruling(work=(Wait("retry", attempt.due_at, here.place.cursor(iteration.number)),))


def _lost_attempt(here: StageAt, iteration: IterationState, attempt: AttemptState) -> Ruling | None:
    if not attempt.is_given_up:
        return None
    what = f"{attempt.lost} attempts at iteration {iteration.number}"
    return Ruling(question=Question("attempts_lost", _lost_question(here, what)))


def _lost_question(here: StageAt, what: str) -> str:
    why = "because the engine or the machine died"
    return f"{what} of stage {here.node.id!r} were lost in a row {why}. Retry?"


def _after_attempt(here: StageAt) -> Ruling | None:
    iteration = here.at.iteration
    if iteration is None or iteration.attempt is None:
        return None
    for gate in AFTER_ATTEMPT:
        if (ruling := gate(here, iteration, iteration.attempt)) is not None:
            return ruling
    return None


def _next_attempt(here: StageAt, iteration: IterationState) -> Ruling:
    node = here.node
    timeout = tightest(node.timeout, here.remaining)
    choice = choose_in_chain(1 + len(node.fallbacks), here.at, here.state.updated_at)
    provider, agent, number = node.chosen(choice), iteration.agent, iteration.attempts + 1
    start = Spender(here, provider, "the next attempt", iteration.attempt)
    reserved = within_day(start, reserve(start), number, "agent")
    if isinstance(reserved, Ruling):
        return reserved
    continues = agent is not None and agent.choice == choice and agent.continued < MAX_CONTINUED
    return here.record(
        f.AttemptStarted(
            attempt=number,
            of=(node.retry or DEFAULT_POLICY).max_attempts,
            provider=provider.type,
            model=provider.model,
            timeout=timeout,
            idle_timeout=node.idle_timeout,
            choice=choice,
            resume=agent.id if agent and continues else None,
            once=node.semantics == "at_most_once",
            reserves=reserved,
        )
    )


# -- limits of the run


def _stuck(here: StageAt) -> Ruling | None:
    question = stuck(here.state)
    return Ruling(question=question) if question else None


def stuck(state: RunState) -> Question | None:
    """A question if the run was recovered too often; asked only before new tasks start."""
    if not is_stuck(state):
        return None
    return Question(
        STUCK,
        f"the run was recovered {state.recoveries} times without progress: no iteration, check or judgment"
        " was completed in between, and no hook or person answered. Continue?",
        scope="run",
    )


def is_stuck(state: RunState) -> bool:
    return state.recoveries - state.recoveries_excused >= MAX_RECOVERIES


# A restart and a skip end what is running; else that ends first, even if its stage asks something meanwhile.
AT_ANY_TIME: tuple[StageGate, ...] = (restarted, skipped, _running, _asking, _over, _failing)
BETWEEN_ITERATIONS: tuple[StageGate, ...] = (
    # What people were shown stays as it is until they answer.
    awaits_approval,
    rejected,
    _stage_retry_wait,
    _stage_start,
    # A stage that has its verdict is over: none of the gates below may run anything in it again.
    _judged,
    look_first,
    visit_tree,
    tampered,
    baselines,
    checked_before,
    # Hooks may change the context or the files, so the checks come after them.
    _iteration_end,
    _iteration_checks,
    _preparation_failed,
    # No agent runs for an empty list.
    plan_items,
    # An iteration that asks is followed by another one. It is not judged, and can't be the last.
    asked_by_agent,
    # Its item is over when its checks have run.
    item_over,
    # What the end depends on: both are tasks, whose outcomes must be known first.
    _judge,
    _queue,
    _end,
    # Limits are about new work only: a stage that is complete needs no person to extend them.
    _stuck,
    runtime_used_up,
    _delay,
    # The last, so that nothing stands between a hook's answer and the iteration that it is about.
    _iteration_start,
)
BEFORE_DELIVERY: tuple[StageGate, ...] = (_stage_start, look_first, _stuck)
BEFORE_ATTEMPT: tuple[StageGate, ...] = (_after_attempt, _stuck, runtime_used_up)
# Whether a stage may repeat work at all is asked before why it failed.
AFTER_ATTEMPT: tuple[AttemptGate, ...] = (_once, _failure, _retry_wait, _lost_attempt)
