"""Gates that call hooks: the user's own code and services, at the points of a run.

The hooks of a point are called one after another. Each call is a task; its answer is a fact, so that no hook
is called again that has answered. What follows from an answer is decided here.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import assert_never

from msgspec import Struct

from agentforge.engine.conditions import ConditionError, Values, evaluate
from agentforge.engine.decide.requests import Question, Ruling
from agentforge.engine.decide.stage_at import Flight
from agentforge.engine.evolve.hooks import BY, TIMER
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Draft
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.hook import CALL_POINTS, Hook, HookPoint, delivery_id
from agentforge.model.place import Place, branch_folder
from agentforge.model.plan import ParallelNode, Plan, SandboxChoice, StageNode
from agentforge.model.request import ABORT, CONTINUE, RETRY, Request
from agentforge.model.state import HookCall, HookProgress, RunState, StageState, hook_host
from agentforge.model.status import TaskStatus
from agentforge.model.task import HookTask, Wait

MAX_LOST_CALLS = 3
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


class HookSite(Struct, frozen=True):
    """A hook point of the run, a block, a branch or a stage, with everything that a call depends on."""

    plan: Plan
    state: RunState
    point: HookPoint
    at: Cursor | None
    hooks: tuple[Hook, ...]
    subject: str = ""

    @property
    def progress(self) -> HookProgress | None:
        return self.state.hook_progress(hook_host(self.point, self.at, self.subject))

    @property
    def node(self) -> StageNode | ParallelNode | None:
        if self.at is None:
            return None
        return self.plan.stage(self.at.node_path, self.at.provider) or self.plan.by_path.get(
            self.at.node_path
        )

    @property
    def provider(self) -> str:
        """The branch, or who runs the stage; empty outside of both."""
        branch = self.at.provider if self.at else None
        return branch or (self.node.provider.type if isinstance(self.node, StageNode) else "")

    @property
    def stage(self) -> StageState | None:
        """The stage that has completed iterations here, or None."""
        known = self.state.stage(self.at.provider) if self.at else None
        is_here = known and self.at and (known.path, known.run) == (self.at.node_path, self.at.node_run)
        return known if is_here else None

    @property
    def request(self) -> Request | None:
        if self.point != "request":
            return None
        return next((request for request in self.state.requests if request.id == self.subject), None)

    def record(self, *facts: f.AnyFact) -> Ruling:
        return Ruling(tuple(Draft(fact, self.at) for fact in facts))


def site(
    plan: Plan, state: RunState, point: HookPoint, at: Cursor | None = None, subject: str = ""
) -> HookSite | None:
    """None if there are no hooks."""
    path = at.node_path if at and point not in CALL_POINTS else ""
    hooks = plan.hooks(point, path)
    return HookSite(plan, state, point, at, hooks, subject) if hooks else None


def call_hooks(
    plan: Plan, state: RunState, point: HookPoint, at: Cursor | None = None, subject: str = ""
) -> Ruling | None:
    """The next step with the hooks of a point, or None if there are none or all have answered."""
    here = site(plan, state, point, at, subject)
    if here is None:
        return None
    progress, iteration = here.progress, at.iteration if at else 0
    if progress is not None and not progress.is_at(point, iteration):
        if _is_before(point, iteration, progress):
            return None
        progress = None
    if progress is not None and progress.call is not None:
        return _calling(here, progress.call)
    done = progress.done if progress else ()
    for hook in here.hooks:
        holds = hook.id not in done and _holds(here, hook)
        if isinstance(holds, ConditionError):
            return _skip(here, hook.id, f"its condition has no value: {holds.message}")
        if holds:
            return _call(here, hook, 1)
    return None


def _holds(here: HookSite, hook: Hook) -> bool | ConditionError:
    if hook.condition is None:
        return True
    at, node = here.at, here.node
    values: Values = {
        "iteration": at.iteration if at else 0,
        "stage": node.id if node else "",
        "session": here.state.session,
        "provider": here.provider,
        "status": "running" if here.point.endswith("_start") else "completed",
        "event": here.point,
    }
    return evaluate(hook.condition, values)


def _is_before(point: HookPoint, iteration: int, progress: HookProgress) -> bool:
    """Whether the stage has passed the point."""
    return _rank(point, iteration) < _rank(progress.point, progress.at.iteration if progress.at else 0)


def _rank(point: HookPoint, iteration: int) -> tuple[int, int, int]:
    return int(point == "stage_end"), 0 if point == "stage_start" else iteration, _ORDER.get(point, 0)


def end_reason(state: RunState, at: Cursor) -> str | None:
    """Why a stage is over whose hooks are being called for that, or None."""
    progress = state.hook_progress(hook_host("stage_end", at)) if state.hooks else None
    return progress.subject if progress and progress.point == "stage_end" else None


# -- calling


def _call(here: HookSite, hook: Hook, number: int) -> Ruling:
    delivery = delivery_id(here.state.run_id, here.at, hook.id, here.point, _named(here))
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


def _named(here: HookSite) -> str:
    """What tells calls at one place apart; a stage is over only once."""
    return "" if here.point == "stage_end" else here.subject


def _calling(here: HookSite, call: HookCall) -> Ruling:
    hook = next((hook for hook in here.hooks if hook.id == call.hook), None)
    if hook is None:
        return _skip(here, call.hook, "the plan no longer has it")
    if call.in_flight:
        return Ruling(work=(_task(here, hook, call),))
    if call.effect:
        return here.record(_effect_closed(here, hook, call))
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
            return _call(here, hook, call.number + 1)


def _task(here: HookSite, hook: Hook, call: HookCall) -> HookTask:
    at, node = here.at or Cursor("", 1, 0), here.node
    resumption = here.state.resumption if here.point == "resume" else None
    return HookTask(
        Place(at.node_path, at.node_run, "", at.provider, _scope(here)),
        node.id if node else "",
        at.iteration,
        call.number,
        call.status is TaskStatus.ENDING,
        hook=hook,
        delivery=call.delivery,
        started_at=call.started_at,
        at=here.at,
        provider=here.provider,
        notes=here.state.note_texts,
        request=here.request,
        text=resumption.text if resumption else "",
        sandbox=_sandbox(here),
    )


def _scope(here: HookSite) -> str:
    """The folder of the branch, or empty outside of a block."""
    block, provider = here.state.block, here.at.provider if here.at else None
    if block is None or provider is None or block.path not in here.plan.places:
        return ""
    return branch_folder(here.plan, block, provider)


def _sandbox(here: HookSite) -> SandboxChoice | None:
    """That of the stage; outside of stages, that of the stage before or after it."""
    if isinstance(here.node, StageNode):
        return here.node.sandbox
    stages = [stage for step in here.plan.steps for stage in step.stages]
    path = here.at.node_path if here.at else None
    if path in here.plan.places:
        stages = list(here.plan.places[path].stages)
    return stages[-1 if here.point == "session_end" else 0].sandbox


def _effect_closed(here: HookSite, hook: Hook, call: HookCall) -> f.EffectDone | f.EffectReconciled:
    if call.status in (TaskStatus.LOST, TaskStatus.CANCELLED):
        return f.EffectReconciled(
            call.delivery,
            "webhook",
            call.number,
            found="unknown" if call.started else "absent",
            then="ask" if _asks(here, hook, call) else "repeat",
        )
    is_done = call.status is TaskStatus.SUCCEEDED
    return f.EffectDone(call.delivery, "webhook", call.number, outcome="done" if is_done else "failed")


# -- what follows


def _answered(here: HookSite, hook: Hook, call: HookCall) -> Ruling:
    if refused := _refusal(here, call):
        return _skip(here, hook.id, refused, answered=True)
    match call.outcome:
        case "pause":
            return Ruling(question=_pause(here, hook, call))
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
        case "pause" if here.point in ("session_end", "request"):
            return f"`pause` is not possible at {here.point}"
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
    if request.grants and call.answer.isdigit() and int(call.answer) > limit:
        return f"hooks may grant at most {limit} {request.grants}, got {call.answer}"
    return ""


def grant_limit(plan: Plan, request: Request) -> int:
    """How much a hook may grant: what the plan itself allows."""
    stage = plan.stage(request.at.node_path, request.at.provider) if request.at else None
    if request.grants == "seconds":
        limits = (plan.pipeline.guardrails, stage.guardrails if stage else None)
        return int(max((limit.max_runtime_seconds or 0 for limit in limits if limit), default=0))
    if request.reason == "approval_rounds" and stage and stage.approve:
        return stage.approve.rounds
    return 3


def _pause(here: HookSite, hook: Hook, call: HookCall) -> Question:
    reason = "hook_confirm" if hook.action == "confirm" else "hook_pause"
    text = call.reason or hook.message or f"Hook {hook.id!r} paused the run. Continue?"
    return _question(here, hook, reason, text, (CONTINUE, ABORT))


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
        return Ruling(
            question=Question(
                "hook_restarts",
                f"Hooks restarted stage {here.node.id!r} {stage.hook_restarts} times. Restart it again?",
                at=here.at,
                grants="rounds",
            )
        )
    reason = call.reason or f"requested by hook {hook.id}"
    provider = here.at.provider if here.at else None
    return here.record(f.RestartRequested(reason, f"{BY}{hook.id}", provider, hook=hook.id))


def _failed(here: HookSite, hook: Hook, call: HookCall) -> Ruling:
    if call.is_retryable and call.failures < hook.max_tries:
        is_replay = here.state.settings.replay is not None
        delay = 0 if is_replay else min(MAX_DELAY, FIRST_DELAY * 2 ** (call.failures - 1))
        due_at = (call.ended_at or here.state.updated_at) + timedelta(seconds=delay)
        return here.record(
            f.HookRetryScheduled(hook.id, here.point, call.delivery, call.number, due_at=due_at)
        )
    policy = hook.on_timeout if call.timed_out else hook.on_failure
    if here.point in ("session_end", "request") and policy == "pause":
        policy = "continue"
    match policy:
        case "continue":
            return _skip(here, hook.id, f"it failed: {call.message}")
        case "fail":
            why = f"hook {hook.id!r} failed: {call.message}"
            return Ruling(failure=Failure(FailureKind.HOOK_FAILED, why))
        case "pause":
            text = f"Hook {hook.id!r} failed: {call.message}. Continue without it, retry, or abort?"
            options = (CONTINUE, RETRY, ABORT)
            return Ruling(question=_question(here, hook, f"hook_{hook.action}_failed", text, options))
        case _:
            assert_never(policy)


def _asks(here: HookSite, hook: Hook, call: HookCall) -> bool:
    """Whether a person decides about a lost call."""
    if here.point in ("session_end", "request"):
        return False
    return (call.started and hook.on_lost == "pause") or call.lost >= MAX_LOST_CALLS


def _lost(here: HookSite, hook: Hook, call: HookCall) -> Ruling:
    if not _asks(here, hook, call):
        if call.lost < MAX_LOST_CALLS:
            return _call(here, hook, call.number + 1)
        return _skip(here, hook.id, f"{call.lost} calls were lost in a row")
    why = "the run was stopped" if call.status is TaskStatus.CANCELLED else "the engine or the machine died"
    text = (
        f"The answer of hook {hook.id!r} was lost, because {why}. Its effect is unknown."
        " Continue without it, retry, or abort?"
    )
    return Ruling(question=_question(here, hook, "hook_lost", text, (CONTINUE, RETRY, ABORT)))


def _skip(here: HookSite, hook: str, reason: str, *, answered: bool = False) -> Ruling:
    return here.record(f.HookSkipped(hook, here.point, reason, here.subject, answered))


# -- calls in flight, wherever they are


def calls_in_flight(plan: Plan, state: RunState, at: Cursor | None = None) -> Iterator[Flight]:
    """The hooks that are being called, as tasks to await or to stop; with `at`, only those of that stage."""
    for progress in state.hooks:
        call = progress.call
        if call is None or not call.in_flight:
            continue
        if at is not None and progress.host != hook_host(progress.point, at):
            continue
        here = site(plan, state, progress.point, progress.at, progress.subject)
        hook = next((hook for hook in here.hooks if hook.id == call.hook), None) if here else None
        if here is not None and hook is not None:
            yield _task(here, hook, call), call
