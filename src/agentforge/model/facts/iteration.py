"""Iterations and attempts: how they end, and what follows a failed one."""

from datetime import datetime
from typing import Literal

from msgspec import field

from agentforge.model.artifact import Artifact, ContextUse
from agentforge.model.changes import LeftInGit
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
from agentforge.model.failure import FailureKind
from agentforge.model.plan_limits import artifact_defect
from agentforge.model.result import Decision, Result, Usage
from agentforge.model.spending import Amount
from agentforge.model.status import IterationStatus, TaskStatus


class IterationStarted(Fact, frozen=True):
    """An iteration is prepared: its prompt and its context are written."""

    TYPE = "iteration_start"
    MOVES_TO = IterationStatus.STARTED

    stage: str
    type: str
    provider: str
    model: str
    prompt_sha256: str
    attempt: int = written(1)
    item: str = ""
    """The item that it is about."""
    context: ContextUse | None = None
    """How much it was given, if the stage has a context strategy or a budget."""

    def step(self) -> CourseStep:
        return CourseStep("iteration")


class AttemptFact(TaskFact, frozen=True):
    KIND = "agent"


class AttemptStarted(AttemptFact, TaskStarted, frozen=True):
    """The intent, durable before the agent is spawned."""

    TYPE = "attempt_start"

    attempt: int
    of: int
    """The number of attempts that the retry policy allows; lost and cancelled ones don't count."""
    provider: str
    model: str
    timeout: float | None = None
    idle_timeout: float | None = None
    choice: int = 0
    """Index into the stage's provider chain; 0 is the first."""
    resume: str | None = None
    """The agent session that it resumes."""
    once: bool = False
    """Whether a retry needs a person's approval."""
    reserves: Amount | None = None
    """What it may spend, if that is bounded; the rest of the reservation is free again when it has ended."""

    def step(self) -> CourseStep:
        return CourseStep("attempt", attempt=self.attempt, detail=self.provider)


class TreeTaken(Fact, frozen=True):
    """The files of the project before an attempt, if they differ from the tree recorded last; or why there is
    no tree."""

    TYPE = "tree_taken"
    EXTERNAL = True
    FOLLOWS_ERROR = True

    attempt: int
    when: Literal["before", "after"] = "before"
    tree: str | None = None
    omitted: int = 0
    """How many files are too large for the tree."""
    problem: str = ""


class GitLeft(Fact, frozen=True):
    """What a confined program left in the project that git would obey: repositories, submodules, and files
    that git's settings name. What could start a program is renamed after this was recorded."""

    TYPE = "git_left"
    EXTERNAL = True
    FOLLOWS_ERROR = True

    items: tuple[LeftInGit, ...]
    omitted: int = 0
    """How many more there are."""


class AttemptReattached(Fact, frozen=True):
    """A later engine found the agent still running and waits for it."""

    TYPE = "attempt_reattached"
    EXTERNAL = True

    attempt: int
    pid: int


class AttemptLost(AttemptFact, TaskLost, frozen=True):
    """An attempt ended without an outcome, as its engine, its supervisor or the machine died."""

    TYPE = "attempt_lost"

    attempt: int
    reason: str
    started: bool
    """False if the agent never ran; its supervisor can no longer start it."""
    agent_session: str | None = None
    """The agent session, which the next attempt may resume."""
    tree: str | None = None
    """The files of the project after the attempt, as in every outcome; None: unknown."""

    def step(self) -> CourseStep:
        return CourseStep("attempt_lost", attempt=self.attempt)


class AttemptEnding(AttemptFact, TaskEnding, frozen=True):
    """The intent to kill; the signal is sent only after this is durable."""

    TYPE = "attempt_ending"

    attempt: int
    reason: str


class AttemptCancelled(AttemptFact, TaskOutcome, frozen=True):
    """An attempt was ended by a pause or by a cancelled run."""

    TYPE = "attempt_cancelled"
    MOVES_TO = TaskStatus.CANCELLED

    attempt: int
    reason: str = written("ended on request")
    agent_session: str | None = None
    tree: str | None = None

    def step(self) -> CourseStep:
        return CourseStep("attempt_cancelled", attempt=self.attempt)


