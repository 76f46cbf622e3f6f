"""Where a run stands: the fold of its events. No collection here grows with the iterations."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from agentforge.model.cursor import Cursor, Destination
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.plan import Mode
from agentforge.model.result import Decision, Usage
from agentforge.model.status import IterationStatus, NodeStatus, RunStatus, TaskStatus

RequestKind = Literal["approval", "checkpoint", "question", "escalation", "pause"]
RequestScope = Literal["run", "branch"]
Answerer = Literal["person", "agent"]

AT_MOST_ONCE = "at_most_once"
"""Why a run is paused that asks whether work may be done again."""


class RunSettings(Struct, frozen=True, omit_defaults=True):
    """What the environment decided for this run when it began, so that a resume decides the same."""

    mock: bool = False
    delay: float | None = None
    """Replaces every stage's delay, as mock mode does."""
    plateau_test: bool = False
    """No judge: the workers' own suspicion of a plateau counts as its word."""
    record: bool = False
    """What agents do is kept as a cassette."""
    replay: float | None = None
    """A cassette is played at this speed instead of asking anybody."""


class TaskState(Struct, frozen=True):
    """A task that was started, of whatever kind."""

    number: int
    status: TaskStatus
    started_at: datetime
    lost: int = 0
    """Tries lost in a row, this one included."""
    failure: Failure | None = None
    ended_at: datetime | None = None
    started: bool = True
    """False: it ended before anything ran."""
    excused: bool = False
    """Whether a person answered that the next try may be made, whatever came of this one."""

    @property
    def in_flight(self) -> bool:
        return self.status in IN_FLIGHT


class AttemptState(TaskState, frozen=True, kw_only=True):
    """An agent's attempt, with what the next one depends on."""

    timeout: float | None = None
    idle_timeout: float | None = None
    due_at: datetime | None = None
    """When the retry is due."""
    choice: int = 0
    """Which of the stage's providers."""
    resume: str | None = None
    """The agent's own session that it continues."""
    before: Usage | None = None
    """What that session had used before."""
    once: bool = False
    """Whether it is made again only when a person says so."""

    @property
    def came_to_nothing(self) -> bool:
        """Whether it ended without a result and may have done a part of its work."""
        return self.started and self.status in _WITHOUT_RESULT


IN_FLIGHT = frozenset({TaskStatus.RUNNING, TaskStatus.ENDING})
_WITHOUT_RESULT = frozenset({TaskStatus.FAILED, TaskStatus.LOST, TaskStatus.CANCELLED})


class AgentSession(Struct, frozen=True):
    """An agent's own session that came to nothing yet, and may be gone on with."""

    id: str
    choice: int
    continued: int = 0
    used: Usage | None = None


class Unavailable(Struct, frozen=True):
    """A provider of the stage's chain that isn't asked for now."""

    choice: int
    until: datetime | None
    """Nothing: not before a person says go on."""
    message: str = ""
    limited: bool = False
    """Whether it is at a limit, which ends by waiting."""


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
    agent: AgentSession | None = None
    limited: int = 0
    """Limits met, by all providers of the chain."""
    limited_since: datetime | None = None
    gave_way: int = 0
    """How often a provider that failed gave way to another."""


class StageState(Struct, frozen=True, tag="stage"):
    """A stage under way: a node of the run, or one stage of a branch."""

    path: str
    run: int
    folder: str = ""
    """Of this visit, as it was recorded; empty in a branch, whose folder says where its stages lie."""
    completed: int = 0
    iteration: IterationState | None = None
    last_decision: Decision | None = None
    last_completed_at: datetime | None = None
    delay_due: datetime | None = None
    delay_over: bool = False
    failure: Failure | None = None
    """Why the next iteration couldn't be prepared."""
    judge: TaskState | None = None
    """Of the judge at work on the latest iteration."""
    judge_tries: int = 0
    """How often it failed on that iteration."""
    judged: int = 0
    """The latest iteration on which the judge had its say."""
    stops: int = 0
    """How often in a row the judge said stop."""
    plateaus: int = 0
    """How often in a row the workers suspected a plateau."""
    judge_failures: int = 0
    """How often in a row the judge failed; beyond a few it isn't asked any more."""
    judge_reason: str = ""
    queue_checked: int = -1
    """After how many iterations the queue was looked at last."""
    queue_left: int = 0
    unavailable: tuple[Unavailable, ...] = ()
    """Providers of its chain that aren't asked for now; as many as the chain has at most."""

    @property
    def position(self) -> int:
        """In a branch: which of its stages this is."""
        return position_of(self.path)


