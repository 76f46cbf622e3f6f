"""Gates that call hooks: the user's own code and services, at the points of a run.

The hooks of a point are called one after another. Each call is a task; its answer is a fact, so that no hook
is called again that has answered. What follows from an answer is decided here.
"""

# Theory of operation
#
# A call has one delivery id for all its tries, made of the run, the place, the hook and the point, so that a
# service can recognise a repeat. `hook_start` is durable before the call, and the effect of a webhook has an
# intent and an end of its own: if the engine dies in between, what is unknown is recorded as unknown, and
# `on_lost` decides whether to repeat or to ask. Nothing else could: only the service knows what it did.
#
# The state keeps the progress at one point for each host: the run, a block, a branch or a stage. Points come
# in an order (`_rank`), so a point that the host has passed is not called again, and arriving at a later one
# replaces the progress. That bounds the state, and a gate needs no record of all the calls before it.
#
# Hooks are other people's code. What isn't possible at a point is skipped with its reason, and restarts,
# answers and grants have limits: a hook that answers every request would keep a run going for ever.

from collections.abc import Iterator
from datetime import timedelta
from typing import Literal, assert_never

from agentforge.engine.conditions import ConditionError, Values, evaluate
from agentforge.engine.decide.caps import cap_in_plan
from agentforge.engine.decide.hook_site import HookSite, hook_task, new_delivery, site
from agentforge.engine.decide.requests import Question, Ruling
from agentforge.engine.evolve.hooks import BY, TIMER
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.hook import Hook, HookPoint
from agentforge.model.plan import Plan
from agentforge.model.request import ABORT, ACCEPT, CANCEL, CONTINUE, RESUME, RETRY, Request, granted
from agentforge.model.spending import SPENDING_CAP
from agentforge.model.state import FAILED, HookCall, RunState, hook_host
from agentforge.model.status import TaskStatus
from agentforge.model.task import HookTask, Wait

MAX_HOOK_RESTARTS = 10
"""How often hooks may start one stage over, before a person decides whether they may again."""
MAX_HOOK_ANSWERS = 20
"""How many requests hooks may answer in a row, before a person answers one."""
FIRST_DELAY, MAX_DELAY = 1.0, 30.0
"""Seconds before a retry: the delay doubles each time."""

_ORDER: dict[HookPoint, int] = {
    "iteration_start": 1,
    "iteration_end": 2,
    "stage_end": 3,
    "parallel_provider_end": 3,
}
"""At the same iteration; all other points come first."""


LostThen = Literal["repeat", "ask", "skip"]


def call_hooks(
    plan: Plan, state: RunState, point: HookPoint, at: Cursor | None = None, subject: str = ""
) -> Ruling | None:
    """The next step with the hooks of a point, or None if there are none or all have answered."""
    here = site(plan, state, point, at, subject)
    if here is None:
        return None
    progress, iteration = here.progress, at.iteration if at else 0
    if progress is not None and not progress.is_at(point, iteration):
        now_at = _rank(progress.point, progress.at.iteration if progress.at else 0)
        if _rank(point, iteration) < now_at:
            return None  # The stage has passed the point.
        progress = None
    if progress is not None and progress.call is not None:
        return _calling(here, progress.call)
    done = progress.done if progress else ()
    for hook in here.hooks:
        holds = hook.id not in done and _holds(here, hook)
        if isinstance(holds, ConditionError):
            return _skip(here, hook.id, f"its condition has no value: {holds.message}")
        if holds:
            return _call(here, hook)
    return None


def _holds(here: HookSite, hook: Hook) -> bool | ConditionError:
    if here.is_failed and hook.action in ("pause", "confirm"):
        return False  # The run doesn't continue from here.
    if hook.condition is None:
        return True
    at, node = here.at, here.node
    values: Values = {
        "iteration": at.iteration if at else 0,
        "stage": node.id if node else "",
        "session": here.state.session,
        "provider": here.provider,
        "status": here.status,
        "event": here.point,
    }
    return evaluate(hook.condition, values)


def _rank(point: HookPoint, iteration: int) -> tuple[int, int, int]:
    return int(point == "stage_end"), 0 if point == "stage_start" else iteration, _ORDER.get(point, 0)


def end_reason(state: RunState, at: Cursor) -> str | None:
    """Why a stage is over whose hooks are being called for that, or None."""
    progress = state.hook_progress(hook_host("stage_end", at)) if state.hooks else None
    return progress.subject if progress and progress.point == "stage_end" else None


def call_after_failure(
    plan: Plan, state: RunState, at: Cursor, failure: Failure | None = None
) -> Ruling | None:
    """The next step with the hooks that are called because a stage or a block failed. `failure`: why; None:
    only with the call that is under way, as the stage may have been resumed meanwhile."""
    subject = f"{FAILED}{failure.kind.value}" if failure else FAILED
    known = state.hook_progress(hook_host("stage_end", at, subject)) if state.hooks else None
    if failure is None and (known is None or known.call is None):
        return None
    return call_hooks(plan, state, "stage_end", at, subject)


