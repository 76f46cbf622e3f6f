"""Where a run stands: the fold of its events. No collection here grows with the iterations."""

from datetime import datetime

from msgspec import Struct, field

from agentforge.model.event import Cursor
from agentforge.model.facts import Settings
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.plan import Mode
from agentforge.model.result import Decision
from agentforge.model.status import AttemptStatus, IterationStatus, NodeStatus, RunStatus


class AttemptState(Struct, frozen=True):
    number: int
    status: AttemptStatus
    started_at: datetime
    timeout: float | None = None
    idle_timeout: float | None = None
    failure: Failure | None = None
    ended_at: datetime | None = None
    due_at: datetime | None = None
    """When the retry is due."""


class IterationState(Struct, frozen=True):
    number: int
    status: IterationStatus
    started_at: datetime
    prompt_sha256: str = ""
    """Of the rendered prompt, to tell whether its file is still the one that was prepared."""
    attempt: AttemptState | None = None
    attempts: int = 0
    """Numbers given out; never reused, so that each attempt has its own claim."""
    failures: tuple[FailureKind, ...] = ()
    """Those that count against the retry policy; it bounds their number."""
    lost: int = 0
    """Attempts lost in a row."""


class NodeState(Struct, frozen=True):
    index: int
    run: int
    status: NodeStatus
    completed: int = 0
    iteration: IterationState | None = None
    last_decision: Decision | None = None
    last_completed_at: datetime | None = None
    delay_due: datetime | None = None
    delay_over: bool = False
    failure: Failure | None = None
    """Why the next iteration couldn't be prepared."""


class StageRecord(Struct, frozen=True):
    """A node that is done."""

    name: str
    index: int
    iterations: int
    completed_at: datetime
    reason: str
    run: int = 1


class StopRequest(Struct, frozen=True):
    cancel: bool
    reason: str
    now: bool
    due_at: datetime | None = None


class OpenRequest(Struct, frozen=True):
    id: str
    question: str
    options: tuple[str, ...]


class RunState(Struct, frozen=True):
    session: str
    run_id: str
    mode: Mode
    status: RunStatus
    started_at: datetime
    seq: int
    updated_at: datetime
    clock_from: datetime
    """Since when the runtime limit counts: the start, or the last time a person said go on."""
    settings: Settings = field(default_factory=Settings)
    cursor: Cursor | None = None
    next_node: int = 0
    node: NodeState | None = None
    stages: tuple[StageRecord, ...] = ()
    stop: StopRequest | None = None
    requests: tuple[OpenRequest, ...] = ()
    controls: tuple[str, ...] = ()
    """The latest control ids taken in, so that none counts twice."""
    accepted_damage: tuple[int, ...] = ()
    """Lines of the log that a person chose to go on without."""
    recoveries: int = 0
    """Taken up without a person asking, since the last progress."""
    paused_at: datetime | None = None
    pause_reason: str | None = None
    completed_at: datetime | None = None
    completion_reason: str | None = None
    failure: Failure | None = None
    context: str | None = None
    """What a person added when resuming."""

    @property
    def iteration(self) -> IterationState | None:
        return self.node.iteration if self.node else None

    @property
    def attempt(self) -> AttemptState | None:
        return self.node.iteration.attempt if self.node and self.node.iteration else None