class StageRecord(Struct, frozen=True):
    """A node that is done, or a stage of a branch."""

    name: str
    path: str
    iterations: int
    completed_at: datetime
    reason: str
    run: int = 1
    rounds: tuple[int, ...] = (1,)
    """Which time round each pipeline was that it is in."""


class BranchState(Struct, frozen=True):
    """One provider's way through a parallel block."""

    provider: str
    status: NodeStatus = NodeStatus.PENDING
    stage: StageState | None = None
    stages: tuple[StageRecord, ...] = ()
    failure: Failure | None = None
    started_at: datetime | None = None

    @property
    def next_stage(self) -> int:
        return position_of(self.stages[-1].path) + 1 if self.stages else 0

    @property
    def completed(self) -> int:
        """Iterations, over all stages."""
        return sum(record.iterations for record in self.stages) + (self.stage.completed if self.stage else 0)


class BlockState(Struct, frozen=True, tag="block"):
    """A parallel block under way; its branches are parts of the same run, not runs of their own."""

    path: str
    run: int
    folder: str = ""
    branches: tuple[BranchState, ...] = ()
    manifest: bool = False

    @property
    def completed(self) -> int:
        """Iterations, over all branches."""
        return sum(branch.completed for branch in self.branches)

    def branch(self, provider: str) -> BranchState | None:
        return next((branch for branch in self.branches if branch.provider == provider), None)

    def resumed(self, stage_on_resume: "Callable[[StageState], StageState]") -> "BlockState":
        """Branches that failed go on where they failed; those that are done stay done."""
        return replace(self, branches=tuple(_resumed(branch, stage_on_resume) for branch in self.branches))


class Start(Struct, frozen=True, tag="start"):
    """Nothing was entered yet."""


class Between(Struct, frozen=True, tag="between"):
    """A node is done, and the next one isn't entered yet."""

    next: Destination | None
    """None: the run is at its end."""


Position = Start | Between | StageState | BlockState
"""Where a run is."""


def position_of(path: str) -> int:
    """A node's number among its siblings; 0 where a damaged log has no number there."""
    last = path.rpartition(".")[2]
    return int(last) if last.isascii() and last.isdigit() else 0


class Stop(Struct, frozen=True):
    """What a pause or a cancel asks for."""

    cancel: bool
    reason: str
    now: bool
    due_at: datetime | None = None


class Request(Struct, frozen=True, omit_defaults=True):
    """A question that is open, or answered and not yet resolved."""

    id: str
    kind: RequestKind
    key: str
    reason: str
    question: str
    options: tuple[str, ...]
    opened_at: datetime
    answerers: tuple[Answerer, ...] = ("person",)
    scope: RequestScope = "run"
    due_at: datetime | None = None
    default: str | None = None
    at: Cursor | None = None
    """Where it was asked."""
    overdue: bool = False
    answer: str | None = None
    answered_by: str = ""

    @property
    def is_open(self) -> bool:
        return self.answer is None

    @property
    def is_overdue(self) -> bool:
        """Whether its time was over before anybody answered: then its default is the answer."""
        return self.is_open and self.overdue and self.default is not None


class Note(Struct, frozen=True):
    """Something that was added to the context of all later iterations."""

    text: str
    by: str


MAX_NOTES_BYTES = 32 * 1024