# -- calling


def _call(here: HookSite, hook: Hook, before: HookCall | None = None) -> Ruling:
    """`before`: its latest try."""
    number = before.number + 1 if before else 1
    delivery = before.delivery if before else new_delivery(here, hook)
    started = f.HookStarted(
        hook.id,
        here.point,
        delivery,
        number,
        action=hook.action,
        timeout=hook.seconds,
        subject=here.subject,
    )
    if hook.action in ("pause", "confirm"):
        paused = f.HookCompleted(hook.id, here.point, delivery, number, action="pause")
        return here.record(started, paused)
    if hook.action != "webhook":
        return here.record(started)
    return here.record(started, f.EffectIntended(delivery, "webhook", hook.url or "", number))


def _calling(here: HookSite, call: HookCall) -> Ruling:
    hook = here.hook(call.hook)
    if hook is None:
        # A recompiled plan keeps the hooks whose scripts are running, so nothing runs unnoticed.
        closed = _effect_closed(call, "skip") if call.effect else None
        return here.record(closed) if closed else _skip(here, call.hook, "the plan no longer has it")
    if call.in_flight:
        return Ruling(work=(hook_task(here, hook, call),))
    if call.effect:
        return here.record(_effect_closed(call, _then(here, hook, call)))
    match call.status:
        case TaskStatus.SUCCEEDED:
            return _answered(here, hook, call)
        case TaskStatus.FAILED:
            return _failed(here, hook, call)
        case TaskStatus.WAITING if call.due_at is not None:
            return Ruling(work=(Wait(f"{TIMER}{call.delivery}", call.due_at, here.at),))
        case TaskStatus.LOST | TaskStatus.CANCELLED:
            return _lost(here, hook, call)
        case _:
            return _call(here, hook, call)


def _effect_closed(call: HookCall, then: LostThen) -> f.EffectDone | f.EffectReconciled:
    """`then`: what follows if its outcome was lost."""
    if call.status in (TaskStatus.SUCCEEDED, TaskStatus.FAILED):
        is_done = call.status is TaskStatus.SUCCEEDED
        return f.EffectDone(call.delivery, "webhook", call.number, outcome="done" if is_done else "failed")
    found: Literal["unknown", "absent"] = "unknown" if call.started else "absent"
    return f.EffectReconciled(call.delivery, "webhook", call.number, found=found, then=then)


# -- what follows


def _answered(here: HookSite, hook: Hook, call: HookCall) -> Ruling:
    if refused := _refusal(here, call):
        return _skip(here, hook.id, refused, answered=True)
    match call.outcome:
        case "pause":
            reason = "hook_confirm" if hook.action == "confirm" else "hook_pause"
            text = call.reason or hook.message or f"Hook {hook.id!r} paused the run. Continue?"
            return Ruling(question=_question(here, hook, reason, text, (CONTINUE, ABORT)))
        case "abort":
            return here.record(f.CancelRequested(call.reason or f"hook {hook.id} aborted the run"))
        case "restart_stage":
            return _restart(here, hook, call)
        case _:
            # All that is left is `answer`: a call that answered `continue` is settled.
            assert here.request is not None
            return here.record(f.RequestAnswered(here.request.id, call.answer, f"{BY}{hook.id}", call.text))


def _refusal(here: HookSite, call: HookCall) -> str:
    """Why the hook's answer can't be followed here; empty if it can."""
    match call.outcome:
        case "pause" if here.is_last:
            return f"`pause` is not possible {'after a failure' if here.is_failed else f'at {here.point}'}"
        case "restart_stage" if here.stage is None or not here.stage.completed:
            return "`restart_stage` is only possible after an iteration of a stage"
        case "answer":
            return _answer_refusal(here, call)
        case _:
            return ""


def _answer_refusal(here: HookSite, call: HookCall) -> str:
    request = here.request
    if request is None:
        return "`answer` is only possible for a request"
    if not request.accepts(call.answer):
        return f"{call.answer!r} is not an answer to the request"
    if here.state.hook_answers > MAX_HOOK_ANSWERS:
        return f"hooks have answered {MAX_HOOK_ANSWERS} requests in a row; a person must answer this one"
    limit = grant_limit(here.plan, request)
    if request.grants and granted(call.answer, request.grants) > limit:
        return f"hooks may grant at most {limit:g} {request.grants}, got {call.answer}"
    return ""


