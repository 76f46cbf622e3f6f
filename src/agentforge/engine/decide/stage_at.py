"""A stage in progress, as the gates see it: its plan, its state, its limits and its tasks."""

from typing import Literal, assert_never

from msgspec import Struct

from agentforge.engine.checks.feedback import failing_text
from agentforge.engine.decide.requests import Question, Ruling
from agentforge.model import facts as f
from agentforge.model.check import Check
from agentforge.model.cursor import Destination
from agentforge.model.event import Draft
from agentforge.model.failure import FailureKind
from agentforge.model.place import Place, place_of
from agentforge.model.plan import Plan, StageNode
from agentforge.model.request import Feedback
from agentforge.model.state import AttemptState, CheckRecord, IterationState, RunState, StageState, TaskState
from agentforge.model.status import TaskStatus
from agentforge.model.task import AgentTask, CheckTask, HookTask, JudgeTask

DEFAULT_CHECK_TIMEOUT = 600.0
BY_CHECKS = "checks"
"""Who gives the feedback of failing checks."""


class StageAt(Struct, frozen=True):
    """A stage in progress, with everything that a decision depends on."""

    plan: Plan
    state: RunState
    place: Place
    node: StageNode
    at: StageState
    remaining: float | None
    """The seconds that the runtime limit leaves as of the latest event, or None without a limit."""

    def record(self, fact: f.AnyFact) -> Ruling:
        number = self.at.iteration.number if self.at.iteration else self.at.completed
        return Ruling((Draft(fact, self.place.cursor(number)),))

    def is_waived(self, check: str) -> bool:
        return any(waiver.check == check for waiver in self.state.waivers)

    @property
    def waived(self) -> tuple[str, ...]:
        """The checks of the stage that don't count."""
        return tuple(check.name for check in self.node.checks if self.is_waived(check.name))

    def outcome_of(self, check: Check) -> CheckRecord | None:
        """The outcome of a check after the completed iterations, or None. One that the runtime limit of the
        run ended has no outcome."""
        found = next((known for known in self.at.checks if known.check == check.name), None)
        if found is None or found.iteration != self.at.completed:
            return None
        is_ended_by_run = found.timeout is not None and found.timeout < check_timeout(check)
        return None if found.status == "timeout" and is_ended_by_run else found

    @property
    def failing(self) -> list[CheckRecord]:
        """The checks that fail on the work as it is."""
        known = (self.outcome_of(check) for check in self.node.checks)
        return [each for each in known if each and each.fails and not self.is_waived(each.check)]

    @property
    def feedback(self) -> Feedback | None:
        """What the next iteration is told: which checks fail, else what was said about the visit before."""
        failed = self.failing
        return Feedback(failing_text(failed), BY_CHECKS) if failed else self.at.feedback


def visit_again(
    here: StageAt,
    cause: Literal["rejected", "requested"],
    reason: str,
    *,
    by: str,
    round: int,
    feedback: Feedback | None,
) -> f.NodeRestarted:
    """End this visit and begin another; a branch has no destination of its own."""
    to = Destination(here.place.path, here.state.rounds) if here.place.branch is None else None
    return f.NodeRestarted(here.node.id, cause, reason, by, here.at.completed, round, feedback, to)


Flight = tuple[AgentTask | JudgeTask | HookTask | CheckTask, TaskState]


def stage_in(plan: Plan, state: RunState, place: Place, node: StageNode, at: StageState) -> StageAt:
    limit, remaining = state.runtime_granted or max_runtime(plan, node), None
    if limit is not None:
        remaining = max(0.0, limit - (state.updated_at - state.clock_from).total_seconds())
    return StageAt(plan, state, place, node, at, remaining)


def stage_at(plan: Plan, state: RunState, provider: str | None, at: StageState) -> StageAt | None:
    """None if a damaged log names a stage that isn't in the plan."""
    node, place = plan.stage(at.path, provider), place_of(plan, state, provider, at)
    return stage_in(plan, state, place, node, at) if node and place else None


def in_flight(here: StageAt) -> Flight | None:
    """The task that was started and hasn't ended: it is awaited, reattached to after a crash, or stopped. A
    recorded kill is carried out even if another engine recorded it."""
    iteration, judge = here.at.iteration, here.at.judge
    if iteration is not None and iteration.attempt is not None and iteration.attempt.in_flight:
        return agent_task(here, iteration, iteration.attempt), iteration.attempt
    if judge is not None and judge.in_flight:
        return judge_task(here, judge), judge
    return _check_in_flight(here)


def _check_in_flight(here: StageAt) -> Flight | None:
    call = here.at.check
    if call is None or not call.in_flight:
        return None
    check = here.node.check(call.check)
    if check is None:  # a damaged log
        return None
    task = CheckTask(
        here.place,
        here.node.id,
        here.at.completed,
        call.number,
        call.status is TaskStatus.ENDING,
        node=here.node,
        check=check,
        started_at=call.started_at,
        timeout=call.timeout,
        before=call.before,
    )
    return task, call


def agent_task(here: StageAt, iteration: IterationState, attempt: AttemptState) -> AgentTask:
    return AgentTask(
        here.place,
        here.node.id,
        iteration.number,
        attempt.number,
        attempt.status is TaskStatus.ENDING,
        node=here.node,
        by=here.node.chosen(attempt.choice),
        started_at=attempt.started_at,
        timeout=attempt.timeout,
        idle_timeout=attempt.idle_timeout,
        resume=attempt.resume,
        before=attempt.before,
        prompt_sha256=iteration.prompt_sha256,
        brief=FailureKind.ITERATION_TIMEOUT in iteration.failures,
        remaining=here.remaining,
        notes=here.state.notes,
        feedback=here.feedback,
        answers=here.at.answers,
    )


def judge_task(here: StageAt, judge: TaskState) -> JudgeTask:
    ending = judge.status is TaskStatus.ENDING
    at, by = here.at.completed, here.plan.judge_of(here.node)
    return JudgeTask(
        here.place, here.node.id, at, judge.number, ending, node=here.node, by=by, started_at=judge.started_at
    )


def ended(flight: Flight, reason: str) -> Draft | None:
    """The fact that stops the task, or None if that is recorded already."""
    task, known = flight
    if known.status is not TaskStatus.RUNNING:
        return None
    match task:
        case AgentTask():
            return Draft(f.AttemptEnding(known.number, reason), task.cursor)
        case JudgeTask():
            return Draft(f.JudgeEnding(known.number, reason), task.cursor)
        case CheckTask(check=check):
            return Draft(f.CheckEnding(check.name, known.number, reason), task.cursor)
        case HookTask(hook=hook):
            ending = f.HookEnding(hook.id, hook.point, task.delivery, known.number, reason=reason)
            return Draft(ending, task.at)
        case _:
            assert_never(task)


def check_timeout(check: Check) -> float:
    return DEFAULT_CHECK_TIMEOUT if check.timeout is None else check.timeout


def runtime_used_up(here: StageAt) -> Ruling | None:
    """The question whether the runtime limit is extended."""
    if here.remaining != 0.0:
        return None
    limit = here.state.runtime_granted or max_runtime(here.plan, here.node)
    text = f"the runtime limit of {limit:g} s is used up. Extend it by the same amount?"
    return Ruling(question=Question("runtime_limit", text, scope="run", grants="seconds"))


def max_runtime(plan: Plan, node: StageNode) -> float | None:
    """The lower of the limits of the run and the stage, or None."""
    run, stage = plan.pipeline.guardrails, node.guardrails
    return tightest(run.max_runtime_seconds if run else None, stage.max_runtime_seconds if stage else None)


def tightest(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
