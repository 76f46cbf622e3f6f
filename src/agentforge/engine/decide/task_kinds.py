"""One row per kind of task: its facts, and how a task in flight is made of the state of its stage.

A task in flight was started and hasn't ended: it is awaited, reattached to after a crash, or ended.

What holds for every task is written for the base classes of the facts (`model/facts/fact.py`). A kind without
an intent is idempotent: it is started again after a crash.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from agentforge.engine.decide.deliver import deliver_task
from agentforge.engine.decide.hooks import calls_in_flight
from agentforge.engine.decide.stage_at import StageAt, stage_at
from agentforge.model import facts as f
from agentforge.model.course import CourseStepKind
from agentforge.model.event import Draft
from agentforge.model.failure import FailureKind
from agentforge.model.plan import Plan
from agentforge.model.state import AttemptState, RunState, TaskState
from agentforge.model.status import TaskStatus
from agentforge.model.task import AgentTask, CheckTask, DeliverTask, FilesTask, JudgeTask, StartedTask


def _agent(here: StageAt, attempt: TaskState) -> AgentTask | None:
    iteration = here.at.iteration
    assert iteration is not None
    assert isinstance(attempt, AttemptState)
    return AgentTask(
        **_started(here, attempt, iteration.number),
        by=here.node.chosen(attempt.choice),
        budget=attempt.reserved,
        idle_timeout=attempt.idle_timeout,
        resume=attempt.resume,
        before=attempt.before,
        prompt_sha256=iteration.prompt_sha256,
        brief=FailureKind.ITERATION_TIMEOUT in iteration.failures,
        remaining=here.remaining,
        notes=here.state.notes,
        user_request=here.state.user_request,
        feedback=here.feedback,
        answers=here.at.answers,
        item=here.item_at(iteration.item),
        invalid=iteration.invalid,
    )


def _judge(here: StageAt, call: TaskState) -> JudgeTask | None:
    judge = here.plan.judge_of(here.node)
    return JudgeTask(**_started(here, call, here.at.completed), by=judge, budget=call.reserved)


def _check(here: StageAt, call: TaskState) -> CheckTask | None:
    own, baseline = here.node.check(call.about), here.plan.baselines.get(call.about)
    started = _started(here, call, here.at.completed)
    if own is not None:
        item, found = here.at.item, here.baseline(own)
        return CheckTask(**started, check=own, before=call.files, base=here.base, item=item, found=found)
    if baseline is None:  # a damaged log
        return None
    node, check = baseline
    return CheckTask(**{**started, "node": node}, check=check, before=call.files, baseline=True)


def _deliver(here: StageAt, call: TaskState) -> DeliverTask | None:
    started = _started(here, call, here.at.completed)
    del started["node"]
    return deliver_task(here, call, **started)


def _files(here: StageAt, call: TaskState) -> FilesTask | None:
    action, _, subject = call.about.partition(" ")
    return FilesTask(
        **_started(here, call, here.at.completed),
        action=action,  # type: ignore[arg-type]
        subject=subject,
        began=here.at.began,
        frozen=tuple(here.state.frozen.values()),
        restorations=here.state.restorations,
        prepared=call.files.tree,
        paths=call.paths,
    )


def _started(here: StageAt, task: TaskState, iteration: int) -> dict[str, Any]:
    """What every started task of a stage has."""
    return {
        "place": here.place,
        "name": here.node.id,
        "iteration": iteration,
        "attempt": task.number,
        "ending": task.status is TaskStatus.ENDING,
        "node": here.node,
        "started_at": task.started_at,
        "timeout": task.timeout,
    }


class Kind(Struct, frozen=True):
    step: CourseStepKind
    """In the course of a run."""
    outcomes: tuple[type[f.AnyFact], ...]
    ending: Callable[..., f.AnyFact] | None = None
    """Of a kind with an intent: the fact before a task is stopped."""
    stopped: Callable[..., f.AnyFact] | None = None
    """The outcome of a task that was stopped, or that is lost."""
    in_flight: Callable[[StageAt, TaskState], StartedTask | None] | None = None
    """The task in a stage; None if a damaged log has what the plan doesn't. Hooks are also called outside of
    stages (`decide/hooks.py`)."""


KINDS: Mapping[str, Kind] = {
    "prepare": Kind("iteration", (f.IterationStarted, f.ErrorOccurred)),
    "agent": Kind(
        "attempt",
        (f.IterationCompleted, f.ErrorOccurred, f.AttemptLost, f.AttemptCancelled),
        f.AttemptEnding,
        f.AttemptCancelled,
        _agent,
    ),
    "judge": Kind("judge", (f.JudgeCompleted, f.JudgeLost), f.JudgeEnding, f.JudgeLost, _judge),
    "queue": Kind("queue", (f.QueueChecked, f.ErrorOccurred)),
    "items": Kind("items", (f.ItemsPlanned, f.ErrorOccurred)),
    "ledger": Kind("task", (f.LedgerAnswered,)),
    "manifest": Kind("manifest", (f.ManifestWritten,)),
    "hook": Kind(
        "hook", (f.HookCompleted, f.HookFailed, f.HookTimedOut, f.HookLost), f.HookEnding, f.HookLost
    ),
    "repository": Kind("task", (f.RepositorySeen,)),
    "deliver": Kind(
        "task",
        (f.DeliverCompleted, f.DeliverFailed, f.DeliverLost),
        f.DeliverEnding,
        f.DeliverLost,
        _deliver,
    ),
    "files": Kind(
        "task",
        (
            *(f.VisitTree, f.FilesFrozen, f.FrozenVerified, f.FilesRestored),
            *(f.FilesRolledBack, f.RollbackRefused, f.FilesFailed, f.FilesLost),
        ),
        f.FilesEnding,
        f.FilesLost,
        _files,
    ),
    "check": Kind("check", (f.CheckCompleted, f.CheckLost), f.CheckEnding, f.CheckLost, _check),
}


# -- tasks in flight


def in_flight(plan: Plan, state: RunState) -> Iterator[StartedTask]:
    """All of the run, whichever engine recorded the start, or that it is to be ended."""
    for provider, at in state.under_way():
        if (here := stage_at(plan, state, provider, at)) is not None:
            yield from _of_stage(here)
    yield from calls_in_flight(plan, state)


def in_flight_at(here: StageAt) -> StartedTask | None:
    """What runs in this visit of the stage: a task of its own, or a hook that is called for it."""
    hooks = calls_in_flight(here.plan, here.state, here.place.cursor(0))
    return next(_of_stage(here), None) or next(hooks, None)


def _of_stage(here: StageAt) -> Iterator[StartedTask]:
    for kind, known in here.at.tasks:
        build = KINDS[kind].in_flight
        if known.in_flight and build is not None and (task := build(here, known)) is not None:
            yield task


def ended(task: StartedTask, reason: str) -> Draft | None:
    """The fact that stops the task, or None if that is recorded already."""
    ending = KINDS[task.KIND].ending
    if task.ending or ending is None:
        return None
    return Draft(ending(**task.names, reason=reason), task.recorded_at)
