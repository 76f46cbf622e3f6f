"""Everything that can happen in a run. A fact is in the past tense, carries its data, and is never edited:
a new meaning is a new fact, an old shape gets an upcaster. Those of an iteration are in `attempt_facts`.

Types that users of agent-pipelines know keep their spelling.
"""

from datetime import datetime
from typing import Literal, get_args

from msgspec import Struct, field

from agentforge.model.attempt_facts import (
    AttemptCancelled,
    AttemptEnding,
    AttemptLost,
    AttemptReattached,
    AttemptStarted,
    ErrorOccurred,
    IterationCompleted,
    IterationStarted,
    LimitMet,
    ProviderChanged,
    RetryScheduled,
)
from agentforge.model.fact import Fact
from agentforge.model.failure import FailureKind
from agentforge.model.plan import Mode, Plan
from agentforge.model.result import Usage
from agentforge.model.state import Between, BlockState, StageRecord, StageState
from agentforge.model.terms import Answerer, Destination, RequestKind, RequestScope, Settings

LOG_FORMAT = 2
"""Of what a run's events say; a log of another format isn't read."""


class SessionStarted(Fact, frozen=True):
    TYPE = "session_start"

    mode: Mode
    run_id: str
    plan: Plan
    engine: str
    """The version that began the run."""
    stage: str | None = None
    stage_name: str | None = None
    pipeline: str | None = None
    pipeline_file: str | None = None
    settings: Settings = field(default_factory=Settings)
    format: int = 1


class StageLeft(Struct, frozen=True, omit_defaults=True):
    """What the iterations of one stage of an imported run left behind."""

    path: str
    iterations: int
    outputs: tuple[str, ...]
    """Every output.md that exists, oldest first; the latest ones, if they are many."""
    omitted: int = 0
    result_file: str = ""
    reason: str = ""
    provider: str | None = None


class LogImported(Fact, frozen=True):
    """A run of agent-pipelines' own engine was imported. All that is needed to continue it is here: the
    lines before are only its past, and the chain begins with this one."""

    TYPE = "log_adopted"

    lines: int
    sha256: str
    """Of all lines before this one."""
    mode: Mode
    run_id: str
    plan: Plan
    engine: str
    """The version that imported it."""
    started_at: datetime
    at: StageState | BlockState | Between
    stages: tuple[StageRecord, ...] = ()
    left: tuple[StageLeft, ...] = ()
    settings: Settings = field(default_factory=Settings)
    format: int = 1


class SessionRecovered(Fact, frozen=True):
    """A process recovered a run that another one left behind."""

    TYPE = "session_recovered"

    pid: int
    host: str
    by: Literal["recovery", "person"] = "recovery"
    """Only a person's word makes the counters begin anew."""
    context: str | None = None
    record: bool = False
    """From now on what agents do is kept as a cassette."""


class NodeStarted(Fact, frozen=True):
    """A stage, or with `kind` a parallel block, was entered: a visit of it began."""

    TYPE = "node_start"

    name: str
    path: str = ""
    run: int = 1
    """Which visit this is."""
    folder: str = ""
    """Of this visit, relative to the run's own directory."""
    rounds: tuple[int, ...] = (1,)
    type: str = ""
    provider: str = ""
    model: str = ""
    runs: int = 1
    kind: Literal["parallel"] | None = None
    providers: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()


class ProviderStarted(Fact, frozen=True):
    """A provider began its part of a parallel block."""

    TYPE = "parallel_provider_start"

    provider: str
    stages: tuple[str, ...]


class ProviderCompleted(Fact, frozen=True):
    TYPE = "parallel_provider_complete"

    provider: str
    status: Literal["completed", "failed"] = "completed"
    error: str | None = None


class WorkerCompleted(Fact, frozen=True):
    """An agent inside a parallel block ended."""

    TYPE = "worker_complete"

    result_file: str
    exit_code: int


class StageCompleted(Fact, frozen=True):
    """A provider finished one stage of a parallel block."""

    TYPE = "stage_complete"

    name: str
    reason: str
    iterations: int


class ManifestWritten(Fact, frozen=True):
    """What all providers of a block left is listed in one file."""

    TYPE = "manifest_written"

    path: str


class DelayStarted(Fact, frozen=True):
    """The pause between two iterations."""

    TYPE = "delay_start"

    due_at: datetime


class TimerFired(Fact, frozen=True):
    TYPE = "timer_fired"

    timer: str


class JudgeResult(Struct, frozen=True):
    stop: bool
    reason: str
    confidence: float = 0.0


class JudgeStarted(Fact, frozen=True):
    """The judge is asked; durable before it is."""

    TYPE = "judge_start"

    provider: str
    model: str
    attempt: int = 1


class JudgeCompleted(Fact, frozen=True):
    TYPE = "judge_complete"

    status: Literal["success", "failed", "skipped"]
    result: JudgeResult
    """What counts: a judge that fails never stops a stage."""
    attempt: int = 1
    usage: Usage | None = None


class JudgeLost(Fact, frozen=True):
    """Engine or host died while the judge was at it, or it was ended on request; it is asked again."""

    TYPE = "judge_lost"

    attempt: int


class JudgeEnding(Fact, frozen=True):
    """A kill is intended; it is sent only after this is durable."""

    TYPE = "judge_ending"

    attempt: int
    reason: str


