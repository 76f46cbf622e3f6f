"""What can happen in an iteration: its attempts, how they end, and what comes after one that failed."""

from datetime import datetime

from msgspec import field

from agentforge.model.facts.fact import Fact
from agentforge.model.failure import FailureKind
from agentforge.model.result import Decision, Result, Usage


class IterationStarted(Fact, frozen=True):
    TYPE = "iteration_start"

    stage: str
    type: str
    provider: str
    model: str
    prompt_sha256: str
    attempt: int = 1


class AttemptStarted(Fact, frozen=True):
    """The intent, durable before the agent is spawned."""

    TYPE = "attempt_start"

    attempt: int
    of: int
    """How many the retry policy allows; lost and cancelled ones don't count."""
    provider: str
    model: str
    timeout: float | None = None
    idle_timeout: float | None = None
    choice: int = 0
    """Which of the stage's providers: 0 is the one it names first."""
    resume: str | None = None
    """The agent's own session that it goes on with."""
    once: bool = False
    """Whether it is made again only when a person says so."""


class AttemptReattached(Fact, frozen=True):
    """A later engine found the agent still working and waits for it."""

    TYPE = "attempt_adopted"

    attempt: int
    pid: int


class AttemptLost(Fact, frozen=True):
    TYPE = "attempt_lost"

    attempt: int
    reason: str
    started: bool
    """False: the agent never ran, its supervisor can't start any more."""
    agent_session: str | None = None
    """The agent's own session, which the next attempt may go on with."""


class AttemptEnding(Fact, frozen=True):
    """A kill is intended; it is sent only after this is durable."""

    TYPE = "attempt_ending"

    attempt: int
    reason: str


class AttemptCancelled(Fact, frozen=True):
    TYPE = "attempt_cancelled"

    attempt: int
    reason: str
    agent_session: str | None = None


class ErrorOccurred(Fact, frozen=True):
    """An attempt failed, or the iteration couldn't be prepared (attempt 0)."""

    TYPE = "error"

    kind: FailureKind = field(name="type")
    message: str
    stage: str
    attempt: int
    exit_code: int | None = None
    duration_ms: int | None = None
    usage: Usage | None = None
    resets_at: datetime | None = None
    """When the quota or rate limit that was met is known to end."""
    agent_session: str | None = None
    """The agent's own session, which the next attempt may go on with."""
    started: bool = True
    """False: nothing ran."""


class RetryScheduled(Fact, frozen=True):
    TYPE = "retry_scheduled"

    attempt: int
    """The number that the next try will have among those that count."""
    of: int
    due_at: datetime
    message: str


class LimitMet(Fact, frozen=True):
    """A quota or a rate limit was met, and the iteration waits for its end."""

    TYPE = "limit_met"

    attempt: int
    provider: str
    choice: int
    until: datetime
    """The limit's end, as far as it is known."""
    due_at: datetime
    """When the next attempt is made: earlier, if another provider can work before."""
    message: str


class ProviderChanged(Fact, frozen=True):
    """The next provider of the stage's chain takes over, in the same workspace."""

    TYPE = "provider_changed"

    attempt: int
    provider: str
    choice: int
    """Who is given up, for now."""
    to: str
    to_choice: int
    message: str
    until: datetime | None = None
    """When the first one may be asked again; nothing: not before a person says go on."""
    due_at: datetime | None = None
    """When the limit of the next one ends; nothing: it can work at once."""


class IterationCompleted(Fact, frozen=True):
    TYPE = "iteration_complete"

    stage: str
    attempt: int
    decision: Decision
    reason: str
    result_file: str
    result: Result
    duration_ms: int
    output: str | None = None
    """output.md, or None where the agent said nothing."""
    text: str | None = None
    """What the agent said, where no file was written: then result and output are only here."""

    @property
    def output_file(self) -> str | None:
        """output.md, also where it isn't written yet; or None where the agent said nothing."""
        if self.output is None and self.text:
            return f"{self.result_file.rpartition('/')[0]}/output.md"
        return self.output

    usage: Usage | None = None
