"""Hooks and effects: calls, and acts on the outside world that carry a key."""

from datetime import datetime
from typing import Literal

from agentforge.model.course import CourseStep
from agentforge.model.facts.fact import (
    Fact,
    TaskEnding,
    TaskFact,
    TaskLost,
    TaskOutcome,
    TaskStarted,
    written,
)
from agentforge.model.hook import HookAction, HookOutcome, HookPoint
from agentforge.model.plan_limits import name_defect
from agentforge.model.status import TaskStatus


class HookFact(TaskFact, frozen=True):
    """What all facts about one call of a hook name."""

    KIND = "hook"

    hook: str
    point: HookPoint
    delivery: str
    """Identifies the call: the same for every try."""
    attempt: int = written(1)

    @property
    def about(self) -> str:
        return self.delivery

    @property
    def label(self) -> str:
        return self.hook


class HookStarted(HookFact, TaskStarted, frozen=True):
    """The intent to call a hook, durable before the call."""

    TYPE = "hook_start"
    FOLLOWS_ERROR = True

    action: HookAction = "call"
    timeout: float | None = None
    subject: str = ""
    """The id of the request, the number of the event that resumed the run, or why the stage is over."""

    def defect(self, _session: str) -> str:
        # Each try has a folder of this name.
        return name_defect(self.delivery)

    def step(self) -> CourseStep:
        return CourseStep("hook", attempt=self.attempt, detail=self.hook)


class HookCompleted(HookFact, TaskOutcome, frozen=True):
    """A hook answered."""

    TYPE = "hook_complete"

    action: HookOutcome = written("continue")
    reason: str = ""
    context: str = ""
    """Added to the context of later iterations."""
    answer: str = ""
    """Its answer to the request."""
    text: str = ""
    status: int | None = None
    """The HTTP status, or the exit status of a script."""
    duration_ms: int = 0

    def step(self) -> CourseStep:
        return CourseStep("hook_answer", attempt=self.attempt, detail=self.action)

    @property
    def is_progress(self) -> bool:
        """What it answers to a request counts only if that is accepted, which is another fact."""
        return self.point != "request"


class HookFailed(HookFact, TaskOutcome, frozen=True):
    """A try failed."""

    TYPE = "hook_failed"
    MOVES_TO = TaskStatus.FAILED

    message: str = ""
    retry: bool = False
    """Whether another try may help."""
    status: int | None = None
    duration_ms: int = 0

    def step(self) -> CourseStep:
        return CourseStep("hook_answer", attempt=self.attempt, detail="failed")


class HookTimedOut(HookFact, TaskOutcome, frozen=True):
    """A try took too long and was stopped."""

    TYPE = "hook_timeout"
    MOVES_TO = TaskStatus.FAILED

    duration_ms: int = 0

    def step(self) -> CourseStep:
        return CourseStep("hook_answer", attempt=self.attempt, detail="timeout")


class HookLost(HookFact, TaskLost, frozen=True):
    """The engine or host died during a try, or it was stopped on request: whether it had an effect is
    unknown."""

    TYPE = "hook_lost"
    FOLLOWS_ERROR = True

    started: bool = True
    """False if it ended before anything was sent or run."""

    def step(self) -> CourseStep:
        return CourseStep("hook_answer", attempt=self.attempt, detail="lost")


class HookEnding(HookFact, TaskEnding, frozen=True):
    """The intent to stop a try; it is stopped only after this is durable."""

    TYPE = "hook_ending"
    FOLLOWS_ERROR = True

    reason: str = ""


class HookRetryScheduled(HookFact, frozen=True):
    """Another try follows, as a retry of a failed one."""

    TYPE = "hook_retry"
    FOLLOWS_ERROR = True
    MOVES_TO = TaskStatus.WAITING

    due_at: datetime | None = None
    """None: at once."""


class HookSkipped(Fact, frozen=True):
    """The run continues without a hook's answer."""

    TYPE = "hook_skipped"

    hook: str
    point: HookPoint
    reason: str
    subject: str = ""
    answered: bool = False
    """Whether it answered, but with something that isn't possible there."""


EffectKind = Literal["webhook", "commit", "patch", "push", "pull_request"]


class EffectIntended(Fact, frozen=True):
    """The intent to act on the outside world, durable before the act."""

    TYPE = "effect_intended"
    FOLLOWS_ERROR = True

    key: str
    """The same for every try, so that the other side recognises a repeat."""
    kind: EffectKind
    target: str
    attempt: int = written(1)


class EffectDone(Fact, frozen=True):
    """The act has ended, and the outcome is known."""

    TYPE = "effect_done"
    FOLLOWS_ERROR = True

    key: str
    kind: EffectKind
    attempt: int = written(1)
    outcome: Literal["done", "failed"] = written("done")


class EffectReconciled(Fact, frozen=True):
    """What was found out about an act whose outcome was lost, and what follows."""

    TYPE = "effect_reconciled"
    FOLLOWS_ERROR = True

    key: str
    kind: EffectKind
    attempt: int = written(1)
    found: Literal["unknown", "absent", "present"] = written("unknown")
    """`absent`: it had not started, or did nothing; `present`: it was done."""
    then: Literal["repeat", "ask", "skip"] = written("repeat")


AnyHookOrEffect = (
    HookStarted
    | HookCompleted
    | HookFailed
    | HookTimedOut
    | HookLost
    | HookEnding
    | HookRetryScheduled
    | HookSkipped
    | EffectIntended
    | EffectDone
    | EffectReconciled
)