class ErrorOccurred(AttemptFact, TaskOutcome, frozen=True):
    """An attempt failed, or the iteration couldn't be prepared (attempt 0)."""

    TYPE = "error"
    MOVES_TO = TaskStatus.FAILED

    kind: FailureKind = field(name="type")
    message: str
    stage: str
    attempt: int
    exit_code: int | None = None
    duration_ms: int | None = None
    usage: Usage | None = None
    resets_at: datetime | None = None
    """When the quota or rate limit resets, if known."""
    agent_session: str | None = None
    """The agent session, which the next attempt may resume."""
    started: bool = True
    """False if nothing ran."""
    tree: str | None = None

    def step(self) -> CourseStep:
        return CourseStep("error", attempt=self.attempt, detail=self.kind.value)


class RetryScheduled(Fact, frozen=True):
    """A failed attempt will be repeated."""

    TYPE = "retry_scheduled"
    FOLLOWS_ERROR = True
    MOVES_TO = TaskStatus.WAITING

    attempt: int
    """The number of the next attempt among those that count."""
    of: int
    due_at: datetime
    message: str


class StageRetried(Fact, frozen=True):
    """A stage failed, and is retried from the iteration that failed, or from the check without a result."""

    TYPE = "stage_retry"
    FOLLOWS_ERROR = True
    MOVES_TO = TaskStatus.WAITING

    number: int
    of: int
    due_at: datetime
    kind: FailureKind = field(name="type")
    message: str
    failures: int = 0
    """How many attempts at the iteration failed; 0: a check had no result."""


class LimitMet(Fact, frozen=True):
    """A quota or rate limit was hit, and the iteration waits for it to reset."""

    TYPE = "limit_met"
    FOLLOWS_ERROR = True
    MOVES_TO = TaskStatus.WAITING

    attempt: int
    provider: str
    choice: int
    until: datetime
    """When the limit is expected to reset."""
    due_at: datetime
    """When the next attempt starts: earlier than `until` if another provider becomes available first."""
    message: str


class ProviderChanged(Fact, frozen=True):
    """The next provider of the stage's chain takes over, in the same workspace."""

    TYPE = "provider_changed"
    FOLLOWS_ERROR = True
    MOVES_TO = TaskStatus.DUE

    attempt: int
    provider: str
    choice: int
    """The index of the provider that is replaced for now."""
    to: str
    to_choice: int
    message: str
    until: datetime | None = None
    """When the replaced provider may be used again; None: only after a person resumes the run."""
    due_at: datetime | None = None
    """When the next provider's limit resets; None: it is available now."""


class IterationCompleted(AttemptFact, TaskOutcome, frozen=True):
    """An iteration ended with a result."""

    TYPE = "iteration_complete"

    stage: str
    attempt: int
    decision: Decision
    reason: str
    result_file: str
    """Relative to the run directory, like `output`."""
    result: Result
    duration_ms: int
    output: str | None = None
    """output.md, or None if the agent printed nothing."""
    text: str | None = None
    """The agent's output if no file was written: result and output are then only in the log."""

    @property
    def output_file(self) -> str | None:
        """output.md, even if not written yet, or None if the agent printed nothing."""
        if self.output is None and self.text:
            return f"{self.result_file.rpartition('/')[0]}/output.md"
        return self.output

    usage: Usage | None = None
    tree: str | None = None
    artifact: Artifact | None = None

    def defect(self, _session: str) -> str:
        return artifact_defect(self.artifact)

    def step(self) -> CourseStep:
        return CourseStep("answer", attempt=self.attempt, detail=self.decision.value)


AnyIterationFact = (
    IterationStarted
    | AttemptStarted
    | IterationCompleted
    | AttemptReattached
    | TreeTaken
    | GitLeft
    | AttemptLost
    | AttemptEnding
    | AttemptCancelled
    | ErrorOccurred
    | RetryScheduled
    | StageRetried
    | LimitMet
    | ProviderChanged
)