def kept_notes(notes: tuple[Note, ...]) -> tuple[Note, ...]:
    """The latest notes that fit into the context; the oldest are dropped."""
    room, kept = MAX_NOTES_BYTES, 0
    for note in reversed(notes):
        room -= len(note.text.encode("utf-8", "replace"))
        if room < 0:
            break
        kept += 1
    return notes[len(notes) - kept :]


class Spending(Struct, frozen=True):
    """What all attempts and judges of the run used, as far as their providers say."""

    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0

    def plus(self, usage: Usage | None) -> "Spending":
        if usage is None:
            return self
        return Spending(
            self.cost_usd + (usage.cost_usd or 0.0),
            self.input_tokens + (usage.input_tokens or 0),
            self.output_tokens + (usage.output_tokens or 0),
        )


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
    settings: RunSettings = field(default_factory=RunSettings)
    cursor: Cursor | None = None
    """Of the latest event, in a parallel block that of the block itself."""
    at: Position = Start()
    visits: dict[str, int] = field(default_factory=dict)
    """How often each path was entered; of nodes that the plan no longer has, by their names."""
    rounds: tuple[int, ...] = (1,)
    """Which time round each pipeline is that the current node is in, the outermost first."""
    stages: tuple[StageRecord, ...] = ()
    """Nodes that are done: the latest visit of each, in the order in which they ended."""
    spending: Spending = Spending()
    stop: Stop | None = None
    requests: tuple[Request, ...] = ()
    """Open ones, and answered ones whose consequences aren't recorded yet."""
    waits: bool = False
    """Whether the run stopped because of its requests, so that an answer continues it."""
    controls: tuple[str, ...] = ()
    """The latest control ids taken in, so that none counts twice."""
    accepted_damage: tuple[int, ...] = ()
    """Lines of the log that a person chose to go on without."""
    recoveries: int = 0
    """Since the last progress, without a person asking."""
    recoveries_excused: int = 0
    """How many of them a person knows of and had the run go on."""
    paused_at: datetime | None = None
    pause_reason: str | None = None
    completed_at: datetime | None = None
    completion_reason: str | None = None
    failure: Failure | None = None
    notes: tuple[Note, ...] = ()
    """What people added to the context, as much of it as is kept."""
    resumed_at: datetime | None = None
    recompiled: bool = False
    """Whether the plan is no longer the one that the session started with."""

    @property
    def note_texts(self) -> tuple[str, ...]:
        return tuple(note.text for note in self.notes)

    @property
    def open_requests(self) -> tuple[Request, ...]:
        return tuple(request for request in self.requests if request.is_open)

    @property
    def node(self) -> StageState | None:
        """The stage that the run is at, outside of blocks."""
        return self.at if isinstance(self.at, StageState) else None

    @property
    def block(self) -> BlockState | None:
        return self.at if isinstance(self.at, BlockState) else None

    def stage(self, provider: str | None) -> StageState | None:
        """The stage under way: of the run itself, or of a provider's branch."""
        if provider is None:
            return self.node
        branch = self.block.branch(provider) if self.block else None
        return branch.stage if branch else None

    def under_way(self) -> "Iterator[tuple[str | None, StageState]]":
        """Every stage under way, each with the provider whose branch it is in."""
        match self.at:
            case StageState() as stage:
                yield None, stage
            case BlockState(branches=branches):
                for branch in branches:
                    if branch.stage is not None:
                        yield branch.provider, branch.stage

    @property
    def iteration(self) -> IterationState | None:
        return self.node.iteration if self.node else None

    @property
    def attempt(self) -> AttemptState | None:
        return self.iteration.attempt if self.iteration else None


def _resumed(branch: BranchState, stage_on_resume: "Callable[[StageState], StageState]") -> BranchState:
    status = NodeStatus.RUNNING if branch.status is NodeStatus.FAILED else branch.status
    stage = stage_on_resume(branch.stage) if branch.stage else None
    return replace(branch, status=status, failure=None, stage=stage)