class QueueChecked(Fact, frozen=True):
    TYPE = "queue_checked"

    remaining: int


class PlanChanged(Fact, frozen=True):
    """A person had the pipeline compiled again; the run goes on by the new plan."""

    TYPE = "plan_changed"

    plan: Plan
    at: Destination | None = None
    """Where in the new plan the run is, or goes next; None: at its end."""
    paths: dict[str, str | None] = field(default_factory=dict)
    """Where the new plan has what was at each path; None where that is gone."""
    gone: dict[str, str] = field(default_factory=dict)
    """What the nodes at those paths are called, in any plan: one that comes back counts its visits on."""


class TmuxSessionCleaned(Fact, frozen=True):
    """A tmux session of this run's name was left over and nobody drove the run: it was ended."""

    TYPE = "tmux_session_cleaned"

    name: str
    pid: int | None = None
    """Of the process that drove the run last, where that is known."""


class NodeCompleted(Fact, frozen=True):
    TYPE = "node_complete"

    name: str
    reason: str
    iterations: int
    status: Literal["completed"] = "completed"
    next: Destination | None = None
    """Where the run goes from here; None: nowhere, it is at its end."""


class SessionCompleted(Fact, frozen=True):
    TYPE = "session_complete"

    reason: str


class SessionFailed(Fact, frozen=True):
    TYPE = "session_failed"

    kind: FailureKind = field(name="type")
    message: str
    stage: str


class PauseRequested(Fact, frozen=True):
    TYPE = "pause_requested"

    reason: str
    now: bool = False
    """End the agents instead of letting them finish."""
    due_at: datetime | None = None
    """When agents that are still working are ended; never, if absent."""
    control: str | None = None


class SessionPaused(Fact, frozen=True):
    TYPE = "session_paused"

    reason: str
    requests: tuple[str, ...] = ()
    """What the run waits for; an answer continues it. Empty: only a resume does."""


class SessionResumed(Fact, frozen=True):
    """A person said go on: counters begin anew."""

    TYPE = "session_resumed"

    by: str
    context: str | None = None
    record: bool = False
    """From now on what agents do is kept as a cassette."""


class CancelRequested(Fact, frozen=True):
    TYPE = "cancel_requested"

    reason: str
    control: str | None = None


class SessionAborted(Fact, frozen=True):
    TYPE = "session_aborted"

    reason: str


class RequestOpened(Fact, frozen=True):
    """A question to a person; state, not a blocked thread."""

    TYPE = "request_opened"

    id: str
    kind: RequestKind
    key: str
    """The task or the place that it is about: the same question is open once."""
    reason: str
    question: str
    options: tuple[str, ...]
    answerers: tuple[Answerer, ...] = ("person",)
    """Who may answer."""
    scope: RequestScope = "run"
    due_at: datetime | None = None
    """When the default counts as the answer."""
    default: str | None = None


class RequestAnswered(Fact, frozen=True):
    """The answer as it was given. What follows from it is recorded next to it."""

    TYPE = "request_answered"

    id: str
    answer: str
    by: str


class RequestResolved(Fact, frozen=True):
    """What the engine made of an answer: the request is closed."""

    TYPE = "request_resolved"

    id: str
    effect: Literal["continue", "succeeded", "cancel"]


class AwaitingApproval(Fact, frozen=True):
    """Nothing is left to do before somebody answers."""

    TYPE = "awaiting_approval"

    requests: tuple[str, ...]


class SessionContinued(Fact, frozen=True):
    """The run goes on after an answer; counters and limits stay as they are."""

    TYPE = "session_continued"

    requests: tuple[str, ...]
    """Those that were answered."""


class LogRepaired(Fact, frozen=True):
    """The last line was torn; it was kept aside and cut off."""

    TYPE = "log_repaired"

    bytes: int
    kept: str


class DamageAccepted(Fact, frozen=True):
    """A person chose to go on over damaged lines."""

    TYPE = "damage_accepted"

    lines: tuple[int, ...]


AnyFact = (
    IterationStarted
    | AttemptStarted
    | IterationCompleted
    | WorkerCompleted
    | DelayStarted
    | TimerFired
    | NodeStarted
    | NodeCompleted
    | ProviderStarted
    | ProviderCompleted
    | StageCompleted
    | ManifestWritten
    | JudgeStarted
    | JudgeCompleted
    | JudgeEnding
    | JudgeLost
    | QueueChecked
    | PlanChanged
    | SessionStarted
    | SessionCompleted
    | SessionFailed
    | SessionPaused
    | SessionResumed
    | SessionAborted
    | SessionRecovered
    | AttemptReattached
    | AttemptLost
    | AttemptEnding
    | AttemptCancelled
    | ErrorOccurred
    | RetryScheduled
    | LimitMet
    | ProviderChanged
    | PauseRequested
    | CancelRequested
    | RequestOpened
    | RequestAnswered
    | RequestResolved
    | AwaitingApproval
    | SessionContinued
    | LogImported
    | LogRepaired
    | DamageAccepted
    | TmuxSessionCleaned
)


FACTS: dict[str, type[AnyFact]] = {kind.TYPE: kind for kind in get_args(AnyFact)}