def grant_limit(plan: Plan, request: Request) -> float:
    """How much a hook may grant: what the plan itself allows."""
    stage = plan.stage(request.at.node_path, request.at.provider) if request.at else None
    if request.reason == SPENDING_CAP:
        return cap_in_plan(plan, request.subject)
    if request.grants == "seconds":
        limits = (plan.pipeline.guardrails, stage.guardrails if stage else None)
        return int(max((limit.max_runtime_seconds or 0 for limit in limits if limit), default=0))
    if request.reason == "approval_rounds" and stage and stage.approve:
        return stage.approve.rounds
    return 3


def _question(here: HookSite, hook: Hook, reason: str, text: str, options: tuple[str, ...]) -> Question:
    return Question(
        reason,
        f"{here.at.provider}: {text}" if here.at and here.at.provider else text,
        options,
        scope="run" if here.at is None else "branch",
        at=here.at,
        kind="pause",
        subject=hook.id,
    )


def _restart(here: HookSite, hook: Hook, call: HookCall) -> Ruling:
    stage = here.stage
    if stage is not None and here.node is not None and stage.hook_restarts >= MAX_HOOK_RESTARTS:
        text = f"Hooks restarted stage {here.node.id!r} {stage.hook_restarts} times. Restart it once more"
        text += f" ({RETRY}), continue without a restart ({ACCEPT}), or cancel ({CANCEL})?"
        options = (RETRY, ACCEPT, RESUME, CANCEL)
        return Ruling(question=Question("hook_restarts", text, options, subject=hook.id, grants="rounds"))
    reason = call.reason or f"requested by hook {hook.id}"
    provider = here.at.provider if here.at else None
    return here.record(f.RestartRequested(reason, f"{BY}{hook.id}", provider, hook=hook.id))


def _failed(here: HookSite, hook: Hook, call: HookCall) -> Ruling:
    if call.is_retryable and call.failures < hook.max_tries:
        is_replay = here.state.settings.replay is not None
        delay = 0 if is_replay else retry_delay(call.failures)
        due_at = (call.ended_at or here.state.updated_at) + timedelta(seconds=delay)
        return here.record(
            f.HookRetryScheduled(hook.id, here.point, call.delivery, call.number, due_at=due_at)
        )
    policy = hook.on_timeout if call.timed_out else hook.on_failure
    if (here.is_last and policy == "pause") or here.is_failed:
        policy = "continue"
    match policy:
        case "continue":
            return _skip(here, hook.id, call.message if call.timed_out else f"it failed: {call.message}")
        case "fail":
            why = f"hook {hook.id!r} failed: {call.message}"
            return Ruling(failure=Failure(FailureKind.HOOK_FAILED, why))
        case "pause":
            text = f"Hook {hook.id!r} failed: {call.message}. Continue without it, retry, or abort?"
            options = (CONTINUE, RETRY, ABORT)
            return Ruling(question=_question(here, hook, f"hook_{hook.action}_failed", text, options))
        case _:
            assert_never(policy)


def retry_delay(failures: int) -> float:
    return min(MAX_DELAY, FIRST_DELAY * 2.0 ** (failures - 1))


def _then(here: HookSite, hook: Hook, call: HookCall) -> LostThen:
    """What follows a lost call."""
    if here.is_last:
        return "skip" if call.is_given_up else "repeat"
    return "ask" if call.is_given_up or (call.started and hook.on_lost == "pause") else "repeat"


def _lost(here: HookSite, hook: Hook, call: HookCall) -> Ruling:
    then = _then(here, hook, call)
    if then == "ask":
        stopped = call.status is TaskStatus.CANCELLED
        why = "the run was stopped" if stopped else "the engine or the machine died"
        text = (
            f"The answer of hook {hook.id!r} was lost, because {why}. Its effect is unknown."
            " Continue without it, retry, or abort?"
        )
        return Ruling(question=_question(here, hook, "hook_lost", text, (CONTINUE, RETRY, ABORT)))
    if then == "skip":
        return _skip(here, hook.id, f"{call.lost} calls were lost in a row")
    return _call(here, hook, call)


def _skip(here: HookSite, hook: str, reason: str, *, answered: bool = False) -> Ruling:
    return here.record(f.HookSkipped(hook, here.point, reason, here.subject, answered))


# -- calls in flight, wherever they are


def calls_in_flight(plan: Plan, state: RunState, at: Cursor | None = None) -> Iterator[HookTask]:
    """The hooks that are being called, as tasks to await or to stop; with `at`, only those of that stage."""
    for progress in state.hooks:
        call = progress.call
        if call is None or not call.in_flight:
            continue
        if at is not None and progress.host != hook_host(progress.point, at, progress.subject):
            continue
        here = site(plan, state, progress.point, progress.at, progress.subject)
        hook = here.hook(call.hook) if here else None
        if here is not None and hook is not None:
            yield hook_task(here, hook, call)
