"""Judge and queue: the external termination of a stage."""

from typing import Literal

from msgspec import Struct

from agentforge.model.course import CourseStep
from agentforge.model.facts.fact import Fact, TaskEnding, TaskFact, TaskLost, TaskOutcome, TaskStarted
from agentforge.model.result import Usage
from agentforge.model.spending import Amount


class JudgeResult(Struct, frozen=True):
    stop: bool
    reason: str
    confidence: float = 0.0


class JudgeFact(TaskFact, frozen=True):
    KIND = "judge"


class JudgeStarted(JudgeFact, TaskStarted, frozen=True):
    """The intent to call the judge, durable before the call."""

    TYPE = "judge_start"

    provider: str
    model: str
    attempt: int = 1
    reserves: Amount | None = None
    """What it may spend, if that is bounded."""

    def step(self) -> CourseStep:
        # Who judges depends on the machine, not on the definition.
        return CourseStep("judge", attempt=self.attempt)


class JudgeCompleted(JudgeFact, TaskOutcome, frozen=True):
    """The judge answered, failed or was not needed."""

    TYPE = "judge_complete"

    status: Literal["success", "failed", "skipped"]
    result: JudgeResult
    """A judge that fails never stops a stage."""
    attempt: int = 1
    usage: Usage | None = None
    error: str = ""
    """Why it failed, for people; empty if it answered."""
    capped: bool = False
    """Whether it failed because it used up what was reserved for it."""

    def step(self) -> CourseStep:
        answer = "stop" if self.result.stop else "continue"
        detail = answer if self.status == "success" else self.status
        return CourseStep("judgment", attempt=self.attempt, detail=detail)

    @property
    def is_progress(self) -> bool:
        return self.status == "success"


class JudgeEnding(JudgeFact, TaskEnding, frozen=True):
    """The intent to kill; the signal is sent only after this is durable."""

    TYPE = "judge_ending"

    attempt: int
    reason: str


class JudgeLost(JudgeFact, TaskLost, frozen=True):
    """The engine or host died during the call, or it was stopped on request; it is retried."""

    TYPE = "judge_lost"

    attempt: int

    def step(self) -> CourseStep:
        return CourseStep("judge_lost", attempt=self.attempt)


class QueueChecked(Fact, frozen=True):
    """The queue of tasks was read."""

    TYPE = "queue_checked"

    remaining: int

    def step(self) -> CourseStep:
        return CourseStep("queue", detail=str(self.remaining))


AnyJudgeFact = JudgeStarted | JudgeCompleted | JudgeEnding | JudgeLost | QueueChecked
