"""Everything that can happen in a run, grouped by subject. A fact is named in the past tense, carries its
data, and is never edited: a new meaning is a new fact.

Event types that agent-pipelines already had keep their spelling.
"""

from typing import get_args

from agentforge.model.facts.check import (
    CheckCompleted,
    CheckEnding,
    CheckLost,
    CheckPrepared,
    CheckStarted,
    CheckWaived,
    StageTransitioned,
    StageVerdictReached,
)
from agentforge.model.facts.fact import Fact, TaskEnding, TaskFact, TaskLost, TaskOutcome, TaskStarted
from agentforge.model.facts.hook import (
    EffectDone,
    EffectIntended,
    EffectReconciled,
    HookCompleted,
    HookEnding,
    HookFact,
    HookFailed,
    HookLost,
    HookRetryScheduled,
    HookSkipped,
    HookStarted,
    HookTimedOut,
)
from agentforge.model.facts.iteration import (
    AttemptCancelled,
    AttemptEnding,
    AttemptLost,
    AttemptReattached,
    AttemptStarted,
    ErrorOccurred,
    GitLeft,
    IterationCompleted,
    IterationStarted,
    LimitMet,
    ProviderChanged,
    RetryScheduled,
    StageRetried,
    TreeTaken,
)
from agentforge.model.facts.judge import (
    JudgeCompleted,
    JudgeEnding,
    JudgeLost,
    JudgeResult,
    JudgeStarted,
    QueueChecked,
)
from agentforge.model.facts.log import DamageAccepted, ImportedStage, LogImported, LogRepaired
from agentforge.model.facts.node import (
    DelayStarted,
    ManifestWritten,
    NodeCompleted,
    NodeRestarted,
    NodeStarted,
    ProviderCompleted,
    ProviderStarted,
    StageCompleted,
    TimerFired,
    WorkerCompleted,
)
from agentforge.model.facts.request import CheckpointCleared, RequestAnswered, RequestOpened, RequestResolved
from agentforge.model.facts.run import (
    AwaitingApproval,
    CancelRequested,
    FileRefused,
    NoteAdded,
    PauseRequested,
    PlanChanged,
    RestartRequested,
    SessionAborted,
    SessionCompleted,
    SessionContinued,
    SessionFailed,
    SessionPaused,
    SessionRecovered,
    SessionResumed,
    SessionStarted,
    TmuxSessionCleaned,
)

LOG_FORMAT = 2
"""The format of a run's events. Logs in any other format are rejected."""

AnyFact = (
    IterationStarted
    | AttemptStarted
    | IterationCompleted
    | WorkerCompleted
    | DelayStarted
    | TimerFired
    | NodeStarted
    | NodeCompleted
    | NodeRestarted
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
    | PauseRequested
    | CancelRequested
    | RequestOpened
    | RequestAnswered
    | RequestResolved
    | CheckpointCleared
    | RestartRequested
    | NoteAdded
    | AwaitingApproval
    | SessionContinued
    | LogImported
    | LogRepaired
    | DamageAccepted
    | TmuxSessionCleaned
    | FileRefused
    | CheckStarted
    | CheckPrepared
    | CheckCompleted
    | CheckEnding
    | CheckLost
    | CheckWaived
    | StageVerdictReached
    | StageTransitioned
    | HookStarted
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


FACTS: dict[str, type[AnyFact]] = {kind.TYPE: kind for kind in get_args(AnyFact)}
