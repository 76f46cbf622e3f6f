"""One row per kind of task: its facts, and how a task in flight is made of the state of its stage.

What holds for every task is written for the base classes of the facts (`model/facts/fact.py`). A kind without
an intent is idempotent: it is started again after a crash.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from agentforge.engine.decide.stage_at import StageAt
from agentforge.model import facts as f
from agentforge.model.course import CourseStepKind
from agentforge.model.failure import FailureKind
from agentforge.model.state import AttemptState, TaskState
from agentforge.model.status import TaskStatus
from agentforge.model.task import AgentTask, CheckTask, JudgeTask, StartedTask


def _agent(here: StageAt, attempt: TaskState) -> AgentTask | None:
    iteration = here.at.iteration
    assert iteration is not None
    assert isinstance(attempt, AttemptState)
    return AgentTask(
        **_started(here, attempt, iteration.number),
        by=here.node.chosen(attempt.choice),
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


def _judge(here: StageAt, call: TaskState) -> JudgeTask | None:
    return JudgeTask(**_started(here, call, here.at.completed), by=here.plan.judge_of(here.node))


def _check(here: StageAt, call: TaskState) -> CheckTask | None:
    check = here.node.check(call.about)
    if check is None:  # a damaged log
        return None
    return CheckTask(**_started(here, call, here.at.completed), check=check, before=call.files)


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
    "manifest": Kind("manifest", (f.ManifestWritten,)),
    "hook": Kind(
        "hook", (f.HookCompleted, f.HookFailed, f.HookTimedOut, f.HookLost), f.HookEnding, f.HookLost
    ),
    "check": Kind("check", (f.CheckCompleted, f.CheckLost), f.CheckEnding, f.CheckLost, _check),
}
